"""Every coalition of every (row, background row) pair, evaluated in memory-bounded blocks.

The inputs of all 2^k coalitions of a pair are written by doubling: copy the block of coalitions
without player t behind itself and put the row's value of t into the copy. That is one contiguous
copy and one column for each player, which costs a few percent of a small network's forward pass.
Pairs with the same number k of differing players share a block, coalition first: one copy then
serves all of them, and the worths come out in the order that the Shapley weights need.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from voile.attribution.coalitions import Worths
from voile.attribution.game import Game
from voile.attribution.players import Players
from voile.models import Outputs, Rows

# --- positions on a grid --------------------------------------------------------------------------

# Model inputs as numbers, where every feature takes few distinct values.
#
# Then all inputs that can arise from rows and background rows lie on a grid, and an input is one
# integer: its position, in a mixed radix with one digit a feature. Replacing the value of a player
# adds a fixed difference, so the positions of all coalitions come from the same doubling as the
# inputs themselves, at an eighth of the memory, and equal inputs are found without comparing rows.

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
    def from_rows(cls, rows: Rows, background: Rows) -> Grid | None:
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


# --- coalitions of pairs --------------------------------------------------------------------------

Places: TypeAlias = NDArray[np.intp]
Pairs: TypeAlias = tuple[Places, Places, Places]
"""Rows, background rows and differing players (pairs, k) of pairs with the same k."""

# How many (row, background row) pairs are laid out at once: a few dozen bytes each.
PAIRS_AT_ONCE = 1 << 17
# A block holds all coalitions of so many players; those of further players come block by block.
LOW_PLAYERS = 12
# How many inputs are numbered at once on data with few distinct values, about.
INPUTS_AT_ONCE = 1 << 20
# Fewer rows have too few inputs in common for finding them to pay, unless the model is slow.
ROWS_THAT_SHARE = 32


@dataclass(frozen=True, eq=False)
class Block:
    """Worths of consecutive coalitions of some pairs with the same number of players.

    Args:
        row: for each pair the place of its row.
        background: for each pair the place of its background row.
        active: the players that differ, shape (pairs, k), in rising order.
        high: which of the last players are in throughout, as bits; 0 if the block is complete.
        worths: shape (coalitions, pairs, outputs).
    """

    row: Places
    background: Places
    active: Places
    high: int
    worths: Worths


def blocks(game: Game, rows: Rows, background: Rows) -> Iterator[Block]:
    """All coalitions of all pairs in which at least one player differs."""
    shared = game.speed.short_cuts.duplicate_inputs and len(rows) >= ROWS_THAT_SHARE
    grid = Grid.from_rows(rows, background) if shared else None
    pairs = _pairs(game, rows, background)
    if grid is not None:
        for chunk in _chunks(pairs):
            yield from _blocks_on_grid(game, grid, chunk)
    else:
        yield from _evaluated(game, _pieces(game, rows, background, pairs))
    game.speed.report(len(rows), len(rows))


def _pairs(game: Game, rows: Rows, background: Rows) -> Iterator[Pairs]:
    together = max(1, PAIRS_AT_ONCE // len(background))
    for start in range(0, len(rows), together):
        game.speed.report(start, len(rows))
        for row, other, active in _by_player_count(
            game, rows[start : start + together], background
        ):
            yield row + start, other, active


def _chunks(pairs: Iterable[Pairs]) -> Iterator[list[Pairs]]:
    """Pairs cut and put together so that a chunk has about `INPUTS_AT_ONCE` inputs."""
    chunk: list[Pairs] = []
    inputs = 0
    for row, other, active in pairs:
        k = active.shape[1]
        step = max(1, INPUTS_AT_ONCE >> k)
        for start in range(0, len(row), step):
            part = slice(start, start + step)
            chunk.append((row[part], other[part], active[part]))
            inputs += len(row[part]) << k
            if inputs >= INPUTS_AT_ONCE:
                yield chunk
                chunk, inputs = [], 0
    if chunk:
        yield chunk


def _by_player_count(game: Game, rows: Rows, background: Rows) -> Iterator[Pairs]:
    """Pairs grouped by how many players differ."""
    players = game.players.count
    if game.speed.short_cuts.equal_players:
        differs = game.players.any_feature(rows[:, np.newaxis] != background[np.newaxis])
        count = differs.sum(axis=2)
    else:
        count = np.full((len(rows), len(background)), players)
    for k in np.unique(count[count > 0]):
        row, other = np.nonzero(count == k)
        if k == players:
            active = np.broadcast_to(np.arange(players), (len(row), players))
        else:
            active = np.nonzero(differs[row, other])[1].reshape(len(row), int(k))
        yield row, other, active


@dataclass(frozen=True, eq=False)
class _Piece:
    """Inputs of a block, not evaluated yet: shape (coalitions, pairs, features)."""

    row: Places
    background: Places
    active: Places
    high: int
    inputs: NDArray[np.float64]

    def with_outputs(self, outputs: Outputs) -> Block:
        worths = outputs.reshape(*self.inputs.shape[:2], -1)
        return Block(self.row, self.background, self.active, self.high, worths)

    @property
    def rows(self) -> Rows:
        return self.inputs.reshape(-1, self.inputs.shape[2])


def _pieces(game: Game, rows: Rows, background: Rows, pairs: Iterable[Pairs]) -> Iterator[_Piece]:
    most = game.speed.batch_rows
    for row, other, active in pairs:
        k = active.shape[1]
        low = min(k, LOW_PLAYERS, most.bit_length() - 1)
        together = max(1, most >> low) if low == k else 1
        for start in range(0, len(row), together):
            part = slice(start, start + together)
            mine, theirs, who = rows[row[part]], background[other[part]], active[part]
            for high in range(1 << (k - low)):
                inputs = composites(game.players, mine, theirs, who, low, high)
                yield _Piece(row[part], other[part], who, high, inputs)


def _evaluated(game: Game, pieces: Iterable[_Piece]) -> Iterator[Block]:
    """Small pieces go through the model together: a call costs as much as hundreds of rows."""
    waiting: list[_Piece] = []
    size = 0
    for piece in pieces:
        if waiting and size + len(piece.rows) > game.speed.batch_rows:
            yield from _flushed(game, waiting)
            waiting, size = [], 0
        waiting.append(piece)
        size += len(piece.rows)
    if waiting:
        yield from _flushed(game, waiting)


def _flushed(game: Game, pieces: list[_Piece]) -> Iterator[Block]:
    inputs = pieces[0].rows if len(pieces) == 1 else np.concatenate([p.rows for p in pieces])
    outputs = game.model.predict(inputs)
    start = 0
    for piece in pieces:
        stop = start + len(piece.rows)
        yield piece.with_outputs(outputs[start:stop])
        start = stop


def _blocks_on_grid(game: Game, grid: Grid, chunk: list[Pairs]) -> Iterator[Block]:
    """The same blocks; each distinct input of the chunk is evaluated once."""
    keys = [grid.keys(game.players, row, other, active) for row, other, active in chunk]
    inputs, place = grid.distinct(np.concatenate([key.ravel() for key in keys]))
    outputs = game.outputs(inputs)
    end = np.cumsum([key.size for key in keys])
    for (row, other, active), key, stop in zip(chunk, keys, end, strict=True):
        places = place[stop - key.size : stop].reshape(key.shape)
        step = min(len(key), 1 << LOW_PLAYERS)
        for high in range(len(key) // step):
            worths = outputs[places[high * step : (high + 1) * step]]
            yield Block(row, other, active, high, worths)


def composites(
    players: Players, rows: Rows, background: Rows, active: Places, low: int, high: int
) -> NDArray[np.float64]:
    """Model inputs of 2^low coalitions of each pair, shape (2^low, pairs, features)."""
    pairs, features = rows.shape
    inputs = np.empty((1 << low, pairs, features))
    inputs[0] = background
    put = _put_same if pairs == 1 or (active[1:] == active[0]).all() else _put_each
    for t in range(low, active.shape[1]):
        if high >> (t - low) & 1:
            put(inputs[:1], rows, players, active[:, t])
    for t in range(low):
        half = 1 << t
        inputs[half : 2 * half] = inputs[:half]
        put(inputs[half : 2 * half], rows, players, active[:, t])
    return inputs


def _put_same(inputs: NDArray[np.float64], rows: Rows, players: Players, who: Places) -> None:
    """Give one player, the same in all pairs, the values of the explained rows."""
    for feature in players.features[who[0]]:
        inputs[:, :, feature] = rows[:, feature]


def _put_each(inputs: NDArray[np.float64], rows: Rows, players: Players, who: Places) -> None:
    """Give one player, another in each pair, the values of the explained rows."""
    if players.single:
        pairs = np.arange(len(who))
        inputs[:, pairs, who] = rows[pairs, who]
    else:
        theirs = players.owner[np.newaxis] == who[:, np.newaxis]
        np.copyto(inputs, rows[np.newaxis], where=theirs[np.newaxis])
