"""The model of two classes from the first two releases, whose scores the third one is about."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from voile.models.additive.bins import Codes, FeatureBins
from voile.models.additive.model import summed
from voile.release.statistics.budget import StatisticsBudget
from voile.release.statistics.rule import RULE
from voile.release.statistics.solving import Coefficients, Estimates, Matrix, Vector
from voile.release.statistics.sums import cell_table
from voile.release.statistics.targets import Whole


@dataclass(frozen=True, eq=False, kw_only=True)
class FirstModel:
    """Log-odds from the first two releases, before calibration.

    Args:
        budget: of all three.
        bins: of the features in use.
        intercept, scores: log-odds of bins, as in `AdditiveModel`.
        masses: the share of rows in each bin.
        covariance: of what noise does to the scores.
        deviation: of the score over rows.
        error_share: of its variance, as far as it comes from noise.
        rate, rate_variance: the share of the second class, with the variance of its noise.
        parameters: how many were fitted, as far as they were free.
    """

    budget: StatisticsBudget
    bins: tuple[FeatureBins, ...]
    intercept: float
    scores: Vector
    masses: Vector
    covariance: Matrix
    deviation: float
    error_share: float
    rate: float
    rate_variance: float
    parameters: float = 0.0

    @classmethod
    def solved(cls, given: Estimates) -> FirstModel:
        """Steps 1 to 6; a function of what was released, and of nothing else."""
        budget = given.budget
        mean, variance = given.label.mean
        rate, size = (1 + mean) / 2, given.size
        if not size:  # noise left no feature: everybody has the label rate
            return cls(
                budget=budget,
                bins=(),
                intercept=math.log(rate / (1 - rate)),
                scores=np.zeros(0),
                masses=np.zeros(0),
                covariance=np.zeros((0, 0)),
                deviation=0.0,
                error_share=0.0,
                rate=rate,
                rate_variance=variance / 4,
            )
        found = Coefficients.solved(given.label)
        spread = math.sqrt(found.variance) / 2  # of the probability, t has two units for one
        scale, intercept = logit_scale(rate, spread)
        stretch = scale / 2 / np.sqrt(given.masses)
        natural = stretch[:, None] * given.basis
        return cls(
            budget=budget,
            bins=given.merged.bins,
            intercept=intercept,
            scores=natural @ found.mean,
            masses=given.masses,
            covariance=natural @ found.covariance @ natural.T,
            deviation=scale * spread,
            error_share=found.error_share,
            rate=rate,
            rate_variance=variance / 4,
            parameters=found.parameters,
        )

    def calibration_table(self, codes: Codes, labels: NDArray[np.intp]) -> Whole:
        """Rows in each score bin by class."""
        scores = summed(self.intercept, self.scores, self.bins, codes)
        places: NDArray[np.intp] = np.searchsorted(self.score_edges, scores)
        return cell_table(places, labels, self.budget.calibration_bins)

    @property
    def least_deviation(self) -> float:
        return max(self.deviation, RULE.calibration.least_deviation)

    @cached_property
    def score_edges(self) -> Vector:
        """Of the calibration table, on the scale of log-odds."""
        return self.intercept + self._steps

    @cached_property
    def _steps(self) -> Vector:
        """The same around the intercept. Where there are rows enough, bins reach further out on
        the side of the rarer class."""
        from scipy.special import ndtri

        rule = RULE.calibration
        if not self.budget.is_wide:
            even: Vector = self.least_deviation * ndtri(np.arange(1, rule.bins) / rule.bins)
            return even
        wide = np.array(rule.wide_edges)
        edges: Vector = self.least_deviation * (wide if self.rate < 0.5 else -wide[::-1])
        return edges

    @cached_property
    def score_bins(self) -> tuple[Vector, Vector]:
        """Of the calibration table: middles around the intercept, and shares of a normal score."""
        from scipy.special import ndtr, ndtri

        rule, deviation, steps = RULE.calibration, self.least_deviation, self._steps
        if not self.budget.is_wide:
            middles = deviation * ndtri((np.arange(rule.bins) + 0.5) / rule.bins)
            return middles, np.full(rule.bins, 1 / rule.bins)
        inner = (steps[1:] + steps[:-1]) / 2
        low, high = steps[0] - rule.wide_below * deviation, steps[-1] + rule.wide_above * deviation
        shares = np.diff(np.concatenate([[0.0], ndtr(steps / deviation), [1.0]]))
        return np.concatenate([[low], inner, [high]]), shares


def logit_scale(rate: float, spread: float) -> tuple[float, float]:
    """Step 6: factor and intercept that turn a linear score into log-odds.

    For a normal score of deviation `spread` the mean probability is `rate`, and the score's factor
    makes the slope of the probability 1 on average. Quantiles, because few nodes of a quadrature
    fail for a steep curve.
    """
    from scipy.special import expit

    rule = RULE.solve
    nodes = normal_nodes(rule.quantiles)

    def intercept(scale: float) -> float:
        return centre(lambda m: float(expit(m + scale * spread * nodes).mean()) - rate)

    def excess(scale: float) -> float:
        chance = expit(intercept(scale) + scale * spread * nodes)
        return scale * float((chance * (1 - chance)).mean()) - 1

    low, high = rule.logit_least, rule.logit_most
    if excess(high) < 0:
        scale = high
    elif excess(low) > 0:
        scale = low
    else:
        scale = centre(excess, low, high)
    return scale, intercept(scale)


def normal_nodes(count: int) -> Vector:
    """Quantiles of the normal law in the middle of equal shares, scaled to variance 1."""
    from scipy.special import ndtri

    nodes: Vector = ndtri((np.arange(count) + 0.5) / count)
    nodes /= nodes.std()
    return nodes


def centre(function: Callable[[float], float], low: float = -30.0, high: float = 30.0) -> float:
    """Where a rising function is 0."""
    from scipy.optimize import brentq

    return float(brentq(function, low, high))
