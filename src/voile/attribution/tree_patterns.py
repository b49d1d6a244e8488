"""Exact Shapley values of trees over many background rows at once.

A leaf asks something of each feature on its path. For one leaf, a row is therefore a pattern of
bits: which features would let it in. Let a be the pattern of an explained row and b that of a
background row. A coalition reaches the leaf if it holds every feature that b fails at, and none
that a fails at; so the leaf has a part only if no feature fails in both. With p features that a
alone passes and q that b alone passes, the Shapley values of the leaf are its weight times

    + (p − 1)!·q!/(p + q)!   for each of the p features,
    − p!·(q − 1)!/(p + q)!   for each of the q features.

They depend on the patterns alone. So background rows are counted by pattern, once, and one product
with a table gives the values of every pattern a row can have. The cost for a row does not grow with
the background.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import factorial
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from voile.models import Rows

Values: TypeAlias = NDArray[np.float64]
"""Shape (rows, features, outputs)."""

WIDEST: Final = 8
"""Features on a path that a table is made for: it has 4^WIDEST·WIDEST entries."""
MOST_WIDE: Final = 5_000
MOST: Final = 100_000
"""Leaves with longer paths, and leaves in all; of more, shap walks the trees faster."""
_CELLS: Final = 1 << 20
"""Numbers that are held at once, about: what a processor's cache holds."""
_KEPT: Final = 1 << 21
"""Patterns whose values are kept between calls."""
_MOST_BITS: Final = 60


@dataclass(frozen=True, eq=False)
class Leaves:
    """Leaves of any trees that ask something of the same number of features.

    Args:
        features: which ones, shape (leaves, width).
        above, upto: a value passes if it is larger than one and not larger than the other.
        lets_missing: whether a missing value passes; all of this shape.
        weights: what a leaf adds to each output, shape (leaves, outputs).
    """

    features: NDArray[np.intp]
    above: NDArray[np.float64]
    upto: NDArray[np.float64]
    lets_missing: NDArray[np.bool_]
    weights: NDArray[np.float64]

    @property
    def width(self) -> int:
        return self.features.shape[1]

    def __len__(self) -> int:
        return len(self.features)

    def part(self, start: int, stop: int) -> Leaves:
        """Some of them."""
        return Leaves(*(array[start:stop] for array in vars(self).values()))

    def patterns(self, rows: Rows) -> NDArray[np.intp]:
        """For each row and leaf the bits of the features that pass, shape (rows, leaves)."""
        found = np.zeros((len(rows), len(self)), dtype=np.intp)
        for place in range(self.width):
            values = rows[:, self.features[:, place]]
            passes = (values > self.above[:, place]) & (values <= self.upto[:, place])
            passes |= np.isnan(values) & self.lets_missing[:, place]
            found |= passes.astype(np.intp) << place
        return found


@lru_cache(maxsize=16)
def pattern_table(width: int) -> NDArray[np.float64]:
    """The values of a leaf of weight 1, shape (background patterns, row patterns, features)."""
    every = 1 << width
    a, b = np.arange(every)[np.newaxis, :], np.arange(every)[:, np.newaxis]
    mine, theirs = a & ~b, b & ~a
    met = (a | b) == every - 1
    p, q = np.bitwise_count(mine), np.bitwise_count(theirs)
    gain, loss = _coefficients(width)
    table = np.zeros((every, every, width))
    for place in range(width):
        table[:, :, place] = np.where(mine >> place & 1, gain[p, q], 0.0)
        table[:, :, place] -= np.where(theirs >> place & 1, loss[p, q], 0.0)
    table *= met[:, :, np.newaxis]
    table.flags.writeable = False
    return table


