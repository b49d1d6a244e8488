"""How alike two sets of explanations of the same rows are; one figure for each row.

The measures of FastSHAP++ (section VI) and Kendall's distance of the recommender framework. A row
whose measure is undefined gets the figure stated in the docstring, never NaN.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike, NDArray

from voile.core.errors import InvalidInput
from voile.core.explanation import Explanation
from voile.evaluation.measures import Attributions, PerRow, cosine_similarity, pair


def l2_distance(first: ArrayLike, second: ArrayLike) -> PerRow:
    """Euclidean distance."""
    one, two = pair(first, second)
    return np.asarray(np.linalg.norm(one - two, axis=1))


def feature_agreement(first: ArrayLike, second: ArrayLike, *, k: int) -> PerRow:
    """Share of the top k features (by absolute value) that both name."""
    one, two = pair(first, second)
    return np.asarray((top(one, k) & top(two, k)).sum(axis=1) / k)


def sign_agreement(first: ArrayLike, second: ArrayLike, *, k: int) -> PerRow:
    """Share of the top k features that both name with the same sign."""
    one, two = pair(first, second)
    same = np.sign(one) == np.sign(two)
    return np.asarray((top(one, k) & top(two, k) & same).sum(axis=1) / k)


def rank_correlation(first: ArrayLike, second: ArrayLike) -> PerRow:
    """Spearman's correlation of the ranks by absolute value; 0 if a row has no ranking."""
    one, two = pair(first, second)
    return correlation(_ranks(one), _ranks(two))


def kendall_fidelity(first: ArrayLike, second: ArrayLike) -> PerRow:
    """One minus the share of pairs of features that are in opposite order (by value).

    A pair tied on one side counts half; tied on both sides, not at all. One feature: 1.
    """
    one, two = pair(first, second)
    features = one.shape[1]
    if features == 1:
        return np.ones(len(one))
    left, right = np.triu_indices(features, 1)
    first_order = np.sign(one[:, left] - one[:, right])
    second_order = np.sign(two[:, left] - two[:, right])
    return np.asarray(1 - np.abs(first_order - second_order).sum(axis=1) / (2 * len(left)))


def correlation(first: Attributions, second: Attributions) -> PerRow:
    """Pearson's correlation of each pair of rows; 0 where one is constant."""
    one = first - first.mean(axis=1, keepdims=True)
    two = second - second.mean(axis=1, keepdims=True)
    scale = np.linalg.norm(one, axis=1) * np.linalg.norm(two, axis=1)
    inner = np.einsum("rf,rf->r", one, two)
    return np.asarray(np.where(scale > 0, inner / np.where(scale > 0, scale, 1), 0.0))


def _ranks(values: Attributions) -> Attributions:
    from scipy.stats import rankdata

    return np.asarray(rankdata(np.abs(values), axis=1))


@dataclass(frozen=True, eq=False)
class Agreement:
    """All measures of two sets of explanations at once, one figure for each row."""

    l2: PerRow
    cosine: PerRow
    features: PerRow
    signs: PerRow
    rank: PerRow

    def means(self) -> dict[str, float]:
        """The mean of each measure over the rows."""
        return {item.name: float(getattr(self, item.name).mean()) for item in fields(self)}


def compare(first: Explanation, second: Explanation, *, k: int = 5) -> Agreement:
    """The measures of FastSHAP++ for two explanations of one output of the same rows.

    `k` is lowered to the number of features if there are fewer.
    """
    if first.shape[2] != 1 or second.shape[2] != 1:
        raise InvalidInput("choose one output of each first, with .output(name)")
    if first.feature_names != second.feature_names:
        raise InvalidInput("both must explain the same features in the same order")
    one, two = first.values[:, :, 0], second.values[:, :, 0]
    k = min(k, one.shape[1])
    return Agreement(
        l2=l2_distance(one, two),
        cosine=cosine_similarity(one, two),
        features=feature_agreement(one, two, k=k),
        signs=sign_agreement(one, two, k=k),
        rank=rank_correlation(one, two),
    )


def top(values: Attributions, k: int) -> NDArray[np.bool_]:
    """Which k features are largest in absolute value, for each row; ties go to the earlier one."""
    if isinstance(k, bool) or not 1 <= k <= values.shape[1]:
        raise InvalidInput(f"k must lie between 1 and {values.shape[1]} features, found {k}")
    order = np.argsort(-np.abs(values), axis=1, kind="stable")[:, :k]
    chosen = np.zeros(values.shape, dtype=np.bool_)
    np.put_along_axis(chosen, order, True, axis=1)
    return chosen
