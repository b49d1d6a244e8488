"""Shapley values by regression on sampled coalitions, one regression for each background row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from voile.attribution.designs import designs, smallest_design
from voile.attribution.game import Game
from voile.attribution.permutation import Chains
from voile.attribution.sampling import (
    GameEstimates,
    SampledShapley,
    check_sampled_players,
    freedom_of,
    paired_responses,
)
from voile.models import Outputs

MOST_PLAYERS = 512


@dataclass(frozen=True, eq=False)
class KernelShapley(SampledShapley):
    """Paired, efficiency-constrained regression with coalitions drawn by leverage.

    Exact for models without interactions of more than two players, and for every model once the
    effort covers all coalitions. An effort too small for a regression on each background row (six
    evaluations a player) walks permutations instead, as `PermutationShapley` does. Otherwise the
    estimates have a bias that is small against their standard error; `PermutationShapley` has none.
    Any number of players.

    Arguments: see `SampledShapley`.
    """

    title: ClassVar[str] = "kernel Shapley"
    tag: ClassVar[str] = "kernel-shapley"

    def check_players(self, players: int) -> None:
        instead = "use PermutationShapley, or form groups of features"
        check_sampled_players(players, MOST_PLAYERS, instead)

    @property
    def sampler(self) -> Regressions:
        return Regressions(self.seed)


@dataclass(frozen=True)
class Regressions:
    """A weighted least-squares fit of the paired responses of each background row.

    In every game of single effects and pairwise interactions r(S) = Σ_S φ − Σ_rest φ holds without
    error, so the residuals come from interactions of three and more players only.
    """

    seed: int

    def smallest(self, players: int) -> int:
        return min(Chains().smallest(players), 2 * smallest_design(players))

    def estimate(
        self,
        game: Game,
        row: NDArray[np.float64],
        output: Outputs,
        chosen: NDArray[np.intp],
        evaluations: int,
        draw: np.random.Generator,
    ) -> GameEstimates:
        players, games = game.players.count, len(chosen)
        gap = output - game.background_outputs[chosen]
        even = np.repeat(gap[:, np.newaxis] / players, players, axis=1)
        if players == 1:
            return GameEstimates.exact(even)
        if evaluations < 2 * smallest_design(players):
            return Chains().estimate(game, row, output, chosen, evaluations, draw)
        # The same designs serve all rows, dealt to the background rows anew for each.
        plan = designs(players, evaluations // 2, games, self.seed)
        deal = draw.permutation(games)
        coalitions, solve, slack = plan.coalitions[deal], plan.solve[deal], plan.slack[deal]
        responses = paired_responses(game, row, game.background[chosen], coalitions)
        # What an even split of f(x) − f(b) explains is known; the rest adds up to zero.
        surplus = (2 * plan.sizes - players)[:, np.newaxis] / players
        target = responses - surplus * gap[:, np.newaxis]
        fitted = _product(solve, target)
        residual = target - 2 * _product(plan.memberships[deal], fitted)
        # A sampled coalition pulls the fit towards itself. Leaving it out divides its residual by
        # the slack 1 − h; this is the jackknife, for the values and for their variance. Coalitions
        # that are in every design (chance 0) are not random and have no part in it.
        left_out = residual / slack[..., np.newaxis]
        chance = plan.chance[:, np.newaxis]
        values = even + fitted + _product(solve, chance * (left_out - residual))
        variances = _product(solve**2, chance * left_out**2)
        drawn = int((plan.chance > 0).sum())
        return GameEstimates(values, variances, freedom_of(variances, max(drawn - players, 0)))


def _product(matrices: NDArray[np.float64], columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Many small matrix products; below some size, calling BLAS costs more than multiplying."""
    if matrices[0].size > 4096 or columns.shape[2] > 4:
        return matrices @ columns
    parts = [
        np.einsum("gij,gj->gi", matrices, columns[:, :, output])
        for output in range(columns.shape[2])
    ]
    return np.stack(parts, axis=2)
