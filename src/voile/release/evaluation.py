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
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from voile.attribution.game import Game
from voile.attribution.pairs import Block, blocks
from voile.attribution.sampling import Values, paired_responses
from voile.core.schema import Rows
from voile.models import Outputs


class Evaluation(Protocol):
    """Answers about protected rows."""

    def outputs(self, rows: Rows) -> Outputs:
        """f of each row."""

    def blocks(self, rows: Rows, outputs: Outputs, background: Rows) -> Iterator[Block]:
        """All coalitions of all pairs of a row and a background row; `outputs` is f of the rows."""

    def responses(
        self, row: NDArray[np.float64], background: Rows, coalitions: NDArray[np.bool_]
    ) -> Values:
        """v(T) − v(complement of T) of the games of one row, for coalitions of each game's own."""


@dataclass(frozen=True, eq=False)
class Together(Evaluation):
    """For models that treat the rows of a batch one by one."""

    game: Game

    def outputs(self, rows: Rows) -> Outputs:
        return self.game.outputs(rows.copy())  # a model may write into what it is given

    def blocks(
        self,
        rows: Rows,
        outputs: Outputs,  # noqa: ARG002
        background: Rows,
    ) -> Iterator[Block]:
        return blocks(self.game, rows, background)

    def responses(
        self, row: NDArray[np.float64], background: Rows, coalitions: NDArray[np.bool_]
    ) -> Values:
        return paired_responses(self.game, row, background, coalitions)


@dataclass(frozen=True, eq=False)
class PairByPair(Evaluation):
    """For all other models: no call holds two protected rows, but the two of a pair."""

    game: Game

    def outputs(self, rows: Rows) -> Outputs:
        return np.concatenate([self.game.model.predict(row[np.newaxis].copy()) for row in rows])

    def blocks(self, rows: Rows, outputs: Outputs, background: Rows) -> Iterator[Block]:
        unheard = replace(self.game, speed=replace(self.game.speed, progress=None))
        for i, row in enumerate(rows):
            self.game.speed.report(i, len(rows))
            for j, other in enumerate(background):
                for block in blocks(unheard, row[np.newaxis], other[np.newaxis]):
                    here = replace(block, row=block.row + i, background=block.background + j)
                    yield _with_full(here, outputs[i])
        self.game.speed.report(len(rows), len(rows))

    def responses(
        self, row: NDArray[np.float64], background: Rows, coalitions: NDArray[np.bool_]
    ) -> Values:
        one_each = zip(background, coalitions, strict=True)
        return np.concatenate(
            [paired_responses(self.game, row, b[np.newaxis], t[np.newaxis]) for b, t in one_each]
        )


def _with_full(block: Block, output: NDArray[np.float64]) -> Block:
    """With f(x) for the full coalition, which is the last one of a pair's last block."""
    if (block.high + 1) * len(block.worths) < 1 << block.active.shape[1]:
        return block
    worths = block.worths.copy()
    worths[-1] = output
    return replace(block, worths=worths)
