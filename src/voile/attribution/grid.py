"""Model inputs as numbers, where every feature takes few distinct values.

Then all inputs that can arise from rows and background rows lie on a grid, and an input is one
integer: its position, in a mixed radix with one digit a feature. Replacing the value of a player
adds a fixed difference, so the positions of all coalitions come from the same doubling as the
inputs themselves, at an eighth of the memory, and equal inputs are found without comparing rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from voile.attribution.players import Players
from voile.models import Rows

# A table with a place for every position takes four bytes each: at most 128 MB.
LARGEST: Final = 1 << 25
# Below this many positions sorting is cheaper than touching the table's pages.
FEW: Final = 1 << 16


@dataclass(frozen=True, eq=False)
class Grid:
    """The values of each feature, and where rows and background rows stand among them.

    Args:
        values: for each feature its distinct values.
        rows, background: digits of every row, multiplied by their radix, shape (n, d).
    """

    values: tuple[NDArray[np.float64], ...]
    rows: NDArray[np.int64]
    background: NDArray[np.int64]

    @classmethod
    def of(cls, rows: Rows, background: Rows) -> Grid | None:
        """None where the grid would be too large: then equal inputs are rare, too."""
        values: list[NDArray[np.float64]] = []
        digits: list[NDArray[np.int64]] = []
        size = 1
        for column in np.concatenate([rows, background]).T:
            distinct, digit = np.unique(column, return_inverse=True)
            digits.append(digit.reshape(-1) * size)
            values.append(distinct)
            size *= len(distinct)
            if size > LARGEST:
                return None
        placed = np.column_stack(digits)
        return cls(tuple(values), placed[: len(rows)], placed[len(rows) :])

    @property
    def size(self) -> int:
        return prod(len(distinct) for distinct in self.values)

    def keys(self, players: Players, row: Any, other: Any, active: Any) -> NDArray[np.int64]:
        """The positions of all coalitions of each pair, shape (2^k, pairs)."""
        pairs, k = active.shape
        step = self.rows[row] - self.background[other]
        if not players.single:
            step = np.stack(
                [step[:, list(features)].sum(axis=1) for features in players.features], axis=1
            )
        keys = np.empty((1 << k, pairs), dtype=np.int64)
        keys[0] = self.background[other].sum(axis=1)
        for t in range(k):
            half = 1 << t
            np.add(keys[:half], step[np.arange(pairs), active[:, t]], out=keys[half : 2 * half])
        return keys

    @cached_property
    def _table(self) -> NDArray[np.int32]:
        return np.empty(self.size, dtype=np.int32)

    def distinct(self, keys: NDArray[np.int64]) -> tuple[Rows, NDArray[np.intp]]:
        """The inputs at the distinct positions, and for each key its place among them."""
        if len(keys) < FEW:
            few, place = np.unique(keys, return_inverse=True)
            return self._inputs(few), place.reshape(-1)
        # Everybody signs at his position; whoever finds his own signature represents it.
        own = np.arange(len(keys), dtype=np.int32)
        self._table[keys] = own
        signature = self._table[keys]
        chosen = signature == own
        number = np.cumsum(chosen) - 1
        return self._inputs(keys[chosen]), number[signature]

    def _inputs(self, keys: NDArray[np.int64]) -> Rows:
        inputs = np.empty((len(keys), len(self.values)))
        rest = keys
        for feature, distinct in enumerate(self.values):
            rest, digit = np.divmod(rest, len(distinct))
            inputs[:, feature] = distinct[digit]
        return inputs
