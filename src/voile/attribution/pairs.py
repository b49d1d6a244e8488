"""Every coalition of every (row, background row) pair, evaluated in memory-bounded blocks.

The inputs of all 2^k coalitions of a pair are written by doubling: copy the block of coalitions
without player t behind itself and put the row's value of t into the copy. That is one contiguous
copy and one column for each player, which costs a few percent of a small network's forward pass.
Pairs with the same number k of differing players share a block, coalition first: one copy then
serves all of them, and the worths come out in the order that the Shapley weights need.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from voile.attribution.coalitions import Worths
from voile.attribution.game import Game
from voile.attribution.players import Players
from voile.models import Rows

Places: TypeAlias = NDArray[np.intp]

# How many (row, background row) pairs are laid out at once: a few dozen bytes each.
PAIRS_AT_ONCE = 1 << 17


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
    together = max(1, PAIRS_AT_ONCE // len(background))
    for start in range(0, len(rows), together):
        chunk = rows[start : start + together]
        for row, other, active in _by_player_count(game, chunk, background):
            for block in _blocks_of(game, chunk, background, row, other, active):
                yield Block(block.row + start, *_rest(block))
        game.speed.report(min(start + together, len(rows)), len(rows))


def _rest(block: Block) -> tuple[Places, Places, int, Worths]:
    return block.background, block.active, block.high, block.worths


def _by_player_count(
    game: Game, rows: Rows, background: Rows
) -> Iterator[tuple[Places, Places, Places]]:
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


def _blocks_of(
    game: Game, rows: Rows, background: Rows, row: Places, other: Places, active: Places
) -> Iterator[Block]:
    k = active.shape[1]
    low = min(k, max(game.speed.batch_rows.bit_length() - 1, 0))
    together = max(1, game.speed.batch_rows >> low) if low == k else 1
    for start in range(0, len(row), together):
        part = slice(start, start + together)
        for high in range(1 << (k - low)):
            inputs = composites(
                game.players, rows[row[part]], background[other[part]], active[part], low, high
            )
            outputs = game.model.predict(inputs.reshape(-1, inputs.shape[2]))
            worths = outputs.reshape(*inputs.shape[:2], -1)
            yield Block(row[part], other[part], active[part], high, worths)


def composites(
    players: Players, rows: Rows, background: Rows, active: Places, low: int, high: int
) -> NDArray[np.float64]:
    """Model inputs of 2^low coalitions of each pair, shape (2^low, pairs, features)."""
    pairs, features = rows.shape
    inputs = np.empty((1 << low, pairs, features))
    inputs[0] = background
    for t in range(low, active.shape[1]):
        if high >> (t - low) & 1:
            _put(inputs[:1], rows, players, active[:, t])
    for t in range(low):
        half = 1 << t
        inputs[half : 2 * half] = inputs[:half]
        _put(inputs[half : 2 * half], rows, players, active[:, t])
    return inputs


def _put(inputs: NDArray[np.float64], rows: Rows, players: Players, who: Places) -> None:
    """Give one player of each pair the values of the explained row."""
    if (who == who[0]).all():
        for feature in np.flatnonzero(players.owner == who[0]):
            inputs[:, :, feature] = rows[:, feature]
    elif players.single:
        pairs = np.arange(len(who))
        inputs[:, pairs, who] = rows[pairs, who]
    else:
        theirs = players.owner[np.newaxis] == who[:, np.newaxis]
        np.copyto(inputs, rows[np.newaxis], where=theirs[np.newaxis])
