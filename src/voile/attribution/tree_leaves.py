"""Leaves of trees: what the way to each asks of a row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Sets: TypeAlias = NDArray[np.signedinteger[Any]]
"""Players of a path as the bits of a number."""

WIDEST: Final = 18
"""Players on a path: a leaf keeps 2^w counts."""
MOST: Final = 1 << 27
"""Counts that all leaves keep together."""


@dataclass(frozen=True, eq=False)
class Leaves:
    """Leaves of any trees that ask the same number of features and of players.

    Args:
        players: who is asked, shape (leaves, width).
        slots: to which of them a feature belongs, shape (leaves, questions).
        features: which features are asked.
        above, upto: a value passes if it is larger than one and not larger than the other.
        lets_missing: whether a missing value passes; all of the shape of `slots`.
        weights: what a leaf adds to each output, shape (leaves, outputs).
    """

    players: NDArray[np.intp]
    slots: NDArray[np.int32]
    features: NDArray[np.intp]
    above: NDArray[np.float64]
    upto: NDArray[np.float64]
    lets_missing: NDArray[np.bool_]
    weights: NDArray[np.float64]

    @property
    def width(self) -> int:
        return int(self.players.shape[1])

    def __len__(self) -> int:
        return len(self.features)

    def part(self, start: int, stop: int) -> Leaves:
        """Some of them."""
        return Leaves(*(array[start:stop] for array in vars(self).values()))

    def lacking(self, columns: NDArray[np.float64]) -> Sets:
        """For each leaf and row the players that keep it out, shape (leaves, rows).

        Args:
            columns: the rows, column by column, shape (features, rows).
        """
        found = np.zeros((len(self), columns.shape[1]), dtype=np.int32)
        missing = np.isnan(columns)
        for place in range(self.features.shape[1]):
            features = self.features[:, place]
            values = columns[features]
            passes = values > self.above[:, place, np.newaxis]
            passes &= values <= self.upto[:, place, np.newaxis]
            if missing.any():
                passes |= missing[features] & self.lets_missing[:, place, np.newaxis]
            found |= np.left_shift(~passes, self.slots[:, place, np.newaxis], dtype=np.int32)
        return found


def grouped_leaves(ensemble: Any, owners: NDArray[np.intp]) -> list[Leaves] | None:
    """Leaves that ask alike many features and players; None if there is too much to keep.

    Leaves of a path without features have no part in any value and are left out.
    """
    found: dict[tuple[int, int], list[Leaves]] = {}
    kept = 0
    for tree in range(len(ensemble.features)):
        for leaves in _tree_leaves(ensemble, tree, owners):
            found.setdefault((leaves.features.shape[1], leaves.width), []).append(leaves)
            kept += len(leaves) << leaves.width
            if leaves.width > WIDEST or kept > MOST:
                return None
    return [_joined(group) for group in found.values()]


def _joined(group: Sequence[Leaves]) -> Leaves:
    arrays = zip(*(vars(leaves).values() for leaves in group), strict=True)
    return Leaves(*(np.concatenate(each) for each in arrays))


def leaves_of(ensemble: Any) -> NDArray[np.bool_]:
    """Which nodes are leaves that a row may reach, shape (trees, nodes): an ensemble fills its
    arrays up with nodes that belong to no tree."""
    left, right = ensemble.children_left, ensemble.children_right
    trees, nodes = np.nonzero(left >= 0)
    named = np.zeros(left.shape, dtype=np.bool_)
    named[:, 0] = True
    for children in (left, right):
        named[trees, children[trees, nodes]] = True
    found: NDArray[np.bool_] = named & (left < 0)
    return found


@dataclass(frozen=True, eq=False)
class _Nodes:
    """What the way to each node of a tree asks, by feature that the tree uses.

    Args:
        used: the features.
        above, upto, lets, asked: shape (nodes, used).
        ends: which nodes are leaves.
    """

    used: NDArray[np.intp]
    above: NDArray[np.float64]
    upto: NDArray[np.float64]
    lets: NDArray[np.bool_]
    asked: NDArray[np.bool_]
    ends: NDArray[np.intp]


def _nodes(ensemble: Any, tree: int) -> _Nodes:
    """Each level of a tree in one step."""
    left, right = ensemble.children_left[tree], ensemble.children_right[tree]
    splits = left >= 0
    used, place = np.unique(ensemble.features[tree][splits], return_inverse=True)
    column = np.zeros(len(left), dtype=np.intp)
    column[splits] = place.reshape(-1)
    shape = (len(left), len(used))
    above, upto = np.full(shape, -np.inf), np.full(shape, np.inf)
    lets, asked = np.ones(shape, dtype=np.bool_), np.zeros(shape, dtype=np.bool_)
    level, ends = np.zeros(1, dtype=np.intp), list[NDArray[np.intp]]()
    while len(level):
        ends.append(level[~splits[level]])
        nodes = level[splits[level]]
        threshold = ensemble.thresholds[tree][nodes]
        default = ensemble.children_default[tree][nodes]
        for children, bounds, tighter in ((left, upto, np.minimum), (right, above, np.maximum)):
            these, where = children[nodes], column[nodes]
            for array in (above, upto, lets, asked):
                array[these] = array[nodes]
            bounds[these, where] = tighter(bounds[these, where], threshold)
            lets[these, where] &= default == these
            asked[these, where] = True
        level = np.concatenate([left[nodes], right[nodes]])
    return _Nodes(used.astype(np.intp), above, upto, lets, asked, np.concatenate(ends))


def _tree_leaves(ensemble: Any, tree: int, owners: NDArray[np.intp]) -> Iterator[Leaves]:
    """Of one tree, those that ask alike many features and players together."""
    nodes, weights = _nodes(ensemble, tree), ensemble.values[tree].astype(np.float64)
    questions = nodes.asked[nodes.ends].sum(axis=1) * weights[nodes.ends].any(axis=1)
    for count in np.unique(questions[questions > 0]):
        ends = nodes.ends[questions == count]
        places = np.nonzero(nodes.asked[ends])[1].reshape(-1, count)
        own = owners[nodes.used[places]]
        order = own.argsort(axis=1, kind="stable")
        places, own = np.take_along_axis(places, order, 1), np.take_along_axis(own, order, 1)
        first = np.diff(own, axis=1, prepend=-1) != 0
        slots = first.cumsum(axis=1) - 1
        for width in np.unique(slots[:, -1] + 1):
            alike = slots[:, -1] + 1 == width
            rows, columns = ends[alike, np.newaxis], places[alike]
            yield Leaves(
                players=own[alike][first[alike]].reshape(-1, width),
                slots=slots[alike].astype(np.int32),
                features=nodes.used[columns],
                above=nodes.above[rows, columns],
                upto=nodes.upto[rows, columns],
                lets_missing=nodes.lets[rows, columns],
                weights=weights[ends[alike]],
            )
