"""Means with Student's intervals, as published: five runs, 95 %."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats


@dataclass(frozen=True)
class Interval:
    """Mean, half width of the 95 % interval, coefficient of variation in percent."""

    mean: float
    half: float
    variation: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Interval:
        array = np.asarray(values, dtype=np.float64)
        spread = float(array.std(ddof=1)) if len(array) > 1 else 0.0
        wide = float(stats.t.ppf(0.975, max(len(array) - 1, 1)))
        mean = float(array.mean())
        half = wide * spread / math.sqrt(len(array))
        return cls(mean, half, 100 * spread / abs(mean) if mean else math.nan)

    @property
    def high(self) -> float:
        return self.mean + self.half


def not_below(values: Sequence[float], mean: float, spread: float, runs: int = 5) -> bool:
    """Whether these are not significantly below a published mean with its standard deviation
    (Welch's test, two-sided, 5 %)."""
    array = np.asarray(values, dtype=np.float64)
    if array.mean() >= mean:
        return True
    found = stats.ttest_ind_from_stats(
        array.mean(), array.std(ddof=1), len(array), mean, spread, runs, equal_var=False
    )
    return bool(found.pvalue > 0.05)
