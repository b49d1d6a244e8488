"""Measures of ranked lists, one figure for each list.

Scores cover *all* candidates by default, which is the protocol that can be compared; ranking the
relevant items among a hundred sampled ones gives far higher figures and must be said.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from voile.core.errors import InvalidInput


def ndcg(relevance: ArrayLike, scores: ArrayLike, *, k: int) -> NDArray[np.float64]:
    """Normalised discounted cumulative gain of the k highest scores; 0 if nothing is relevant.

    Args:
        relevance: gains of all candidates, at least 0, shape (lists, candidates).
        scores: what they are ranked by; ties go to the earlier candidate.
        k: length of the list that is judged.
    """
    gains, given = _checked(relevance, scores, k)
    discounts = 1 / np.log2(np.arange(2, k + 2))
    ranked = np.take_along_axis(gains, _best(given, k), axis=1)
    ideal = -np.sort(np.partition(-gains, k - 1, axis=1)[:, :k], axis=1) @ discounts
    return np.asarray(np.where(ideal > 0, ranked @ discounts / np.where(ideal > 0, ideal, 1), 0.0))


def recall(relevance: ArrayLike, scores: ArrayLike, *, k: int) -> NDArray[np.float64]:
    """Share of the relevant candidates among the k highest scores; 0 if nothing is relevant."""
    gains, given = _checked(relevance, scores, k)
    relevant = gains > 0
    found = np.take_along_axis(relevant, _best(given, k), axis=1)
    total = relevant.sum(axis=1)
    return np.asarray(np.where(total > 0, found.sum(axis=1) / np.maximum(total, 1), 0.0))


def _best(scores: NDArray[np.float64], k: int) -> NDArray[np.intp]:
    """The k highest scores of each list, best first; ties go to the earlier candidate.

    Lists are long and k is small: only where the last place is tied is a whole list sorted.
    """
    found = np.argpartition(-scores, k - 1, axis=1)[:, :k]
    found.sort(axis=1)
    values = np.take_along_axis(scores, found, axis=1)
    found = np.take_along_axis(found, np.argsort(-values, axis=1, kind="stable"), axis=1)
    last = values.min(axis=1, keepdims=True)
    tied = np.flatnonzero((scores >= last).sum(axis=1) > k)
    if len(tied):
        found[tied] = np.argsort(-scores[tied], axis=1, kind="stable")[:, :k]
    return found


def _checked(
    relevance: ArrayLike, scores: ArrayLike, k: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    gains = np.asarray(relevance, dtype=np.float64)
    given = np.asarray(scores, dtype=np.float64)
    if gains.ndim != 2 or gains.shape != given.shape or not gains.size:
        raise InvalidInput(f"expected (lists, candidates), found {gains.shape}, {given.shape}")
    if not (np.isfinite(gains).all() and np.isfinite(given).all()) or (gains < 0).any():
        raise InvalidInput("expected finite scores and gains of at least 0")
    if not 1 <= k <= gains.shape[1]:
        raise InvalidInput(f"k must lie between 1 and {gains.shape[1]}, found {k}")
    return gains, given
