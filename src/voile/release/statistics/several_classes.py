"""More than two classes: scores from the first two releases, calibrated by the third.

The linear models of all classes together give the log-odds: their coefficients B turn into
B·(diag p − ppᵀ − V)⁻¹, V being the covariance of the predicted shares. For two classes that is a
multiple of one score; for normal features of one covariance it is exact.
"""

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
from voile.release.statistics.targets import ClassTarget, Whole

_NODES = 1024
_ROUNDS = 25


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassesModel:
    """Scores of each class, before calibration.

    Args:
        budget: of all three releases.
        bins: of the features in use.
        scores: log-odds of each bin against the mean class, shape (bins, classes).
        masses: the share of rows in each bin.
        covariances: of what noise does to the scores of a class, shape (classes, bins, bins).
        spread: covariance of the scores of a row, shape (classes, classes).
        error_shares: of each score's variance, as far as it comes from noise.
        rates: of the classes.
        parameters: how many were fitted, as far as they were free.
    """

    budget: StatisticsBudget
    bins: tuple[FeatureBins, ...]
    scores: Matrix
    masses: Vector
    covariances: NDArray[np.float64]
    spread: Matrix
    error_shares: Vector
    rates: Vector
    parameters: float

    @classmethod
    def solved(cls, given: Estimates) -> ClassesModel:
        """A function of what was released, and of nothing else."""
        rates = np.maximum(given.rates, RULE.solve.rate_clip / len(given.rates))
        rates = rates / rates.sum()
        count, size = len(rates), given.size
        if not size:
            found: list[Coefficients] = []
        else:
            weights = _log_odds_weights(given, rates)
            found = [Coefficients.solved(given.figure(each)) for each in weights]
        natural = given.basis / np.sqrt(given.masses)[:, None]
        scores = np.zeros((size, count))
        for place, each in enumerate(found):
            scores[:, place] = natural @ each.mean
        scores -= scores.mean(axis=1, keepdims=True)
        return cls(
            budget=given.budget,
            bins=given.merged.bins,
            scores=scores,
            masses=given.masses,
            covariances=np.array(
                [natural @ each.covariance @ natural.T for each in found] or np.zeros((count, 0, 0))
            ),
            spread=_spread(found, given.correlations) if found else np.zeros((count, count)),
            error_shares=np.array([each.error_share for each in found] or [0.0] * count),
            rates=rates,
            parameters=(1 - 1 / count) * sum(each.parameters for each in found),
        )

    # --- the third release ------------------------------------------------------------------------

    @property
    def ranks(self) -> int:
        return self.budget.calibration_shape[1]

    @cached_property
    def nodes(self) -> Matrix:
        """Scores of a normal population without their intercepts, shape (nodes, classes)."""
        values, vectors = np.linalg.eigh(self.spread)
        root = vectors * np.sqrt(np.maximum(values, 0))
        found: Matrix = _even_normal(_NODES, root.shape[1]) @ root.T
        return found

    @cached_property
    def intercepts(self) -> Vector:
        return intercepts_for(self.nodes, self.rates)

    @cached_property
    def node_cells(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The confidence bin of each node, and the rank of each class there."""
        scores = self.intercepts + self.nodes
        return np.searchsorted(self.margin_edges, _margins(scores)), self._ranks(scores)

    @cached_property
    def margin_edges(self) -> Vector:
        """Between bins of confidence: quantiles of the normal population."""
        bins = self.budget.calibration_bins
        shares = np.arange(1, bins) / bins
        edges: Vector = np.quantile(_margins(self.intercepts + self.nodes), shares)
        return edges

    def calibration_table(self, codes: Codes, labels: NDArray[np.intp]) -> Whole:
        """Rows by confidence, which is how far the first class leads, and by the rank that the
        model gives to their own class. Only sums and comparisons: no row changes another's."""
        scores = np.column_stack(
            [
                summed(intercept, column, self.bins, codes)
                for intercept, column in zip(self.intercepts, self.scores.T, strict=True)
            ]
        )
        places = np.searchsorted(self.margin_edges, _margins(scores))
        ranks = self._ranks(scores)[np.arange(len(labels)), labels]
        return ClassTarget(self.ranks).table(places, ranks, self.budget.calibration_bins)

    def _ranks(self, scores: Matrix) -> NDArray[np.intp]:
        """How many classes have a higher score; the last rank stands for all after it."""
        above = (scores[:, None, :] > scores[:, :, None]).sum(axis=2)
        ranks: NDArray[np.intp] = np.minimum(above, self.ranks - 1)
        return ranks


@dataclass(frozen=True, eq=False)
class ClassesFit:
    """The calibrated model of more than two classes.

    Args:
        first: before calibration.
        table: the third release.
    """

    first: ClassesModel
    table: Whole

    @cached_property
    def shares(self) -> Vector:
        """Of rows in each bin of confidence, shrunk toward the normal population."""
        first = self.first
        rows, bins = first.budget.rows, len(self.table)
        expected = np.bincount(first.node_cells[0], minlength=bins) / len(first.nodes)
        excess = self.table.sum(axis=1) - rows * expected
        excess = excess - excess.mean()
        noise = first.ranks * self.deviation**2 * (bins - 1)
        factor = float(np.clip(1 - noise / max(float(excess @ excess), 1e-9), 0, 1))
        counts = np.maximum(rows * expected + factor * excess, 0)
        found: Vector = counts / counts.sum()
        return found

    @property
    def deviation(self) -> float:
        """Of the noise on each count."""
        budget = self.first.budget
        return budget.calibration_noise.sigma * budget.growth[2]

    @cached_property
    def _posterior(self) -> tuple[float, float]:
        """Mean and variance of the logarithm of the slope, which has a log-normal prior."""
        rule, rows = RULE.slope, self.first.budget.rows
        grid = np.geomspace(rule.least, rule.most, RULE.target.slope_steps)
        likely = np.empty(len(grid))
        for place, slope in enumerate(grid):
            expected = rows * self.chances(float(slope))
            variance = self.deviation**2 + expected
            off = (self.table - expected) ** 2 / variance + np.log(variance)
            prior = (math.log(slope) - math.log(rule.median)) / rule.deviation
            likely[place] = -0.5 * (float(off.sum()) + prior**2)
        weights = np.exp(likely - likely.max())
        weights /= weights.sum()
        mean = float(weights @ np.log(grid))
        return mean, float(weights @ (np.log(grid) - mean) ** 2)

    @property
    def slope(self) -> float:
        return math.exp(self._posterior[0])

    def chances(self, slope: float) -> Matrix:
        """The share of all rows in each cell of the table, if scores are stretched by a slope."""
        found, _ = self._by_cell(slope)
        masses = np.bincount(self.first.node_cells[0], minlength=len(self.table))
        return found / np.maximum(masses, 1)[:, None] * self.shares[:, None]

    def losses(self, slope: float) -> Matrix:
        """The mean log-loss of rows in each cell."""
        chances, losses = self._by_cell(slope)
        found: Matrix = losses / np.maximum(chances, 1e-12)
        return found

    def _by_cell(self, slope: float) -> tuple[Matrix, Matrix]:
        """For each cell the chances of all nodes there together, and chances times log-losses."""
        first, (places, ranks) = self.first, self.first.node_cells
        stretched = slope * first.nodes
        chances = softmax(intercepts_for(stretched, first.rates) + stretched)
        cells = (places[:, None] * first.ranks + ranks).ravel()
        parts = (chances, -chances * np.log(np.maximum(chances, 1e-12)))
        one, two = (
            np.bincount(cells, weights=part.ravel(), minlength=self.table.size) for part in parts
        )
        shape = self.first.budget.calibration_shape
        return np.reshape(one, shape), np.reshape(two, shape)

    @cached_property
    def model(self) -> AdditiveModel:
        """With the errors that noise makes."""
        first, slope = self.first, self.slope
        scores = slope * first.scores
        stretch = self._posterior[1] + first.error_shares**2
        return AdditiveModel(
            schema=first.budget.schema,
            bins=first.bins,
            intercept=intercepts_for(slope * first.nodes, first.rates),
            scores=scores,
            masses=first.masses,
            covariance=slope**2 * first.covariances
            + stretch[:, None, None] * scores.T[:, :, None] * scores.T[:, None, :],
        )


# --- parts ----------------------------------------------------------------------------------------


def _log_odds_weights(given: Estimates, rates: Vector) -> Matrix:
    """Of the label cells: figures of which a linear model gives log-odds, one for each class."""
    count = len(rates)
    figures = [given.figure(row) for row in np.eye(count)]
    found = [Coefficients.solved(each) for each in figures]
    predicted = _spread(found, given.correlations)
    apart = np.linalg.svd(np.ones((1, count)))[2][1:].T  # orthonormal, at right angles to 1
    whole = apart.T @ (np.diag(rates) - np.outer(rates, rates)) @ apart
    root = np.linalg.cholesky(whole)
    inverse = np.linalg.inv(root)
    values, vectors = np.linalg.eigh(inverse @ (apart.T @ predicted @ apart) @ inverse.T)
    kept = 1 / (1 - np.clip(values, 0, RULE.solve.variance_cap))
    side = apart @ inverse.T @ vectors
    weights: Matrix = (side * kept) @ side.T
    return weights


def _spread(found: list[Coefficients], correlations: Matrix) -> Matrix:
    """Covariance of scores over rows, each with the variance that it was found to have."""
    means = np.array([each.mean for each in found])
    products = means @ correlations @ means.T
    shares = np.array([each.variance for each in found]) / np.maximum(np.diag(products), 1e-12)
    root = np.sqrt(shares)
    spread: Matrix = products * np.outer(root, root)
    centring = np.eye(len(found)) - 1 / len(found)
    return centring @ spread @ centring


def intercepts_for(scores: Matrix, rates: Vector) -> Vector:
    """With which the mean chance of each class is its rate."""
    found = np.log(rates)
    for _ in range(_ROUNDS):
        found = found + np.log(rates) - np.log(softmax(found + scores).mean(axis=0))
    centred: Vector = found - found.mean()
    return centred


def softmax(scores: Matrix) -> Matrix:
    """Chances of classes, shape (n, classes)."""
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    found: Matrix = raised / raised.sum(axis=1, keepdims=True)
    return found


def _margins(scores: Matrix) -> Vector:
    """How far the first class leads."""
    best = np.partition(scores, -2, axis=1)
    found: Vector = best[:, -1] - best[:, -2]
    return found


def _even_normal(count: int, dimensions: int) -> Matrix:
    """Evenly spread points of a normal law: multiples of irrational numbers, modulo 1."""
    from scipy.special import ndtri

    root = 2.0
    for _ in range(50):  # the positive solution of x^(dimensions + 1) = x + 1
        root = (1 + root) ** (1 / (dimensions + 1))
    steps = root ** -np.arange(1.0, dimensions + 1)
    nodes: Matrix = ndtri((0.5 + np.outer(np.arange(1, count + 1), steps)) % 1)
    scaled: Matrix = nodes / nodes.std(axis=0)
    return scaled
