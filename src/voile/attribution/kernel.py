"""Shapley values by regression on sampled coalitions, one regression for each background row."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import comb
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

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

# --- designs --------------------------------------------------------------------------------------

# Which coalitions a regression looks at, drawn by size, and the matrix that solves it.
#
# A design holds pairs (a coalition and its complement). Pairs of one player against the others are
# all in it. The other sizes s share the rest in proportion to 1/√(s(d − s)), which minimises the
# summed variance of the values if residuals of all sizes vary alike; a size whose pairs are fewer
# than its share is enumerated. Within a size, pairs are drawn without replacement.
#
# The regression weighs a pair of size s by its Shapley kernel weight over its probability of being
# drawn, under the constraint that values add up to zero (what is left after an even split).

# Sizes with more pairs than this are drawn with replacement: repeats are rare among so many.
LISTED = 4096


@dataclass(frozen=True, eq=False)
class Designs:
    """Several independent designs with the same numbers of pairs of each size.

    Args:
        coalitions: which players are in, shape (designs, n, players).
        memberships: the same as numbers.
        sizes: the size of each coalition, shape (n,).
        chance: the probability of a pair not to be drawn, shape (n,).
        solve: from responses to values that add up to zero, shape (designs, players, n).
        slack: 1 − leverage of each pair, shape (designs, n).
    """

    coalitions: NDArray[np.bool_]
    memberships: NDArray[np.float64]
    sizes: NDArray[np.intp]
    chance: NDArray[np.float64]
    solve: NDArray[np.float64]
    slack: NDArray[np.float64]


def pairs_of_size(players: int, size: int) -> int:
    """How many pairs have a coalition of `size` players and one of all others."""
    return comb(players, size) // (2 if 2 * size == players else 1)


def smallest_design(players: int) -> int:
    """Three pairs a player: below that, the jackknife does not hold its promise.

    Fewer where all pairs are fewer.
    """
    return min(3 * players, (1 << (players - 1)) - 1) if players > 1 else 1


def allocation(players: int, pairs: int) -> dict[int, int]:
    """How many pairs of each size, from 1 to half the players."""
    counts = {1: pairs_of_size(players, 1)}
    open_sizes = [*range(2, players // 2 + 1)]
    left = max(pairs - counts[1], len(open_sizes))
    while open_sizes:
        # The size s stands for d − s, too, unless they are the same.
        weight = {
            s: (1 if 2 * s == players else 2) / np.sqrt(s * (players - s)) for s in open_sizes
        }
        total = sum(weight.values())
        full = [s for s in open_sizes if left * weight[s] / total >= pairs_of_size(players, s)]
        if not full:
            # One of every size for certain: a size never looked at would leave its part out.
            share = {s: max(1, int(left * weight[s] / total)) for s in open_sizes}
            return counts | share
        for s in full:
            counts[s] = pairs_of_size(players, s)
            left -= counts[s]
            open_sizes.remove(s)
    return counts


@lru_cache(maxsize=8)
def designs(players: int, pairs: int, count: int, seed: int) -> Designs:
    """`count` designs of about `pairs` pairs; a pure function of its arguments."""
    draw = np.random.default_rng([seed, players, pairs, count])
    blocks, sizes, chances, weights = [], [], [], []
    for size, number in allocation(players, pairs).items():
        block, missed = _of_size(players, size, number, count, draw)
        every = pairs_of_size(players, size)
        kernel = 1 / (size * (players - size)) / comb(players, size)
        blocks.append(block)
        sizes.append(np.full(number, size))
        chances.append(np.full(number, missed))
        weights.append(np.full(number, kernel * every / number))
    coalitions = np.concatenate(blocks, axis=1)
    chance = np.concatenate(chances)
    solve, leverage = _solved(coalitions, np.concatenate(weights))
    return Designs(
        coalitions=coalitions,
        memberships=coalitions.astype(np.float64),
        sizes=np.concatenate(sizes),
        chance=chance,
        solve=solve,
        slack=np.maximum(1 - leverage, 1e-6),
    )


def _of_size(
    players: int, size: int, number: int, count: int, draw: np.random.Generator
) -> tuple[NDArray[np.bool_], float]:
    """Coalitions (count, number, players) of one size, and the probability of not being drawn."""
    every = pairs_of_size(players, size)
    if every > LISTED:
        order = draw.random((count, number, players)).argsort(axis=2)
        return order.argsort(axis=2) < size, 1.0
    listed = _listed(players, size)
    if number == every:
        return np.broadcast_to(listed, (count, *listed.shape)), 0.0
    order = draw.random((count, every)).argpartition(number - 1, axis=1)[:, :number]
    return listed[order], 1 - number / every


@lru_cache(maxsize=64)
def _listed(players: int, size: int) -> NDArray[np.bool_]:
    """All coalitions of a size, one of each pair."""
    every = pairs_of_size(players, size)
    found = np.zeros((every, players), dtype=np.bool_)
    # In the order of `combinations`, complements of half the players come from the end.
    for place, chosen in zip(range(every), combinations(range(players), size), strict=False):
        found[place, list(chosen)] = True
    return found


def _solved(
    coalitions: NDArray[np.bool_], weights: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The solution as a matrix, and the leverages.

    r ≈ (2z − 1)·φ under Σφ = 0 is r ≈ 2z·φ; with a basis Q of the vectors that add up to zero,
    φ = Q(QᵀZᵀWZQ)⁻¹QᵀZᵀW r.
    """
    players = coalitions.shape[2]
    basis = np.linalg.svd(np.ones((1, players)))[2][1:].T
    features = 2 * (coalitions.astype(np.float64) @ basis)
    weighted = features * weights[:, np.newaxis]
    gram = features.swapaxes(1, 2) @ weighted
    inner = np.linalg.solve(gram, weighted.swapaxes(1, 2))
    leverage = np.einsum("gnp,gpn->gn", features, inner)
    return basis @ inner, leverage


# --- regression -----------------------------------------------------------------------------------

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

    >>> background = np.random.default_rng(0).random((50, 20))
    >>> explainer = KernelShapley(lambda x: x.sum(axis=1), background)
    >>> found = explainer(np.ones((1, 20)))
    >>> np.allclose(found.values[0, :, 0], 1 - background.mean(axis=0))
    True
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
