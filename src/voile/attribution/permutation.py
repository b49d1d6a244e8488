"""Shapley values by antithetic permutations, a chain of coalitions for each background row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from voile.attribution.game import Game
from voile.attribution.sampling import (
    GameEstimates,
    SampledShapley,
    check_sampled_players,
    freedom_of,
    paired_responses,
)
from voile.models import Outputs

MOST_PLAYERS = 4096

# Where there is one chain only for each background row, one in so many rows gets a second: the
# difference of two chains tells how far one is off.
SECOND = 4


@dataclass(frozen=True, eq=False)
class PermutationShapley(SampledShapley):
    """Unbiased estimates from random orders of the players, each walked forwards and backwards.

    Exact for models without interactions of more than two players. Any number of players.

    Arguments: see `SampledShapley`.

    >>> background = np.random.default_rng(0).random((50, 20))
    >>> found = PermutationShapley(lambda x: x.prod(axis=1), background)(np.ones((1, 20)))
    >>> found.shape, bool(found.standard_errors.max() > 0)
    ((1, 20, 1), True)
    """

    title: ClassVar[str] = "permutation Shapley"
    tag: ClassVar[str] = "permutation-shapley"

    def check_players(self, players: int) -> None:
        check_sampled_players(players, MOST_PLAYERS, "form groups of features")

    @property
    def sampler(self) -> Chains:
        return Chains()


@dataclass(frozen=True)
class Chains:
    """Random orders, each with its reverse.

    The coalitions S_k of the first k players in the reversed order are the complements of S_{d−k},
    so a chain and its reverse need the responses r(S) = v(S) − v(complement) of S_1 … S_{d−1} only,
    and the player at position k gets (r(S_{k+1}) − r(S_k))/2, where r(everybody) = −r(nobody) =
    f(x) − f(b).
    """

    def smallest(self, players: int) -> int:
        return -(-2 * (players - 1) * (SECOND + 1) // SECOND)

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
        if players == 1:
            return GameEstimates.exact(gap[:, np.newaxis])
        chains = evaluations // (2 * (players - 1))
        if chains > 1:
            values = self._values(game, row, chosen, gap, chains, draw)
            variances = values.var(axis=1, ddof=1) / chains
            freedom = freedom_of(variances, max(chains - 3, 0))  # few chains: heavy tails show
            return GameEstimates(values.mean(axis=1), variances, freedom)
        values = self._values(game, row, chosen, gap, 1, draw)[:, 0]
        again, chance = _second_chain(values, draw)
        second = self._values(game, row, chosen[again], gap[again], 1, draw)[:, 0]
        # The variance of one chain is half the squared difference of two. Weighing by the chance of
        # having been chosen makes the sum over the chosen rows stand for all.
        single = (values[again] - second) ** 2 / 2 / chance[again, np.newaxis, np.newaxis]
        variances = np.repeat(single.sum(axis=0, keepdims=True) / games, games, axis=0)
        # Fewer degrees of freedom: with one difference a row, a heavy row often looks light, and
        # then the sum and its own uncertainty are both taken for too small. 1.5 is measured.
        return GameEstimates(values, variances, freedom_of(single) / 1.5)

    def _values(
        self,
        game: Game,
        row: NDArray[np.float64],
        chosen: NDArray[np.intp],
        gap: NDArray[np.float64],
        chains: int,
        draw: np.random.Generator,
    ) -> NDArray[np.float64]:
        """What each chain with its reverse gives, shape (games, chains, players, outputs)."""
        players, games = game.players.count, len(chosen)
        rank = draw.permuted(np.broadcast_to(np.arange(players), (games, chains, players)), axis=2)
        steps = np.arange(1, players)[:, np.newaxis]
        coalitions = rank[:, :, np.newaxis] < steps  # (games, chains, steps, players)
        flat = coalitions.reshape(games, chains * (players - 1), players)
        responses = paired_responses(game, row, game.background[chosen], flat)
        outputs = responses.shape[2]
        whole = np.empty((games, chains, players + 1, outputs))
        whole[:, :, 1:-1] = responses.reshape(games, chains, players - 1, outputs)
        whole[:, :, 0], whole[:, :, -1] = -gap[:, np.newaxis], gap[:, np.newaxis]
        in_order = np.diff(whole, axis=2) / 2
        return np.take_along_axis(in_order, rank[..., np.newaxis], axis=2)


def _second_chain(
    values: NDArray[np.float64], draw: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Which background rows get a second chain, and with what chance each would have got one.

    Rows with large values, because a few of them often hold most of the variance. The second chain
    tells the error only: were it averaged in, choosing by the first would bias the mean.
    """
    games = len(values)
    squares = values**2
    share = squares / np.maximum(squares.sum(axis=0), 1e-300)  # of each player's and output's own
    size = share.sum(axis=(1, 2)) + share.sum() / games / 4 + 1e-300
    chance = np.minimum(size / size.sum() * (games / SECOND), 1.0)
    again = np.flatnonzero(draw.random(games) < chance)
    return (again if len(again) else np.array([int(np.argmax(chance))])), chance
