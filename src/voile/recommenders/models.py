"""Recommenders: from a history to scores of all items. A user needs no training and no number.

`LinearRecommender` holds the item side alone; the user side is her own history, wherever that is.
So newcomers are served like anybody else, and nothing in an artefact belongs to one user.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from voile.core.digest_names import digest_name
from voile.core.errors import InvalidInput
from voile.recommenders.budget import RIDGE
from voile.recommenders.moments import ItemMoments, Matrix
from voile.recommenders.shop import Catalogue, History

# Weights of a tail item are read off its public features; a ridge for features that few items have.
_TAIL_RIDGE = 1.0


class Recommender(Protocol):
    """Scores of all items of a catalogue, from histories."""

    @property
    def catalogue(self) -> Catalogue: ...

    def scores(self, histories: sparse.csr_array) -> Matrix:
        """Shape (users, items); a higher score is a better item."""


@digest_name("voile.recommenders.models.PopularityRecommender")
@dataclass(frozen=True, eq=False)
class PopularityRecommender:
    """The same for everybody."""

    catalogue: Catalogue
    popularity: NDArray[np.float64]

    def scores(self, histories: sparse.csr_array) -> Matrix:
        return np.tile(self.popularity, (histories.shape[0], 1))


@digest_name("voile.recommenders.models.LinearRecommender")
@dataclass(frozen=True, eq=False)
class LinearRecommender:
    """score(i) = Σ over the head items j of a history of weight(j, i).

    Items outside the head are scored through their public features: `through` says how much a head
    item speaks for popularity times each feature. Whoever has no head item gets popularity.

    Args:
        catalogue: public.
        popularity: of all items, not below 0.
        head: places of the H items with weights of their own.
        weights: shape (H, H), zeros on the diagonal.
        through: shape (H, features).
    """

    catalogue: Catalogue
    popularity: NDArray[np.float64]
    head: NDArray[np.int64]
    weights: Matrix
    through: Matrix

    def __post_init__(self) -> None:
        size, features = len(self.head), self.catalogue.features.shape[1]
        expected = ((len(self.catalogue),), (size, size), (size, features))
        found = self.popularity.shape, self.weights.shape, self.through.shape
        if found != expected or not all(
            np.isfinite(each).all() for each in (self.popularity, self.weights, self.through)
        ):
            raise InvalidInput(f"expected finite numbers of shapes {expected}, found {found}")

    @cached_property
    def tail(self) -> NDArray[np.int64]:
        return np.setdiff1d(np.arange(len(self.catalogue)), self.head)

    @cached_property
    def _features(self) -> Matrix:
        """Popularity times public features, shape (items, features)."""
        return self.popularity[:, np.newaxis] * self.catalogue.features

    @cached_property
    def _tail_features(self) -> Matrix:
        return np.ascontiguousarray(self._features[self.tail].T)

    def scores(self, histories: sparse.csr_array) -> Matrix:
        known = self._of_head(histories)
        found = np.empty((histories.shape[0], len(self.catalogue)))
        found[:, self.head] = known @ self.weights
        found[:, self.tail] = (known @ self.through) @ self._tail_features
        strangers = np.diff(known.indptr) == 0
        found[strangers] = self.popularity
        return found

    def _of_head(self, histories: sparse.csr_array) -> sparse.csr_array:
        """`histories[:, head]` without the general way of choosing columns, which is slow for one
        row."""
        place = self._head_places[histories.indices]
        inside = place >= 0
        starts = np.concatenate([[0], np.cumsum(inside)])[histories.indptr]
        shape = histories.shape[0], len(self.head)
        return sparse.csr_array((histories.data[inside], place[inside], starts), shape=shape)

    def contributions(self, history: History, items: NDArray[np.int64]) -> Matrix:
        """What each item of a history adds to the scores of some items, exactly.

        Shape (len(history), len(items)); zeros for items of the history outside the head.
        """
        place = self._head_places[history]
        known = place >= 0
        found = np.zeros((len(history), len(items)))
        found[known] = self._columns(items)[place[known]]
        return found

    def base(self, history: History, items: NDArray[np.int64]) -> NDArray[np.float64]:
        """What the scores of some items begin with: popularity for whoever has no head item."""
        known = bool((self._head_places[history] >= 0).any())
        return np.zeros(len(items)) if known else self.popularity[items]

    def _columns(self, items: NDArray[np.int64]) -> Matrix:
        """Weights of all head items for some items, shape (H, len(items))."""
        place = self._head_places[items]
        found = np.empty((len(self.head), len(items)))
        inside = place >= 0
        found[:, inside] = self.weights[:, place[inside]]
        found[:, ~inside] = self.through @ self._features[items[~inside]].T
        return found

    @cached_property
    def _head_places(self) -> NDArray[np.int64]:
        places = np.full(len(self.catalogue), -1, dtype=np.int64)
        places[self.head] = np.arange(len(self.head))
        return places


def autoencoder_from(moments: ItemMoments, *, ridge: float = RIDGE) -> LinearRecommender:
    """The linear autoencoder (EASE) of released moments; costs nothing."""
    return _linear(moments, ease(moments.clean_gram, ridge))


def factors_from(
    moments: ItemMoments, *, rank: int = 32, ridge: float = RIDGE
) -> LinearRecommender:
    """Matrix factorisation of released moments; costs nothing.

    Items are the leading eigenvectors of the Gram matrix, scaled by the roots of the eigenvalues;
    a user's factors are the ridge regression of her own history on them, in closed form.
    """
    values, vectors = np.linalg.eigh(moments.clean_gram)
    kept = slice(max(0, len(values) - rank), None)
    shrinking = values[kept] / (values[kept] + ridge)
    return _linear(moments, (vectors[:, kept] * shrinking) @ vectors[:, kept].T)


def recommender_from(moments: ItemMoments) -> Recommender:
    """The autoencoder, or popularity where the budget was too small for more."""
    if moments.gram is None:
        return PopularityRecommender(moments.catalogue, np.maximum(moments.popularity.values, 0.0))
    return autoencoder_from(moments)


def ease(gram: Matrix, ridge: float) -> Matrix:
    """The linear autoencoder without a diagonal, in closed form (Steck 2019).

    B = I − P·diag(P)⁻¹ with P = (G + ridge)⁻¹: the weights with which the rows best predict
    themselves, if no item may be predicted from itself.
    """
    inverse = np.linalg.inv(gram + ridge * np.eye(len(gram)))
    weights = -inverse / np.diag(inverse)
    np.fill_diagonal(weights, 0.0)
    return np.asarray(weights)


def _linear(moments: ItemMoments, weights: Matrix) -> LinearRecommender:
    popularity = np.maximum(moments.popularity.values, 0.0)
    scaled = (popularity[:, np.newaxis] * moments.catalogue.features)[moments.head]
    square = scaled.T @ scaled + _TAIL_RIDGE * np.eye(scaled.shape[1])
    through = weights @ np.linalg.solve(square, scaled.T).T
    return LinearRecommender(moments.catalogue, popularity, moments.head, weights, through)


def best(scores: NDArray[np.float64], history: History, count: int) -> NDArray[np.int64]:
    """The best items for one user that she has not touched, best first."""
    left = scores.copy()
    left[history] = -np.inf
    return np.argsort(-left, kind="stable")[: min(count, len(left) - len(history))]
