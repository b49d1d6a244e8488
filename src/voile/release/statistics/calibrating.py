"""From the calibration table to the slope and intercept of the log-odds: post-processing."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from voile.release.statistics.first_model import FirstModel, centre
from voile.release.statistics.rule import RULE
from voile.release.statistics.solving import Vector


@dataclass(frozen=True)
class Slope:
    """How scores are corrected.

    Args:
        factor: of the scores.
        intercept: of the corrected log-odds.
        deviation: of the logarithm of the factor.
        intercept_error: of the mean log-odds, from the noise of the label rate.
    """

    factor: float
    intercept: float
    deviation: float
    intercept_error: float


def calibrated(first: FirstModel, table: NDArray[np.int64]) -> Slope:
    """The posterior of one slope; the intercept follows from the label rate.

    Two free parameters fitted to noisy counts blow up, so the slope has a log-normal prior.
    """
    from scipy.special import expit

    rule, rows = RULE.calibration, first.budget.rows
    deviation = first.budget.calibration_noise.sigma * math.sqrt(first.budget.parties)
    middles, _ = first.score_bins
    shares = _shrunk_shares(first, table, deviation)
    rate, rate_variance = _combined_rate(first, table, deviation)
    centred = middles - shares @ middles
    # Σ y·(x − x̄)/n, where the sums over both classes are taken from the shrunk shares.
    seen = float((table[:, 1] - table[:, 0] + rows * shares) / 2 @ centred) / rows
    noise = deviation**2 / 2 * float(centred @ centred) / rows**2
    grid = np.geomspace(rule.slope_least, rule.slope_most, rule.slope_steps)

    def intercept(slope: float) -> float:
        return centre(lambda m: float(shares @ expit(m + slope * middles)) - rate)

    def log_posterior(slope: float) -> float:
        chance = expit(intercept(slope) + slope * middles)
        sampling = float(shares * chance * (1 - chance) @ centred**2) / rows
        variance = noise + sampling
        gap = seen - float(shares * chance @ centred)
        prior = (math.log(slope) - math.log(rule.slope_median)) / rule.slope_deviation
        return -0.5 * (gap**2 / variance + math.log(variance) + prior**2)

    weights = np.array([log_posterior(float(slope)) for slope in grid])
    weights = np.exp(weights - weights.max())
    weights /= weights.sum()
    mean = float(weights @ np.log(grid))
    spread = float(weights @ (np.log(grid) - mean) ** 2)
    factor = math.exp(mean)
    return Slope(
        factor, intercept(factor), math.sqrt(spread), math.sqrt(rate_variance) / (rate * (1 - rate))
    )


def _shrunk_shares(first: FirstModel, table: NDArray[np.int64], deviation: float) -> Vector:
    """The share of rows in each bin: counts shrunk toward those of a normal score."""
    rows, expected = first.budget.rows, first.score_bins[1]
    excess = table.sum(axis=1) - rows * expected
    excess = excess - excess.mean()
    noise = 2 * deviation**2 * (len(expected) - 1)
    factor = float(np.clip(1 - noise / max(float(excess @ excess), 1e-9), 0, 1))
    counts = np.maximum(rows * expected + factor * excess, 0)
    shares: Vector = counts / counts.sum()
    return shares


def _combined_rate(
    first: FirstModel, table: NDArray[np.int64], deviation: float
) -> tuple[float, float]:
    """The share of the second class from all three releases, with the variance of its noise."""
    rows, clip = first.budget.rows, RULE.solve.rate_clip
    precision = np.array([rows**2 / (len(table) * deviation**2), 1 / first.rate_variance])
    rates = np.array([float(table[:, 1].sum()) / rows, first.rate])
    rate = float(precision @ rates / precision.sum())
    return float(np.clip(rate, clip, 1 - clip)), 1 / float(precision.sum())
