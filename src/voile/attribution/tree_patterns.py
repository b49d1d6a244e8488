"""Exact Shapley values of trees over many background rows at once.

A leaf asks something of each of the w players on its path; a player is a feature, or all features
that were made of one column. For one leaf, a row is therefore a set: the players that would let it
in. Let A be the set of an explained row and B that of a background row. A coalition reaches the
leaf if it holds every player that B lacks, and none that A lacks; so the leaf has a part only if A
and B together hold all players. Then p = w − |B| players are A's alone, q = w − |A| are B's alone,
and the Shapley values of a leaf of weight 1 are

    + (p − 1)!·q!/(p + q)! = + ∫ t^(p−1)·(1 − t)^q dt    for each of the p players,
    − p!·(q − 1)!/(p + q)! = − ∫ t^p·(1 − t)^(q−1) dt    for each of the q players.

The integrands are polynomials of a degree below w, so half as many points integrate them without
error. At one point t, every background row that fits A adds t^(w−|B|): these are sums over all sets
that hold what A lacks, and w additions of halves give them for all A at once. So background rows
are counted by set, once, and the cost of an explained row does not grow with the background.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import factorial
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from voile.attribution.players import Players
from voile.attribution.settings import Progress
from voile.attribution.tree_leaves import Leaves, Sets, grouped_leaves
from voile.models import Rows

Values: TypeAlias = NDArray[np.float64]
"""Shape (rows, players, outputs)."""

_KEPT: Final = 1 << 22
"""Of fewer counts, what follows from them is kept between calls as well."""
_FEW: Final = 2
"""Rows that are explained one by one if nothing is kept."""
_CELLS: Final = 1 << 20
"""Numbers that are worked on at once, about: what a processor's cache holds."""


