"""Private recommenders to compare with: DP-ALS, local popularity, and explanations as published.

All are drawn with seeded noise here: utility only, and no guarantee.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from experiments.lib.recommenders.twins import ImplicitFactors, solved
from voile.recommenders import Catalogue, Interactions, MomentsBudget, PopularityRecommender
from voile.recommenders.moments import folded, grid_bits, popularity, unfolded, unit_rows

Array = NDArray[np.float64]


@dataclass(frozen=True)
class AlsSettings:
    """Of alternating least squares with private item sums (Chien et al. 2021, in essence).

    In each round users solve for their factors from the public item factors, clip them to length 1,
    and send u·uᵀ once and w·u for each of their items, w = 1/√(number of items): one user moves the
    one by 1/√2 and the other by 1 at most. Items are solved from the noisy sums. Only head items
    take part, as for the moments: with sums of its own for each item of a long tail, or with a
    square matrix for each item, it learns nothing at these budgets.
    """

    rank: int
    rounds: int
    ridge: float
    confidence: float = 2.0
    share: float = 0.1
    """Of mu², for u·uᵀ."""


@dataclass(frozen=True, eq=False)
class HeadRecommender:
    """Scores of head items by any model of them; the tail ranks below, by popularity."""

    catalogue: Catalogue
    popularity: Array
    head: NDArray[np.int64]
    inner: ImplicitFactors

    def scores(self, histories: sparse.csr_array) -> Array:
        inside = self.inner.scores(sparse.csr_array(histories)[:, self.head])
        below = self.popularity - self.popularity.max() - 1
        found = inside.min(axis=1, keepdims=True) + np.tile(below, (histories.shape[0], 1))
        found[:, self.head] = inside
        return np.asarray(found)


def private_als(
    interactions: Interactions,
    budget: MomentsBudget,
    settings: AlsSettings,
    draw: np.random.Generator,
) -> HeadRecommender:
    """The head by popularity as for the moments; what is left of mu² equally over the rounds."""
    noisy = _noisy_popularity(interactions, budget, draw)
    head = np.argsort(-noisy, kind="stable")[: budget.head]
    histories = sparse.csr_array(interactions.matrix[:, head])
    left = budget.mu * math.sqrt((1 - budget.popularity_share) / settings.rounds)
    for_square, for_items = left * math.sqrt(settings.share), left * math.sqrt(1 - settings.share)
    rows = unit_rows(histories, bits=grid_bits(len(interactions)))
    rank = settings.rank
    factors = draw.normal(0, 0.1, (len(head), rank))
    for _ in range(settings.rounds):
        users = solved(histories, factors, settings.confidence, settings.ridge / 10)
        users /= np.maximum(np.linalg.norm(users, axis=1, keepdims=True), 1e-12)
        items = rows.T @ users + draw.normal(0, 1 / for_items, (len(head), rank))
        square = folded(users.T @ users)
        square = unfolded(square + draw.normal(0, math.sqrt(0.5) / for_square, square.shape), rank)
        values, vectors = np.linalg.eigh(square)
        inverse = (vectors / (np.maximum(values, 0) + settings.ridge)) @ vectors.T
        factors = items @ inverse
    inner = ImplicitFactors(
        interactions.catalogue, factors, settings.confidence, settings.ridge / 10
    )
    return HeadRecommender(interactions.catalogue, noisy, head, inner)


def _noisy_popularity(
    interactions: Interactions, budget: MomentsBudget, draw: np.random.Generator
) -> Array:
    exact = popularity(unit_rows(interactions.matrix, bits=grid_bits(len(interactions))))
    return np.asarray(exact + draw.normal(0, budget.popularity_noise.sigma, exact.shape))


def local_popularity(
    interactions: Interactions, mu: float, draw: np.random.Generator
) -> PopularityRecommender:
    """Every user adds noise to her own unit vector before it leaves: √users times the noise."""
    rows = unit_rows(interactions.matrix, bits=grid_bits(len(interactions)))
    exact = np.asarray(rows.sum(axis=0)).reshape(-1)
    noise = draw.normal(0, math.sqrt(len(interactions)) / mu, exact.shape)
    return PopularityRecommender(interactions.catalogue, exact + noise)


def as_published(profile: Array, epsilon: float, delta: float, draw: np.random.Generator) -> Array:
    """AGNI of the paper: clipped to C = 1, noise for a sensitivity of C by the classic formula.

    Two clipped vectors are 2C apart, so this is not (epsilon, delta); for comparison only.
    """
    length = float(np.linalg.norm(profile))
    clipped = profile / max(1.0, length)
    sigma = math.sqrt(2 * math.log(1.25 / delta)) / epsilon
    return np.asarray(clipped + draw.normal(0, sigma, profile.shape))
