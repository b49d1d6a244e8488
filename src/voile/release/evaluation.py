"""How a model is asked about protected rows: many in a call, or one pair at a time.

The sensitivity of a mean over m games rests on two things: a record's game depends on no other
record, and every game is worth f(x) when all players are in. Models that treat the rows of a batch
one by one give both, however they are asked. Of all others neither is true: one record can turn the
answers of all. So they get one pair of rows in a call, an explained one and one of the background;
whatever they make of it is a game of that pair alone. And f(x) is asked for once, alone, and stands
in every game for the full coalition; else two games could differ by as much there as elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from voile.attribution.game import Game
from voile.attribution.pairs import Block, blocks
from voile.attribution.sampling import Values, paired_responses
from voile.core.schema import Rows
from voile.models import Outputs


def answers(game: Game, rows: Rows, *, together: bool) -> Outputs:
    """f of each row.

    Args:
        together: the model treats the rows of a batch one by one.
    """
    if together:
        return game.outputs(rows.copy())  # a model may write into what it is given
    return np.concatenate([game.model.predict(row[np.newaxis].copy()) for row in rows])


def pair_blocks(
    game: Game, rows: Rows, outputs: Outputs, background: Rows, *, together: bool
) -> Iterator[Block]:
    """All coalitions of all pairs of a row and a background row; `outputs` is f of the rows."""
    if together:
        yield from blocks(game, rows, background)
        return
    silent = replace(game, speed=replace(game.speed, progress=None))
    for i, row in enumerate(rows):
        game.speed.report(i, len(rows))
        for j, other in enumerate(background):
            for block in blocks(silent, row[np.newaxis], other[np.newaxis]):
                here = replace(block, row=block.row + i, background=block.background + j)
                yield _with_full(here, outputs[i])
    game.speed.report(len(rows), len(rows))


def responses(
    game: Game,
    row: NDArray[np.float64],
    background: Rows,
    coalitions: NDArray[np.bool_],
    *,
    together: bool,
) -> Values:
    """v(T) − v(complement of T) of the games of one row, for coalitions of each game's own."""
    if together:
        return paired_responses(game, row, background, coalitions)
    one_each = zip(background, coalitions, strict=True)
    return np.concatenate(
        [paired_responses(game, row, b[np.newaxis], t[np.newaxis]) for b, t in one_each]
    )


def _with_full(block: Block, output: NDArray[np.float64]) -> Block:
    """With f(x) for the full coalition, which is the last one of a pair's last block."""
    if (block.high + 1) * len(block.worths) < 1 << block.active.shape[1]:
        return block
    worths = block.worths.copy()
    worths[-1] = output
    return replace(block, worths=worths)
