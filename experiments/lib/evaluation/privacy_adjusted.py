"""The privacy-adjusted attribution score (PAAS) of the recommender framework, as published.

Its flaw: the second term grows with epsilon by itself. A release with a *larger* epsilon, that is
with less privacy, scores better even if its attributions are no better; wrong attributions at a
large epsilon reach 1 − alpha. Use it to reproduce published figures, not to choose an epsilon.
"""

from __future__ import annotations

import math

from numpy.typing import ArrayLike

from experiments.lib.evaluation.agreement import kendall_fidelity
from voile.core.errors import InvalidInput
from voile.evaluation.measures import PerRow
from voile.recommenders.third_party import ALPHA, REFERENCE_EPSILON


def privacy_adjusted_score(
    private: ArrayLike,
    true: ArrayLike,
    *,
    epsilon: float,
    alpha: float = ALPHA,
    reference: float = REFERENCE_EPSILON,
) -> PerRow:
    """alpha · Kendall fidelity + (1 − alpha) · (1 − exp(−epsilon / reference))."""
    if not epsilon > 0 or not 0 <= alpha <= 1 or not reference > 0:
        raise InvalidInput("expected epsilon and reference above 0 and alpha between 0 and 1")
    reward = -math.expm1(-epsilon / reference)
    return alpha * kendall_fidelity(private, true) + (1 - alpha) * reward
