"""From the calibration table to slope and intercept, and so to the model: post-processing."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from voile.models.additive import AdditiveModel
from voile.release.statistics.first_model import FirstModel
from voile.release.statistics.rule import RULE
from voile.release.statistics.solving import Vector


@dataclass(frozen=True)
class Slope:
    """How scores are corrected.

    Args:
        factor: of the scores.
        intercept: of the corrected log-odds.
        deviation: what noise does to the logarithm of the factor.
    """

    factor: float
    intercept: float
    deviation: float


def calibrated_model(first: FirstModel, table: NDArray[np.int64]) -> AdditiveModel:
    """The model of all three releases, with the errors that their noise makes."""
    slope = fitted_slope(first, table)
    scores = slope.factor * first.scores
    # A wrong slope stretches all scores alike. So does noise in them: the label depends less on a
    # noisy score than on one without noise, and calibration makes it flatter.
    stretch = slope.deviation**2 + first.error_share**2
    return AdditiveModel(
        schema=first.budget.schema,
        bins=first.bins,
        intercept=slope.intercept,
        scores=scores,
        masses=first.masses,
        covariance=slope.factor**2 * first.covariance + stretch * np.outer(scores, scores),
    )


def fitted_slope(first: FirstModel, table: NDArray[np.int64]) -> Slope:
    """The posterior of one slope; the intercept follows from the label rate.

    Two free parameters fitted to noisy counts blow up, so the slope has a log-normal prior.
    """
    rule, rows = RULE.slope, first.budget.rows
    noise = first.budget.calibration_noise.sigma * first.budget.growth[2]
    shares = _shrunk_shares(first, table, noise)
    rate = _combined_rate(first, table, noise)
    curve = SlopeCurve(shares, first.score_bins[0], rate)
    grid = np.geomspace(rule.least, rule.most, rule.steps)
    expected, sampling = curve.moments(grid)
    # Σ y·(x − x̄)/n, where the sums over both classes are taken from the shrunk shares.
    seen = float((table[:, 1] - table[:, 0] + rows * shares) / 2 @ curve.centred) / rows
    variance = noise**2 / 2 * float(curve.centred @ curve.centred) / rows**2 + sampling / rows
    prior = (np.log(grid) - math.log(rule.median)) / rule.deviation
    weights = -0.5 * ((seen - expected) ** 2 / variance + np.log(variance) + prior**2)
    weights = np.exp(weights - weights.max())
    weights /= weights.sum()
    mean = float(weights @ np.log(grid))
    spread = float(weights @ (np.log(grid) - mean) ** 2)
    # Rows that are sampled spread it as well, and would do so without noise.
    steepness = float(weights @ np.gradient(expected, np.log(grid)))
    within = max(float(weights @ sampling), 1e-300)  # 0 if all rows lie in one bin
    information = steepness**2 * rows / within + rule.deviation**-2
    return Slope(
        math.exp(mean),
        float(curve.intercepts(np.array([math.exp(mean)]))[0]),
        math.sqrt(max(spread - 1 / information, 0.0)),
    )


@dataclass(frozen=True, eq=False)
class SlopeCurve:
    """Probabilities in the bins of the table, for any slope.

    Args:
        shares: of rows in each bin.
        middles: of the bins, around the intercept.
        rate: the mean probability.
    """

    shares: Vector
    middles: Vector
    rate: float

    @property
    def centred(self) -> Vector:
        centred: Vector = self.middles - self.shares @ self.middles
        return centred

    def intercepts(self, slopes: Vector) -> Vector:
        """For each slope the one that keeps the mean probability, by bisection."""
        from scipy.special import expit

        low, high = np.full(len(slopes), -30.0), np.full(len(slopes), 30.0)
        for _ in range(60):
            middle = (low + high) / 2
            above = (
                expit(middle[:, None] + np.outer(slopes, self.middles)) @ self.shares > self.rate
            )
            low, high = np.where(above, low, middle), np.where(above, middle, high)
        found: Vector = (low + high) / 2
        return found

    def moments(self, slopes: Vector) -> tuple[Vector, Vector]:
        """Of y·(x − x̄) for each slope: its mean, and its variance within bins."""
        from scipy.special import expit

        chance = expit(self.intercepts(slopes)[:, None] + np.outer(slopes, self.middles))
        return chance @ (self.shares * self.centred), (chance * (1 - chance)) @ (
            self.shares * self.centred**2
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


def _combined_rate(first: FirstModel, table: NDArray[np.int64], deviation: float) -> float:
    """The share of the second class from all three releases."""
    rows, clip = first.budget.rows, RULE.solve.rate_clip
    precision = np.array([rows**2 / (len(table) * deviation**2), 1 / first.rate_variance])
    rates = np.array([float(table[:, 1].sum()) / rows, first.rate])
    rate = float(precision @ rates / precision.sum())
    return float(np.clip(rate, clip, 1 - clip))
