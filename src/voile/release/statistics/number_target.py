"""A number as target: a linear model from the first two releases, its slope from the third."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from voile.models.additive import AdditiveModel
from voile.models.additive.bins import Codes, FeatureBins
from voile.models.additive.model import summed
from voile.release.statistics.budget import StatisticsBudget
from voile.release.statistics.rule import RULE
from voile.release.statistics.solving import Coefficients, Estimates, Matrix, Vector
from voile.release.statistics.targets import NumberTarget, Whole

_TAILS = 5.0
"""The variance of squared errors, in units of their squared mean; 2 for normal errors."""


@dataclass(frozen=True, eq=False, kw_only=True)
class NumberModel:
    """A linear model of the number, scaled to [−1, 1], before calibration.

    Args:
        budget: of all three releases.
        bins: of the features in use.
        intercept: the mean.
        scores: of each bin.
        masses: the share of rows in each bin.
        covariance: of what noise does to the scores.
        variance: of the score over rows.
        error_share: of it, as far as it comes from noise.
        residual: the variance of the number.
        square_deviation: of the noise in it.
    """

    budget: StatisticsBudget
    bins: tuple[FeatureBins, ...]
    intercept: float
    scores: Vector
    masses: Vector
    covariance: Matrix
    variance: float
    error_share: float
    residual: float
    square_deviation: float

    @classmethod
    def solved(cls, given: Estimates) -> NumberModel:
        """A function of what was released, and of nothing else."""
        label, size = given.label, given.size
        empty = Coefficients(np.zeros(0), np.zeros((0, 0)), 0.0, 0.0)
        found = Coefficients.solved(label) if size else empty
        natural = given.basis / np.sqrt(given.masses)[:, None]
        return cls(
            budget=given.budget,
            bins=given.merged.bins,
            intercept=label.mean[0],
            scores=natural @ found.mean,
            masses=given.masses,
            covariance=natural @ found.covariance @ natural.T,
            variance=found.variance,
            error_share=found.error_share,
            residual=label.residual,
            square_deviation=given.noise.square_deviation
            * given.budget.growth[1]
            / given.budget.rows,
        )

    @property
    def target(self) -> NumberTarget:
        target = self.budget.target
        assert isinstance(target, NumberTarget)
        return target

    def calibration_table(self, codes: Codes, labels: NDArray[np.intp]) -> Whole:
        """s²·Σ t·p and s²·Σ (p² − ½), with predictions p on the grid of t, s being its steps."""
        steps = self.target.steps
        scores = summed(self.intercept, self.scores, self.bins, codes)
        predicted = np.rint(np.clip(scores, -1, 1) * steps).astype(np.int64)
        turned = 2 * labels.astype(np.int64) - steps
        squares = predicted**2 - steps**2 // 2
        return np.array([(turned * predicted).sum(), squares.sum()], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class NumberFit:
    """The calibrated model of a number.

    Args:
        first: before calibration.
        sums: the third release.
    """

    first: NumberModel
    sums: Whole

    @property
    def deviation(self) -> float:
        """Of the noise on each sum, over rows: on the mean of t·p and of p²."""
        budget = self.first.budget
        noise = budget.calibration_noise.sigma * budget.growth[2]
        return noise / self.first.target.steps**2 / budget.rows

    @cached_property
    def covariance(self) -> float:
        """Of the number and its prediction."""
        product, _ = self._means
        return product - self.first.intercept**2

    @cached_property
    def variance(self) -> float:
        """Of the prediction; what noise makes of it is kept near to what the model says."""
        first = self.first
        released = self._means[1] - first.intercept**2
        prior = (RULE.solve.variance_prior * first.variance) ** 2
        noise = self.deviation**2
        found = (released * prior + first.variance * noise) / max(prior + noise, 1e-300)
        return max(found, first.variance / 2)

    @property
    def _means(self) -> tuple[float, float]:
        """Of t·p and of p²."""
        scale = self.first.target.steps**2 * self.first.budget.rows
        return float(self.sums[0]) / scale, float(self.sums[1]) / scale + 0.5

    @cached_property
    def slope(self) -> tuple[float, float]:
        """By which scores are stretched, and the deviation that noise gives to it."""
        first, rule = self.first, RULE.target
        if first.variance <= 0:
            return 1.0, 0.0
        noise = 2 * self.deviation**2 / self.variance**2
        sampling = first.residual / first.budget.rows / self.variance
        share = rule.slope_deviation**2 / (rule.slope_deviation**2 + noise + sampling)
        seen = self.covariance / self.variance
        found = 1 + share * (seen - 1)
        return float(np.clip(found, 0.0, rule.slope_most)), share * math.sqrt(noise)

    @cached_property
    def squared_error(self) -> tuple[float, float, float]:
        """The mean squared error in units of t, with a 95 % interval: noise of all three sums, and
        a sample of rows whose errors have heavy tails."""
        first, (slope, _) = self.first, self.slope
        product, square = self._means
        mean = first.intercept
        covariance, variance = product - mean**2, square - mean**2
        found = first.residual - 2 * slope * covariance + slope**2 * variance
        found = float(np.clip(found, 0.0, 2 * first.residual))
        squares = first.square_deviation**2
        noise = squares + (4 * slope**2 + slope**4) * self.deviation**2
        width = 1.959964 * math.sqrt(noise + _TAILS * found**2 / first.budget.rows)
        return found, max(found - width, 0.0), found + width

    @cached_property
    def model(self) -> AdditiveModel:
        """In the unit of the label, with the errors that noise makes."""
        first, (slope, deviation) = self.first, self.slope
        target = first.target
        width = target.half_width
        scores = slope * first.scores
        stretch = deviation**2 + (slope * first.error_share) ** 2
        covariance = slope**2 * first.covariance + stretch * np.outer(first.scores, first.scores)
        return AdditiveModel(
            schema=first.budget.schema,
            bins=first.bins,
            intercept=target.middle + width * first.intercept,
            scores=width * scores,
            masses=first.masses,
            covariance=width**2 * covariance,
        )
