"""What several runs of one experiment say."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from voile.core.errors import InvalidInput


@dataclass(frozen=True)
class RunSummary:
    """Figures of repeated runs.

    Args:
        mean, sd: over the runs (sd with n − 1).
        t_interval: 95 % interval of the mean by Student's t.
        bootstrap_interval: 95 % percentile interval of the mean from 10,000 resamples.
        variation: coefficient of variation, sd over |mean|; infinite if the mean is 0.
    """

    runs: int
    mean: float
    sd: float
    t_interval: tuple[float, float]
    bootstrap_interval: tuple[float, float]
    variation: float

    def __str__(self) -> str:
        low, high = self.t_interval
        return f"{self.mean:.4g} ± {self.sd:.2g} (95 %: {low:.4g} to {high:.4g}, n = {self.runs})"


def summarise(figures: ArrayLike, *, generator: np.random.Generator) -> RunSummary:
    """Summary of at least two runs; the generator draws the bootstrap."""
    from scipy import stats

    values = _runs(figures)
    mean, sd = float(values.mean()), float(values.std(ddof=1))
    reach = float(stats.t.ppf(0.975, len(values) - 1)) * sd / math.sqrt(len(values))
    resampled = generator.choice(values, size=(10_000, len(values))).mean(axis=1)
    low, high = np.quantile(resampled, [0.025, 0.975])
    variation = sd / abs(mean) if mean else (math.inf if sd else 0.0)
    return RunSummary(
        len(values), mean, sd, (mean - reach, mean + reach), (float(low), float(high)), variation
    )


@dataclass(frozen=True)
class PairedTest:
    """Whether one method differs from another over the same runs.

    `p_value` is Wilcoxon's signed-rank test; `corrected` multiplies it by the number of comparisons
    made (Bonferroni). `effect` is Cohen's d of the paired differences.
    """

    p_value: float
    corrected: float
    effect: float


def compare_to(
    reference: ArrayLike, others: Mapping[str, ArrayLike] | Sequence[ArrayLike]
) -> dict[str, PairedTest]:
    """Paired tests of several methods against a reference, corrected for their number."""
    named = others if isinstance(others, Mapping) else {str(i): v for i, v in enumerate(others)}
    if not named:
        raise InvalidInput("at least one method must be compared")
    base = _runs(reference)
    return {name: _paired(_runs(values), base, len(named)) for name, values in named.items()}


def cohens_d(first: ArrayLike, second: ArrayLike) -> float:
    """Mean difference over the pooled standard deviation, of two independent sets of runs."""
    one, two = _runs(first), _runs(second)
    freedom = len(one) + len(two) - 2
    pooled = math.sqrt(
        ((len(one) - 1) * one.var(ddof=1) + (len(two) - 1) * two.var(ddof=1)) / freedom
    )
    return _ratio(float(one.mean() - two.mean()), pooled)


def _paired(values: NDArray[np.float64], base: NDArray[np.float64], comparisons: int) -> PairedTest:
    from scipy import stats

    if values.shape != base.shape:
        raise InvalidInput(f"runs must be paired, found {len(values)} and {len(base)}")
    difference = values - base
    if not difference.any():
        return PairedTest(1.0, 1.0, 0.0)
    p_value = float(stats.wilcoxon(values, base).pvalue)
    sd = float(difference.std(ddof=1))
    mean = float(difference.mean())
    return PairedTest(p_value, min(1.0, p_value * comparisons), _ratio(mean, sd))


def _ratio(mean: float, sd: float) -> float:
    if sd:
        return mean / sd
    return math.copysign(math.inf, mean) if mean else 0.0


def _runs(figures: ArrayLike) -> NDArray[np.float64]:
    values = np.asarray(figures, dtype=np.float64)
    if values.ndim != 1 or len(values) < 2 or not np.isfinite(values).all():
        raise InvalidInput(f"expected at least two finite figures, found shape {values.shape}")
    return values
