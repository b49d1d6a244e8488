"""What to expect of private statistics, and of a network instead, before anything is spent."""

from __future__ import annotations

import math
from typing import Final

from voile.release.statistics import StatisticsBudget
from voile.release.statistics.rule import RULE

TOO_LITTLE: Final = RULE.signal.least
"""Under this signal, explanations had little in common with those of a model without noise."""
EXPECTED: Final = (
    (2000.0, 0.02, 0.02),
    (1000.0, 0.02, 0.03),
    (500.0, 0.03, 0.04),
    (200.0, 0.04, 0.05),
    (80.0, 0.05, 0.08),
)
"""From a signal on: the most that models lost in AUC and log-loss to logistic regression without
privacy, on five public data sets, rounded up (results/private_statistics.json, 16,000 rows)."""


MOST_GAINED: Final = 0.03
"""The most in AUC that gradient boosting gained on logistic regression on these sets, both without
privacy: what interactions of features were worth."""


def expectation(budget: StatisticsBudget) -> tuple[str, ...]:
    """What to expect of private statistics, and of a network instead; from public facts."""
    signal = (
        f"signal {budget.signal:.0f} ({budget.rows:,} rows, {len(budget.schema.features)} "
        f"features, up to {budget.bins} bins of a number)"
    )
    if budget.target.parts > 1 or budget.target.is_number:
        return (signal,)  # the study behind the figures below is about two classes
    lost = next((each for each in EXPECTED if budget.signal >= each[0]), None)
    if lost is None:
        return (
            f"{signal}: no model of the study did well with so little",
            "a network by DP-SGD needs more signal still",
        )
    network = "a network by DP-SGD needs more signal than this on most data sets"
    if budget.signal >= EXPECTED[1][0]:
        network = (
            "a network by DP-SGD (`voile train --model network`, `voile federate`) can do better "
            "only where features interact: "
            f"on those data sets that was worth at most {MOST_GAINED:.2f} in AUC, without privacy"
        )
    return (
        f"{signal}: on public data sets such models lost at most {lost[1]:.2f} in AUC and "
        f"{lost[2]:.2f} in log-loss to logistic regression without privacy",
        network,
    )


def too_little_signal(budget: StatisticsBudget, sums: str) -> str:
    """What to say before anything is spent, where the signal is too small; else nothing.

    Args:
        sums: what would share the noise among parties.
    """
    if budget.signal >= TOO_LITTLE:
        return ""
    rows = math.ceil(budget.rows * TOO_LITTLE / budget.signal)
    return (
        f"Too little signal: {budget.signal:.1f}, and below {TOO_LITTLE:g} a model is mostly "
        f"noise. Use fewer features, a larger epsilon, more rows (about {rows:,} for this "
        f"epsilon), or {sums}"
    )
