"""The same models without privacy, to compare with. Nothing made with them is for release."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from voile.recommenders.models import LinearRecommender, PopularityRecommender, ease
from voile.recommenders.moments import Matrix
from voile.recommenders.shop import Catalogue, Interactions


def exact_popularity(interactions: Interactions) -> PopularityRecommender:
    """How many users touched each item."""
    counts = np.asarray(interactions.matrix.sum(axis=0)).reshape(-1)
    return PopularityRecommender(interactions.catalogue, counts)


def exact_autoencoder(interactions: Interactions, *, ridge: float = 500.0) -> LinearRecommender:
    """EASE on the whole catalogue and on counts, as it was published."""
    catalogue, matrix = interactions.catalogue, interactions.matrix
    everything = np.arange(len(catalogue))
    through = np.zeros((len(catalogue), catalogue.features.shape[1]))
    weights = ease((matrix.T @ matrix).toarray(), ridge)
    popularity = exact_popularity(interactions).popularity
    return LinearRecommender(catalogue, popularity, everything, weights, through)


@dataclass(frozen=True, eq=False)
class ImplicitFactors:
    """Matrix factorisation of confidences (Hu, Koren and Volinsky 2008): score = user · item.

    A user's factors are computed from her own history, so newcomers are served as well.
    """

    catalogue: Catalogue
    items: Matrix
    confidence: float
    ridge: float

    def scores(self, histories: sparse.csr_array) -> Matrix:
        return self.users(sparse.csr_array(histories)) @ self.items.T

    def users(self, histories: sparse.csr_array) -> Matrix:
        return solved(histories, self.items, self.confidence, self.ridge)


def exact_factors(
    interactions: Interactions,
    *,
    rank: int = 64,
    confidence: float = 10.0,
    ridge: float = 10.0,
    sweeps: int = 10,
    seed: int = 0,
) -> ImplicitFactors:
    """Alternating least squares, both sides in closed form."""
    histories = interactions.matrix
    by_item = sparse.csr_array(histories.T)
    draw = np.random.default_rng(seed)
    items = draw.normal(0, 0.01, (histories.shape[1], rank))
    for _ in range(sweeps):
        users = solved(histories, items, confidence, ridge)
        items = solved(by_item, users, confidence, ridge)
    return ImplicitFactors(interactions.catalogue, items, confidence, ridge)


def solved(rows: sparse.csr_array, factors: Matrix, confidence: float, ridge: float) -> Matrix:
    """For each row r the x with (FᵀF + c Σ_{i ∈ r} f_i f_iᵀ + ridge) x = (1 + c) Σ_{i ∈ r} f_i."""
    common = factors.T @ factors + ridge * np.eye(factors.shape[1])
    found = np.zeros((rows.shape[0], factors.shape[1]))
    for row, (start, end) in enumerate(zip(rows.indptr[:-1], rows.indptr[1:], strict=True)):
        touched = factors[rows.indices[start:end]]
        if len(touched):
            left = common + confidence * (touched.T @ touched)
            found[row] = np.linalg.solve(left, (1 + confidence) * touched.sum(axis=0))
    return found
