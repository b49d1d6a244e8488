"""Pairwise Shapley interactions: what two players contribute together beyond each by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from voile.attribution.coalitions import interaction_share, shapley_share
from voile.attribution.exact import Distinct, check_player_count
from voile.attribution.explainer import GameExplainer
from voile.attribution.pairs import Block, blocks
from voile.core.explanation import Explanation

JOIN = " × "


@dataclass(frozen=True, eq=False)
class ShapleyInteractions(GameExplainer):
    """Exact pairwise Shapley interaction indices, for up to 20 players.

    The explanation has a column for each player and one for each pair, named "age × bmi". A pair's
    value is its interaction index; a player's is its Shapley value less half of each of its
    interactions, so that all columns add up to prediction minus base. Arguments: see
    `GameExplainer`.
    """

    title: ClassVar[str] = "interactions"
    tag: ClassVar[str] = "shapley-interactions"

    def check_players(self, players: int) -> None:
        check_player_count(players)

    def __call__(self, X: Any) -> Explanation:  # noqa: N803
        rows, game = self.game.read(X)
        once = Distinct.of(rows, game)
        players, outputs = game.players.count, game.background_outputs.shape[1]
        single = np.zeros((len(once.rows), players, outputs))
        paired = np.zeros((len(once.rows), players, players, outputs))
        for block in blocks(game, once.rows, once.background):
            _add(single, paired, block, once.weights)
        left, right = np.triu_indices(players, 1)
        main = single - paired.sum(axis=2) / 2
        values = np.concatenate([main, paired[:, left, right]], axis=1)
        names = game.players.names
        together = tuple(f"{names[i]}{JOIN}{names[j]}" for i, j in zip(left, right, strict=True))
        return game.explanation(rows, values[once.place], names=(*names, *together))


def _add(
    single: NDArray[np.float64],
    paired: NDArray[np.float64],
    block: Block,
    weights: NDArray[np.float64],
) -> None:
    players = block.active.shape[1]
    weight = weights[block.background][:, np.newaxis]
    alone = shapley_share(block.worths, players, block.high) * weight
    row, active = block.row[:, np.newaxis], block.active
    np.add.at(single, (row, active), alone.swapaxes(0, 1))
    if players > 1:
        both = interaction_share(block.worths, players, block.high) * weight
        place = (row[:, :, np.newaxis], active[:, :, np.newaxis], active[:, np.newaxis])
        np.add.at(paired, place, both.transpose(2, 0, 1, 3))
