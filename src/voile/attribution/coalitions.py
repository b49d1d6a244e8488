"""All coalitions of k players, numbered: bit t of the number says whether player t is in.

The Shapley value of player t is linear in the worths v(T) of all coalitions: with s = |T|,

    φ_t = Σ_{T ∋ t} v(T) / (k·C(k−1, s−1))  −  Σ_{T ∌ t} v(T) / (k·C(k−1, s))
        = Σ_{T ∋ t} (in(s) + out(s))·v(T)  −  Σ_T out(s)·v(T).

The second form needs one product with the 0/1 matrix of memberships. Its sums hold no large terms
that cancel: the weights out(s) of all coalitions add up to the harmonic number of k. Every block of
coalitions adds its share, so that 2^k worths never have to be in memory together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import comb, prod
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from voile.attribution.game import Game
from voile.attribution.players import Players
from voile.core.errors import InvalidInput
from voile.models import Outputs, Rows

Worths: TypeAlias = NDArray[np.float64]
"""Shape (coalitions, games, outputs): a block of consecutive coalitions of several games."""


@lru_cache(maxsize=32)
def members(players: int) -> NDArray[np.float64]:
    """Which coalition holds whom, shape (players, 2^players), 0 or 1."""
    numbers = np.arange(1 << players)
    bits = (numbers[np.newaxis] >> np.arange(players)[:, np.newaxis]) & 1
    return _frozen(bits.astype(np.float64))


@lru_cache(maxsize=32)
def sizes(players: int) -> NDArray[np.intp]:
    """The size of each coalition, shape (2^players,)."""
    return _frozen(members(players).sum(axis=0).astype(np.intp))


@lru_cache(maxsize=64)
def shapley_weights(players: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """in(s) + out(s) and out(s) for s = 0 … players."""
    k = players
    inside = [0.0] + [1 / (k * comb(k - 1, s - 1)) for s in range(1, k + 1)]
    outside = [1 / (k * comb(k - 1, s)) for s in range(k)] + [0.0]
    return _frozen(np.add(inside, outside)), _frozen(np.array(outside))


def shapley_share(worths: Worths, players: int, high: int) -> NDArray[np.float64]:
    """What a block of coalitions adds to the Shapley values, shape (players, games, outputs).

    The block holds all coalitions of the first players (as many as its length says) joined with
    those of the other players that are set in `high`.
    """
    count, games, outputs = worths.shape
    low = count.bit_length() - 1
    flat = worths.reshape(count, games * outputs)
    size = sizes(low) + high.bit_count()
    both, outside = shapley_weights(players)
    share = np.empty((players, games * outputs))
    weighted = both[size][:, np.newaxis] * flat
    np.matmul(members(low), weighted, out=share[:low])
    share[low:] = 0.0
    for t in range(low, players):
        if high >> (t - low) & 1:
            share[t] = weighted.sum(axis=0)
    share -= outside[size] @ flat
    return share.reshape(players, games, outputs)


@lru_cache(maxsize=64)
def interaction_weights(players: int) -> NDArray[np.float64]:
    """α(s), β(s), γ(s), shape (3, players + 1), of the pairwise interaction index.

    I_ij = Σ_T g·v(T) with g(s − 2) if i and j are in T, −g(s − 1) if one is, g(s) if none is, where
    g(s) = 1/((k − 1)·C(k − 2, s)). As a polynomial in the memberships z this is
    α z_i z_j + β (z_i + z_j) + γ.
    """
    k = players

    def g(s: int) -> float:
        return 1 / ((k - 1) * comb(k - 2, s)) if 0 <= s <= k - 2 else 0.0

    both = [g(s - 2) + 2 * g(s - 1) + g(s) for s in range(k + 1)]
    one = [-g(s - 1) - g(s) for s in range(k + 1)]
    none = [g(s) for s in range(k + 1)]
    return _frozen(np.array([both, one, none]))


def interaction_share(worths: Worths, players: int, high: int) -> NDArray[np.float64]:
    """What a block adds to the interactions, shape (players, players, games, outputs).

    The diagonal has no meaning and is 0.
    """
    count, games, outputs = worths.shape
    low = count.bit_length() - 1
    flat = worths.reshape(count, games * outputs)
    size = sizes(low) + high.bit_count()
    both, one, none = interaction_weights(players)[:, size]
    present = np.zeros((players, count))
    present[:low] = members(low)
    for t in range(low, players):
        present[t] = high >> (t - low) & 1
    share = np.empty((players, players, games * outputs))
    for place in range(flat.shape[1]):
        share[:, :, place] = (present * (both * flat[:, place])) @ present.T
    single = (present * one) @ flat
    share += single[:, np.newaxis] + single[np.newaxis] + none @ flat
    share[np.arange(players), np.arange(players)] = 0.0
    return share.reshape(players, players, games, outputs)


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array


# --- Every coalition of every (row, background row) pair, evaluated in memory-bounded blocks ------
# The inputs of all 2^k coalitions of a pair are written by doubling: copy the block of coalitions
# without player t behind itself and put the row's value of t into the copy. That is one contiguous
# copy and one column for each player, which costs a few percent of a small network's forward pass.
# Pairs with the same number k of differing players share a block, coalition first: one copy then
# serves all of them, and the worths come out in the order that the Shapley weights need.


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


# --- Random coalitions in bulk, as 0/1 arrays in float32, shape (..., players) --------------------


Coalitions: TypeAlias = NDArray[np.float32]


def uniform_sizes(draw: np.random.Generator, shape: tuple[int, ...], players: int) -> Coalitions:
    """Coalitions whose size is uniform on 0 … players; of one size, all are equally likely."""
    return _of_sizes(draw, draw.integers(0, players + 1, shape), players)


def kernel_pairs(draw: np.random.Generator, rows: int, count: int, players: int) -> Coalitions:
    """Coalitions (rows, count, players) from the Shapley kernel, each beside its complement.

    The kernel gives a size s the weight 1/(s·(players − s)), and the empty and the full coalition
    none: their worths are met by normalisation. Pairs cancel everything that is even under
    complement, which is most of the sampling noise.
    """
    if count < 2 or count % 2:
        raise InvalidInput(f"coalitions come in pairs: give an even number, found {count}")
    if players < 2:
        raise InvalidInput(f"the Shapley kernel needs two players or more, found {players}")
    sizes = np.arange(1, players)
    weights = 1 / (sizes * (players - sizes))
    edges = np.cumsum(weights / weights.sum())
    chosen = 1 + np.searchsorted(edges[:-1], draw.random((rows, count // 2)), side="right")
    half = _of_sizes(draw, chosen, players)
    return np.concatenate([half, 1 - half], axis=1)


def _of_sizes(draw: np.random.Generator, sizes: NDArray[np.intp], players: int) -> Coalitions:
    """The players with the smallest marks are in; ties of marks are too rare to matter."""
    marks = draw.random((*sizes.shape, players), dtype=np.float32)
    ranked = np.sort(marks, axis=-1)
    limit = np.take_along_axis(ranked, np.maximum(sizes - 1, 0)[..., np.newaxis], axis=-1)
    inside = (marks <= limit) & (sizes > 0)[..., np.newaxis]
    return inside.astype(np.float32)


@dataclass(frozen=True, eq=False)
class CoalitionChains:
    """Random orders of the players, each with its reverse, and the coalitions along them.

    Joining one after the other, in an order and in its reverse, every player adds something; the
    mean of the two is an unbiased estimate of its Shapley value, exact for additive games. The
    prefixes of the reverse are the complements of the prefixes, so an order costs 2·(players − 1)
    evaluations beside the empty and the full coalition, which all orders share.

    Args:
        place: the position of each player in its order, shape (n, players).
    """

    place: NDArray[np.intp]

    @classmethod
    def drawn(cls, draw: np.random.Generator, count: int, players: int) -> CoalitionChains:
        marks = draw.random((count, players), dtype=np.float32)
        return cls(marks.argsort(axis=1).argsort(axis=1))

    @property
    def coalitions(self) -> Coalitions:
        """Shape (n, 2·(players − 1), players): prefixes of sizes 1, 2, …, then complements."""
        players = self.place.shape[1]
        prefixes = self.place[:, np.newaxis, :] < np.arange(1, players)[:, np.newaxis]
        return np.concatenate([prefixes, ~prefixes], axis=1).astype(np.float32)

    def estimates(
        self, worths: NDArray[np.float32], empty: NDArray[np.float32], full: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Shapley estimates (n, players, outputs).

        Args:
            worths: of `coalitions`, shape (n, 2·(players − 1), outputs).
            empty: the worth of the empty coalition, shape (outputs,).
            full: that of the full one, shape (n, outputs).
        """
        n, players = self.place.shape
        half = players - 1
        path = np.empty((n, players + 1, worths.shape[2]), dtype=np.float32)
        # v(prefix) − v(complement) climbs from v(∅) − v(N) to v(N) − v(∅): its steps, halved, are
        # the mean of what a player adds in the order and in the reverse.
        path[:, 1:-1] = worths[:, :half] - worths[:, half:]
        path[:, 0], path[:, -1] = empty - full, full - empty
        path /= 2
        steps = path[:, 1:] - path[:, :-1]
        return steps[np.arange(n)[:, np.newaxis], self.place]