@lru_cache(maxsize=32)
def _points(width: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Where polynomials of a degree below `width` are looked at on [0, 1], and with what weight."""
    points, weights = np.polynomial.legendre.leggauss((width + 1) // 2)
    return (points + 1) / 2, weights / 2


@dataclass(frozen=True, eq=False)
class CountedLeaves:
    """Leaves, and how many background rows lack which players of their paths.

    Args:
        leaves: see `Leaves`.
        counts: shape (leaves, sets).
        size: how many background rows there are.
        kept: what follows from the counts, if it is kept between calls.
    """

    leaves: Leaves
    counts: NDArray[np.unsignedinteger[Any]]
    size: int
    kept: NDArray[np.float64] | None

    @classmethod
    def over(cls, leaves: Leaves, columns: NDArray[np.float64], *, keep: bool) -> CountedLeaves:
        """Count the background rows by what they lack.

        Args:
            columns: the background, shape (features, rows).
        """
        every, size = 1 << leaves.width, columns.shape[1]
        counts = np.zeros(len(leaves) * every, dtype=np.intp)
        offset = np.arange(len(leaves))[:, np.newaxis] * every
        for part in _batches(size, len(leaves)):
            found = leaves.lacking(columns[:, part]) + offset
            counts += np.bincount(found.ravel(), minlength=len(counts))
        small = counts.reshape(-1, every).astype(np.min_scalar_type(size))
        counted = cls(leaves, small, size, None)
        return replace(counted, kept=counted.sums()) if keep else counted

    @property
    def mean(self) -> NDArray[np.float64]:
        """What the leaves add to the mean output over the background, shape (outputs,)."""
        found: NDArray[np.float64] = self.counts[:, 0] @ self.leaves.weights / self.size
        return found

    def sums(self) -> NDArray[np.float64]:
        """What a row gets from the leaves, shape (2, sets, leaves).

        With S the players that it lacks and T those and j, a player j that it has gets
        sums[0, S] − sums[0, T] − sums[1, T], and one that it lacks −sums[1, S].
        """
        return _sums(self.counts / self.size, self.leaves.width)

    def add(self, columns: NDArray[np.float64], total: Values) -> None:
        """Add the values of these leaves.

        Args:
            columns: rows, shape (features, rows).
            total: shape (outputs, players, rows).
        """
        few = columns.shape[1] <= _FEW
        if self.kept is None and few:
            for row, lacks in enumerate(self.leaves.lacking(columns).T):
                self._add_one(lacks, total[:, :, row])
            return
        sums = self.sums() if self.kept is None else self.kept
        for part in _batches(columns.shape[1], len(self.leaves)):
            self._add(self.leaves.lacking(columns[:, part]), sums, total[:, :, part])

    def _add(self, lacks: Sets, sums: NDArray[np.float64], total: Values) -> None:
        leaves, (_, players, count) = self.leaves, total.shape
        cells = lacks.astype(np.intp) * len(leaves) + np.arange(len(leaves))[:, np.newaxis]
        gains, losses = sums.reshape(2, -1)
        has, loses, either = gains.take(cells), losses.take(cells), gains + losses
        for place in range(leaves.width):
            bit = 1 << place
            joined = either.take(cells + bit * len(leaves), mode="clip")
            found = np.where(lacks & bit, -loses, has - joined)
            where = leaves.players[:, place, np.newaxis] * count + np.arange(count)
            for output, weights in enumerate(leaves.weights.T):
                weighted = (found * weights[:, np.newaxis]).ravel()
                added = np.bincount(where.ravel(), weighted, minlength=count * players)
                total[output] += added.reshape(players, count)

    def _add_one(self, lacks: Sets, total: NDArray[np.float64]) -> None:
        """The same of one row, where sums over all sets would cost more.

        Args:
            lacks: shape (leaves,).
            total: shape (outputs, players).
        """
        leaves, sets = self.leaves, np.arange(self.counts.shape[1])
        fits = np.where(sets & lacks[:, np.newaxis], 0.0, self.counts / self.size)
        gain, loss = _coefficients(leaves.width)
        p, q = np.bitwise_count(sets)[np.newaxis], np.bitwise_count(lacks)[:, np.newaxis]
        found = (fits * gain[p, q]) @ _bits(sets, leaves.width)
        lost = (fits * loss[p, q]).sum(axis=1, keepdims=True)
        found -= _bits(lacks, leaves.width) * lost
        for output, weights in enumerate(leaves.weights.T):
            weighted = (found * weights[:, np.newaxis]).ravel()
            total[output] += np.bincount(leaves.players.ravel(), weighted, total.shape[1])


def _bits(sets: Sets, width: int) -> NDArray[np.float64]:
    return (sets[:, np.newaxis] >> np.arange(width) & 1).astype(np.float64)


def _sums(share: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    """See `CountedLeaves.sums`; from the share of the background that lacks each set."""
    every, leaves = 1 << width, len(share)
    sizes = np.bitwise_count(np.arange(every)).astype(np.float64)[:, np.newaxis]
    # A background row fits if it lacks none of what the row lacks: sums over the subsets of what
    # the row has, whose number is the complement of that of what it lacks. Leaves come last, so
    # that every step runs over whole rows of numbers.
    turned = np.ascontiguousarray(share.T[::-1])
    sums, (fits, part) = np.zeros((2, every, leaves)), np.empty((2, every, leaves))
    for point, weight in zip(*_points(width), strict=True):
        np.multiply(turned, point ** sizes[::-1], out=fits)
        for place in range(width):
            halves = fits.reshape(-1, 2, 1 << place, leaves)
            halves[:, 0] += halves[:, 1]
        own = (1 - point) ** sizes * weight
        sums[0] += np.multiply(fits, own / point, out=part)
        sums[1] += np.multiply(fits, own / (1 - point), out=part)
    return sums


@lru_cache(maxsize=32)
def _coefficients(width: int) -> NDArray[np.float64]:
    """Of p players that a row has alone and q that the background row has, shape (2, p, q)."""
    found = np.zeros((2, width + 1, width + 1))
    for p in range(width + 1):
        for q in range(width + 1 - p):
            if p:
                found[0, p, q] = factorial(p - 1) * factorial(q) / factorial(p + q)
            if q:
                found[1, p, q] = factorial(p) * factorial(q - 1) / factorial(p + q)
    return found


def _batches(rows: int, leaves: int) -> Iterator[slice]:
    step = max(1, _CELLS // max(leaves, 1))
    return (slice(start, start + step) for start in range(0, rows, step))


@dataclass(frozen=True, eq=False)
class LeafSums:
    """An ensemble as the function that it is: the sum of the leaves that a row reaches.

    Args:
        groups: its leaves, but for trees that are a leaf alone.
        constant: what those and the offset add, shape (outputs,).
        dtype: of the values that trees compare.
    """

    groups: tuple[Leaves, ...]
    constant: NDArray[np.float64]
    dtype: Any

    @classmethod
    def from_groups(cls, ensemble: Any, groups: Sequence[Leaves]) -> LeafSums:
        alone = ensemble.children_left[:, 0] < 0
        constant = np.atleast_1d(ensemble.values[alone, 0].sum(axis=0) + ensemble.base_offset)
        return cls(tuple(groups), constant.astype(np.float64), ensemble.input_dtype)

    def only(self, places: Sequence[int]) -> LeafSums:
        """The same with some of the outputs."""
        chosen = list(places)
        groups = (replace(each, weights=each.weights[:, chosen]) for each in self.groups)
        return replace(self, groups=tuple(groups), constant=self.constant[chosen])

    def outputs(self, rows: Rows) -> NDArray[np.float64]:
        """What rows reach, shape (rows, outputs)."""
        columns = as_columns(rows, self.dtype)
        total = np.tile(self.constant, (len(rows), 1))
        for leaves in self.groups:
            for part in _batches(len(rows), len(leaves)):
                reached = leaves.lacking(columns[:, part]) == 0
                total[part] += reached.T.astype(np.float64) @ leaves.weights
        return total


@dataclass(frozen=True, eq=False)
class TreePatterns:
    """An ensemble of trees over a background.

    Args:
        parts: its leaves.
        dtype: of the values that trees compare.
        players: how many there are.
        base: the mean output over the background, shape (outputs,).
    """

    parts: tuple[CountedLeaves, ...]
    dtype: Any
    players: int
    base: NDArray[np.float64]

    @classmethod
    def from_ensemble(
        cls,
        ensemble: Any,
        background: Rows,
        players: Players | None = None,
        progress: Progress | None = None,
    ) -> TreePatterns | None:
        """From shap's reading of an ensemble; None if its trees are too large for this.

        Args:
            ensemble: `shap.TreeExplainer(model).model`.
            background: NaN where a value is missing.
            players: who plays; each feature by itself if not given.
            progress: told how many parts of the trees have been counted, and of how many.
        """
        count = background.shape[1] if players is None else players.count
        owners = np.arange(count) if players is None else players.owner
        groups = grouped_leaves(ensemble, owners)
        if groups is None:
            return None
        return cls.from_leaves(LeafSums.from_groups(ensemble, groups), background, count, progress)

    @classmethod
    def from_leaves(
        cls, sums: LeafSums, background: Rows, players: int, progress: Progress | None = None
    ) -> TreePatterns:
        """From leaves that were grouped before; every background row is counted."""
        groups = sums.groups
        columns = as_columns(background, sums.dtype)
        keep = sum(len(group) << group.width for group in groups) <= _KEPT
        parts, every = [], [each for group in groups for each in _in_parts(group)]
        tell = _unheard if progress is None else progress
        tell(0, len(every))
        for done, leaves in enumerate(every, start=1):
            parts.append(CountedLeaves.over(leaves, columns, keep=keep))
            tell(done, len(every))
        base = sums.constant + sum(part.mean for part in parts)
        return cls(tuple(parts), sums.dtype, players, np.atleast_1d(base).astype(np.float64))

    @property
    def is_large(self) -> bool:
        """Whether a call takes seconds for one row as for many."""
        return any(part.kept is None for part in self.parts)

    def values(self, rows: Rows) -> Values:
        """Shape (rows, players, outputs)."""
        columns = as_columns(rows, self.dtype)
        total = np.zeros((len(self.base), self.players, len(rows)))
        for part in self.parts:
            part.add(columns, total)
        return np.ascontiguousarray(total.transpose(2, 1, 0))


def _unheard(_done: int, _total: int) -> None:
    """Nobody listens."""


def as_columns(rows: Rows, dtype: Any) -> NDArray[np.float64]:
    """In the precision in which the trees compare, which decides for values at a threshold."""
    return np.ascontiguousarray(rows.astype(dtype).astype(np.float64).T)


def _in_parts(leaves: Leaves) -> Iterator[Leaves]:
    step = max(1, _CELLS >> leaves.width)
    for start in range(0, len(leaves), step):
        yield leaves.part(start, start + step)