def _coefficients(width: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    gain, loss = np.zeros((2, width + 1, width + 1))
    for p in range(width + 1):
        for q in range(width + 1 - p):
            if p:
                gain[p, q] = factorial(p - 1) * factorial(q) / factorial(p + q)
            if q:
                loss[p, q] = factorial(p) * factorial(q - 1) / factorial(p + q)
    return gain, loss


@dataclass(frozen=True, eq=False)
class CountedLeaves:
    """Leaves with short paths, and how many background rows have which pattern.

    Args:
        leaves: see `Leaves`.
        share: of the background with each pattern, shape (leaves, patterns).
        kept: the values of each pattern of a row, if they are kept between calls.
    """

    leaves: Leaves
    share: NDArray[np.float64]
    kept: NDArray[np.float64] | None

    @classmethod
    def over(cls, leaves: Leaves, background: Rows, *, keep: bool) -> CountedLeaves:
        """Count the background rows by pattern."""
        every = 1 << leaves.width
        counts = np.zeros(len(leaves) * every)
        offset = np.arange(len(leaves)) * every
        for rows in _batches(background, len(leaves)):
            found = leaves.patterns(rows) + offset
            counts += np.bincount(found.ravel(), minlength=len(counts))
        share = counts.reshape(len(leaves), every) / len(background)
        return cls(leaves, share, _values(share, leaves.width) if keep else None)

    @property
    def mean(self) -> NDArray[np.float64]:
        """What these leaves add to the mean output over the background, shape (outputs,)."""
        found: NDArray[np.float64] = self.share[:, -1] @ self.leaves.weights
        return found

    def add(self, rows: Rows, total: Values) -> None:
        """Add the values of these leaves, shape (rows, features, outputs)."""
        leaves, each = self.leaves, np.arange(len(self.leaves))
        values = _values(self.share, leaves.width) if self.kept is None else self.kept
        start = 0
        for part in _batches(rows, len(leaves) * leaves.width):
            found = values[each, leaves.patterns(part)]  # (rows, leaves, width)
            _add_up(found, leaves, total[start : start + len(part)])
            start += len(part)


def _values(share: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    """Of a leaf of weight 1 for each pattern of a row, shape (leaves, patterns, width)."""
    every = 1 << width
    found = share @ pattern_table(width).reshape(every, every * width)
    return found.reshape(len(share), every, width)


def _add_up(found: NDArray[np.float64], leaves: Leaves, total: Values) -> None:
    """Add (rows, leaves, width), weighed, to the features they are about."""
    count, features, outputs = total.shape
    cells = (np.arange(count)[:, np.newaxis, np.newaxis] * features + leaves.features).ravel()
    for output in range(outputs):
        weighted = found * leaves.weights[:, output, np.newaxis]
        added = np.bincount(cells, weighted.ravel(), minlength=count * features)
        total[:, :, output] += added.reshape(count, features)


def _batches(rows: Rows, cells: int) -> Iterator[Rows]:
    step = max(1, _CELLS // max(cells, 1))
    return (rows[start : start + step] for start in range(0, len(rows), step))


@dataclass(frozen=True, eq=False)
class WideLeaf:
    """A leaf with a long path: only the patterns that occur are looked at.

    Args:
        leaf: one leaf.
        patterns: of the background, each once.
        share: of the background with each.
    """

    leaf: Leaves
    patterns: NDArray[np.intp]
    share: NDArray[np.float64]

    @classmethod
    def over(cls, leaf: Leaves, background: Rows) -> WideLeaf:
        """Count the background rows by pattern."""
        found, counts = np.unique(leaf.patterns(background)[:, 0], return_counts=True)
        return cls(leaf, found, counts / len(background))

    @property
    def mean(self) -> NDArray[np.float64]:
        """What the leaf adds to the mean output over the background, shape (outputs,)."""
        all_pass = self.patterns == (1 << self.leaf.width) - 1
        found: NDArray[np.float64] = self.share[all_pass].sum() * self.leaf.weights[0]
        return found

    def add(self, rows: Rows, total: Values) -> None:
        """Add the values of this leaf, shape (rows, features, outputs)."""
        width, every = self.leaf.width, (1 << self.leaf.width) - 1
        mine, place = np.unique(self.leaf.patterns(rows)[:, 0], return_inverse=True)
        a, b = mine[:, np.newaxis], self.patterns[np.newaxis]
        met = np.where((a | b) == every, self.share, 0.0)
        gain, loss = _coefficients(width)
        p, q = np.bitwise_count(a & ~b), np.bitwise_count(b & ~a)
        p, q = np.where(met > 0, p, 0), np.where(met > 0, q, 0)
        has, theirs = _bits(mine, width), _bits(self.patterns, width)
        values = has * ((met * gain[p, q]) @ (1 - theirs))
        values -= (1 - has) * ((met * loss[p, q]) @ theirs)
        _add_up(values[place.reshape(-1)][:, np.newaxis], self.leaf, total)


def _bits(patterns: NDArray[np.intp], width: int) -> NDArray[np.float64]:
    return (patterns[:, np.newaxis] >> np.arange(width) & 1).astype(np.float64)


@dataclass(frozen=True, eq=False)
class TreePatterns:
    """An ensemble of trees over a background.

    Args:
        parts: its leaves.
        dtype: of the values that trees compare.
        base: the mean output over the background, shape (outputs,).
    """

    parts: tuple[CountedLeaves | WideLeaf, ...]
    dtype: Any
    base: NDArray[np.float64]

    @classmethod
    def from_ensemble(cls, ensemble: Any, background: Rows) -> TreePatterns | None:
        """From shap's reading of an ensemble; None if its trees are too large for this.

        Args:
            ensemble: `shap.TreeExplainer(model).model`.
            background: NaN where a value is missing.
        """
        groups = leaves_by_width(ensemble)
        if groups is None:
            return None
        rows = as_compared(background, ensemble.input_dtype)
        keep = sum(len(each) << each.width for each in groups if each.width <= WIDEST) <= _KEPT
        parts: list[CountedLeaves | WideLeaf] = []
        for group in groups:
            if group.width > WIDEST:
                parts += [WideLeaf.over(group.part(n, n + 1), rows) for n in range(len(group))]
            else:
                parts += [CountedLeaves.over(each, rows, keep=keep) for each in _in_parts(group)]
        return cls(tuple(parts), ensemble.input_dtype, _base(ensemble, parts))

    def values(self, rows: Rows) -> Values:
        """Shape (rows, features, outputs)."""
        compared = as_compared(rows, self.dtype)
        total = np.zeros((*rows.shape, len(self.base)))
        for part in self.parts:
            part.add(compared, total)
        return total


def _base(ensemble: Any, parts: Sequence[CountedLeaves | WideLeaf]) -> NDArray[np.float64]:
    """Leaves that ask nothing, and of the others what the background gets from them."""
    alone = ensemble.children_left[:, 0] < 0
    total = ensemble.values[alone, 0].sum(axis=0) + ensemble.base_offset
    return np.atleast_1d(total + sum(part.mean for part in parts)).astype(np.float64)


def as_compared(rows: Rows, dtype: Any) -> Rows:
    """In the precision in which the trees compare, which decides for values at a threshold."""
    return rows.astype(dtype).astype(np.float64)


def _in_parts(leaves: Leaves) -> Iterator[Leaves]:
    step = max(1, _CELLS // ((1 << leaves.width) * leaves.width))
    for start in range(0, len(leaves), step):
        yield leaves.part(start, start + step)


# --- from trees to leaves -------------------------------------------------------------------------


def leaves_by_width(ensemble: Any) -> list[Leaves] | None:
    """Leaves by how many features their paths ask; None if there are too many.

    Leaves of a path without features have no part in any value and are left out.
    """
    if (ensemble.children_left < 0).sum() > 2 * MOST:
        return None
    groups: dict[int, list[tuple[Any, ...]]] = {}
    for tree in range(len(ensemble.features)):
        for path, weight in _paths(ensemble, tree):
            if path and np.any(weight):
                groups.setdefault(len(path), []).append((path, weight))
    wide = sum(len(group) for width, group in groups.items() if width > WIDEST)
    if wide > MOST_WIDE or max(groups, default=0) > _MOST_BITS:
        return None
    return [_stacked(group) for group in groups.values()]


def _paths(ensemble: Any, tree: int) -> Iterator[tuple[dict[int, tuple[float, float, bool]], Any]]:
    """Of each leaf, by feature what passes, and the weight."""
    left, right = ensemble.children_left[tree].tolist(), ensemble.children_right[tree].tolist()
    default, features = ensemble.children_default[tree].tolist(), ensemble.features[tree].tolist()
    thresholds = ensemble.thresholds[tree].tolist()
    waiting: list[tuple[int, dict[int, tuple[float, float, bool]]]] = [(0, {})]
    while waiting:
        node, path = waiting.pop()
        if left[node] < 0:
            yield path, ensemble.values[tree, node]
            continue
        feature, threshold = features[node], thresholds[node]
        above, upto, lets = path.get(feature, (-np.inf, np.inf, True))
        goes_left = default[node] == left[node]
        low = (above, min(upto, threshold), lets and goes_left)
        high = (max(above, threshold), upto, lets and not goes_left)
        waiting.append((left[node], {**path, feature: low}))
        waiting.append((right[node], {**path, feature: high}))


def _stacked(group: list[tuple[Any, ...]]) -> Leaves:
    asked = [list(path.values()) for path, _ in group]
    bounds = np.array([[(low, high) for low, high, _ in each] for each in asked])
    return Leaves(
        features=np.array([list(path) for path, _ in group], dtype=np.intp),
        above=bounds[:, :, 0],
        upto=bounds[:, :, 1],
        lets_missing=np.array([[lets for _, _, lets in each] for each in asked]),
        weights=np.array([weight for _, weight in group], dtype=np.float64),
    )
