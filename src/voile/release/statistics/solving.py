"""From two noisy releases to coefficients: post-processing with noise whose law is known.

Bins of all features are put one after the other. In the whitened space, in which the bins of a
feature with the shares π are divided by √π, a linear model of a figure t of the label solves
R·b = u: R is the matrix of correlations between bins, u their covariance with t. Both carry noise.
With two classes t = ±1, a number is its own t, and with more classes t is any weighting of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from voile.models.additive.bins import bin_slices
from voile.release.statistics.budget import MomentsNoise, StatisticsBudget
from voile.release.statistics.merging import MergedTables
from voile.release.statistics.rule import RULE

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Estimates:
    """What both releases say together about counts, the label and pairs of features.

    Args:
        merged: the first release, summed to bins.
        moments: the second release, block by block, as whole numbers.
    """

    merged: MergedTables
    moments: Sequence[NDArray[np.int64]]

    @property
    def budget(self) -> StatisticsBudget:
        return self.merged.budget

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Bins of each feature."""
        return tuple(feature.count for feature in self.merged.bins)

    @cached_property
    def slices(self) -> list[slice]:
        return bin_slices(self.merged.bins)

    @property
    def size(self) -> int:
        return sum(self.counts)

    @cached_property
    def noise(self) -> MomentsNoise:
        return self.budget.moments_noise(self.counts, self.merged.rates)

    @property
    def _root(self) -> float:
        """By which noise grows when every party adds its own."""
        return self.budget.growth[1]

    # --- step 1: both releases together ---------------------------------------------------------

    @cached_property
    def _centring(self) -> Matrix:
        """Takes the mean of each feature's bins away. Sums of centred codes have none."""
        return self._by_feature([np.eye(count) - 1 / count for count in self.counts])

    @cached_property
    def cell_variance(self) -> Vector:
        """Of the noise on one label cell of each bin of the first release: as many fine cells; 0
        where there is no table."""
        return self.merged.deviation**2 * _joined([cells for _, cells in self.merged.merged])

    @cached_property
    def label_tables(self) -> Matrix:
        """Rows in each bin by label cell, by the first release, shape (bins, columns)."""
        tables = [table for table, _ in self.merged.merged]
        return np.vstack(tables) if tables else np.zeros((0, self.budget.target.columns))

    @cached_property
    def centred_counts(self) -> tuple[Vector, Matrix]:
        """Σz with the covariance of its noise."""
        second = _joined(self.rescaled(0))
        variance = self.budget.target.columns * self.cell_variance
        deviation = self.noise.count_deviation * self._root
        return self.combined(self.label_tables.sum(axis=1), variance, second, deviation)

    def rescaled(self, start: int) -> list[NDArray[np.float64]]:
        """Whole numbers of the second release, divided by the number of bins again."""
        blocks = self.moments[start : start + len(self.counts)]
        return [block / count for block, count in zip(blocks, self.counts, strict=True)]

    def combined(
        self, tables: Vector, variance: Vector, second: Vector, deviation: float
    ) -> tuple[Vector, Matrix]:
        """The mean of both, weighted by inverse variance."""
        centring = self._centring
        share = np.divide(1.0, variance, out=np.zeros_like(variance), where=variance > 0)
        share = share / (share + deviation**-2)
        found = share * (centring @ tables) + (1 - share) * (centring @ second)
        one, two = share[:, None] * centring, (1 - share)[:, None] * centring
        return found, one * variance @ one.T + deviation**2 * two @ two.T

    @property
    def label_root(self) -> float:
        """The deviation of the noise on each figure of Σz·tᵀ and Σt."""
        return self.noise.label_deviation * self._root

    def figure(self, weights: Vector) -> LabelFigure:
        """Of the label cells, weighted; the weights are moved so that they add up to 0."""
        return LabelFigure(self, weights - weights.mean())

    @cached_property
    def label(self) -> LabelFigure:
        """t itself, with two classes or a number."""
        return self.figure(np.array([-1.0, 1.0]))

    @cached_property
    def rates(self) -> Vector:
        """The share of each label cell, by both releases; adds up to 1."""
        columns = self.budget.target.columns
        means = [self.figure(row).mean[0] + 1 / columns for row in np.eye(columns)]
        return np.array(means) / sum(means)

    @cached_property
    def masses(self) -> Vector:
        """The share of rows in each bin, with a floor; adds up to 1 for each feature."""
        rows, found = self.budget.rows, []
        for part, count in zip(self.slices, self.counts, strict=True):
            shares = self.centred_counts[0][part] / rows + 1 / count
            shares = np.maximum(shares, 1 / (RULE.solve.mass_floor * count))
            found.append(shares / shares.sum())
        return _joined(found)

    # --- step 2: whitening ----------------------------------------------------------------------

    @cached_property
    def basis(self) -> Matrix:
        """Orthonormal columns: all directions but √π of each feature, in which nothing varies."""
        return self._by_feature([_complement(np.sqrt(self.masses[part])) for part in self.slices])

    @cached_property
    def pair_variance(self) -> Matrix:
        """Of the noise on each cell of the whitened pairs; 0 within a feature."""
        deviation = self.noise.products_deviation * self._root / self.budget.rows
        return deviation**2 / np.outer(self.masses, self.masses) * self._across

    @cached_property
    def pairs(self) -> Matrix:
        """E = R − 1, whitened, as it was released: symmetric, 0 within a feature."""
        rows, counts = self.budget.rows, self.centred_counts[0]
        products = np.zeros((self.size, self.size))
        blocks = iter(self.moments[len(self.noise.sums_blocks.shapes) :])
        for one, first in enumerate(self.slices):
            for two in range(one + 1, len(self.slices)):
                second = self.slices[two]
                block = next(blocks) / (self.counts[one] * self.counts[two])
                products[first, second], products[second, first] = block, block.T
        covariance = products / rows - np.outer(counts, counts) / rows**2
        white = covariance / np.sqrt(np.outer(self.masses, self.masses)) * self._across
        projector = self.basis @ self.basis.T
        return projector @ white @ projector

    @cached_property
    def _across(self) -> NDArray[np.bool_]:
        """Which cells belong to two different features."""
        owner = np.repeat(np.arange(len(self.counts)), self.counts)
        across: NDArray[np.bool_] = owner[:, None] != owner[None, :]
        return across

    # --- step 3: shrinking ----------------------------------------------------------------------

    @cached_property
    def correlations(self) -> Matrix:
        """R in the basis: independence plus what stands out of the noise; positive definite."""
        return self._floored((self._shrunk_blocks + self._shrunk_spectrum) / 2)

    @cached_property
    def correlations_apart(self) -> tuple[Matrix, Matrix]:
        """The same by either way of shrinking alone. How far they differ is an error as well."""
        return self._floored(self._shrunk_blocks), self._floored(self._shrunk_spectrum)

    def _floored(self, pairs: Matrix) -> Matrix:
        found = np.eye(self.basis.shape[1]) + self.basis.T @ pairs @ self.basis
        values, vectors = np.linalg.eigh((found + found.T) / 2)
        floored: Matrix = (vectors * np.maximum(values, RULE.solve.eigenvalue_floor)) @ vectors.T
        return floored

    @cached_property
    def _shrunk_blocks(self) -> Matrix:
        """James and Stein, for each pair of features."""
        shrunk = np.zeros_like(self.pairs)
        for one in self.slices:
            for two in self.slices:
                if one is not two:
                    energy = float((self.pairs[one, two] ** 2).sum())
                    noise = float(self.pair_variance[one, two].sum())
                    factor = np.clip(1 - noise / max(energy, 1e-12), 0, 1)
                    shrunk[one, two] = factor * self.pairs[one, two]
        return shrunk

    @cached_property
    def _shrunk_spectrum(self) -> Matrix:
        """Eigenvalues pulled in by the edge of the noise, 2·√(variance·size)."""
        if len(self.counts) < 2:
            return np.zeros_like(self.pairs)
        edge = 4 * float(self.pair_variance[self._across].mean()) * self.size
        values, vectors = np.linalg.eigh(self.pairs)
        kept = np.sign(values) * np.sqrt(np.maximum(values**2 - edge, 0))
        shrunk: Matrix = (vectors * kept) @ vectors.T
        return shrunk

    # --- parts ----------------------------------------------------------------------------------

    def _by_feature(self, blocks: Sequence[Matrix]) -> Matrix:
        from scipy.linalg import block_diag

        return np.asarray(block_diag(*blocks)) if blocks else np.zeros((0, 0))

    @cached_property
    def prior(self) -> Matrix:
        """Covariance of coefficients in the basis, up to a factor: exchangeable for categories, a
        random walk for ordered bins."""
        blocks = []
        for feature in self.merged.bins:
            count = feature.count
            precision = np.eye(count)
            if feature.ordered and count > 2:
                steps = np.diff(np.eye(count), axis=0)
                walk = RULE.solve.walk_scale * count * steps.T @ steps
                precision = RULE.solve.ridge_share * precision + walk
            blocks.append(precision)
        root = 1 / np.sqrt(self.masses)
        precision = self._by_feature(blocks) * np.outer(root, root) * np.median(self.masses)
        return self.basis.T @ np.linalg.inv(precision) @ self.basis


@dataclass(frozen=True, eq=False)
class LabelFigure:
    """One figure t of the label, which a linear model predicts.

    Args:
        given: about features.
        weights: of the label cells; t of a row is the weight of its cell. They add up to 0.
    """

    given: Estimates
    weights: Vector

    @property
    def _parts(self) -> Vector:
        """The same of the parts that the second release is about."""
        return self.weights[1:] if self.given.budget.target.parts == 1 else self.weights

    @property
    def reach(self) -> float:
        """Half of the way between the least and the largest t."""
        return float(self.weights.max() - self.weights.min()) / 2

    # --- step 1: both releases together ---------------------------------------------------------

    @cached_property
    def sums(self) -> tuple[Vector, Matrix]:
        """Σt·z with the covariance of its noise."""
        given, parts = self.given, self._parts
        scale = given.budget.target.scale
        blocks = given.rescaled(len(given.counts))
        second = _joined([block.reshape(len(block), -1) @ parts / scale for block in blocks])
        tables = given.label_tables @ self.weights
        variance = float(self.weights @ self.weights) * given.cell_variance
        return given.combined(
            tables, variance, second, float(np.linalg.norm(parts)) * given.label_root
        )

    @cached_property
    def mean(self) -> tuple[float, float]:
        """Of t, with the variance of its noise: every table holds the sum, and Σt."""
        given, parts, weights = self.given, self._parts, self.weights
        rows, merged = given.budget.rows, given.merged
        cells = np.array(given.budget.fine_cells, dtype=np.float64)
        sums = [float(table.sum(axis=0) @ weights) for table in merged.counts]
        total = given.moments[2 * len(given.counts)] / given.budget.target.scale
        table_variance = cells * float(weights @ weights) * merged.deviation**2
        total_variance = float(parts @ parts) * given.label_root**2
        inverse = np.append(1 / table_variance, 1 / total_variance)
        found = float(inverse @ np.array([*sums, float(total @ parts)]) / inverse.sum() / rows)
        margin = 2 * RULE.solve.rate_clip * self.reach
        found = float(np.clip(found, weights.min() + margin, weights.max() - margin))
        return found, 1 / float(inverse.sum()) / rows**2

    @cached_property
    def residual(self) -> float:
        """The variance of t, at least a floor."""
        target, mean = self.given.budget.target, self.mean[0]
        if target.is_number:
            return self._number_variance
        floor = RULE.solve.residual_floor * self.reach**2
        if target.parts == 1:
            return max(self.reach**2 - mean**2, floor)
        rates = self.given.rates
        return max(float(rates @ self.weights**2 - (rates @ self.weights) ** 2), floor)

    @property
    def _number_variance(self) -> float:
        """By Σ(t² − ½), which was released as well."""
        given, mean = self.given, self.mean[0]
        squares = float(given.moments[2 * len(given.counts) + 1][0])
        squares = squares / given.budget.target.scale**2 / given.budget.rows + 0.5
        return float(np.clip(squares - mean**2, RULE.target.number_residual_least, 1 - mean**2))

    @property
    def unit(self) -> float:
        """Of variances of coefficients: 1 with two classes, else that of t."""
        target = self.given.budget.target
        return 1.0 if target.parts == 1 and not target.is_number else self.residual

    @property
    def variance_cap(self) -> float:
        """Of the score, in units of the residual."""
        is_number = self.given.budget.target.is_number
        return RULE.target.number_variance_cap if is_number else RULE.solve.variance_cap

    @cached_property
    def covariance(self) -> tuple[Vector, Matrix]:
        """u, whitened and in the basis, with the covariance of its noise."""
        given, mean = self.given, self.mean[0]
        rows = given.budget.rows
        counts, counts_noise = given.centred_counts
        labels, labels_noise = self.sums
        white = given.basis.T / np.sqrt(given.masses) / rows
        noise = labels_noise + mean**2 * counts_noise
        return white @ (labels - mean * counts), white @ noise @ white.T


@dataclass(frozen=True, eq=False)
class Coefficients:
    """The solution in the basis: a posterior mean, and how far noise moves it.

    Args:
        mean: of the coefficients b, shape (basis,).
        covariance: of what noise does to them; sampling of the rows is not part of it.
        variance: of the score t̂ = b·z over rows.
        error_share: of that variance, as far as it comes from noise.
        parameters: how many there are, as far as the prior leaves them free: the trace of what
            makes predictions from labels.
    """

    mean: Vector
    covariance: Matrix
    variance: float
    error_share: float
    parameters: float = 0.0

    @classmethod
    def solved(cls, label: LabelFigure) -> Coefficients:
        """Steps 4 and 5."""
        given = label.given
        system, mean = _System.solved(label, given.correlations)
        one, two = (
            _System.solved(label, correlations)[1] for correlations in given.correlations_apart
        )
        covariance = system.error_covariance(_noise_at(label, mean))
        left_out = _left_out(label, system.gain, mean)
        covariance = covariance + np.outer(one - two, one - two) / 4
        covariance = covariance + np.outer(left_out, left_out)
        scale, variance = _score_variance(label, mean)
        covariance = scale**2 * covariance
        error = float(np.trace(covariance @ given.correlations))
        free = float(np.trace(system.gain @ given.correlations))
        return cls(scale * mean, covariance, variance, error / (variance + error), free)


@dataclass(frozen=True, eq=False)
class _System:
    """u = R·b + noise, with b of prior covariance `prior`.

    Args:
        design: R·prior.
        sampling: covariance of u if there were no privacy noise.
        noise: what privacy noise adds to it.
    """

    design: Matrix
    sampling: Matrix
    noise: Matrix

    @classmethod
    def solved(cls, label: LabelFigure, correlations: Matrix) -> tuple[_System, Vector]:
        """And its posterior mean. Noise on pairs depends on the solution, so it is solved twice."""
        norm = RULE.solve.first_norm * label.residual
        for _ in range(2):
            system = cls.built(label, correlations, norm)
            mean = system.gain @ label.covariance[0]
            norm = min(float(mean @ mean), label.unit)
        return system, mean

    @classmethod
    def built(cls, label: LabelFigure, correlations: Matrix, norm: float) -> _System:
        """With the prior variance that makes u most likely, on a grid."""
        given = label.given
        covariance, noise = label.covariance
        pair_noise = given.pair_variance.sum(axis=1) * norm / given.size
        noise = noise + given.basis.T * pair_noise @ given.basis
        sampled = label.residual / given.budget.rows * correlations
        spread = correlations @ given.prior @ correlations
        rule = RULE.solve
        grid = label.unit * np.geomspace(rule.tau_least, rule.tau_most, rule.tau_steps)
        likely = [_log_likelihood(covariance, tau * spread + sampled + noise) for tau in grid]
        tau = float(grid[int(np.argmax(likely))])
        return cls(tau * correlations @ given.prior, tau * spread + sampled, noise)

    @cached_property
    def gain(self) -> Matrix:
        """b = gain·u, the posterior mean."""
        gain = _solved(self.sampling + self.noise, self.design).T
        return gain.astype(np.float64)

    def error_covariance(self, noise: Matrix) -> Matrix:
        """Of b minus what it would be without privacy noise, if u carries this noise.

        Without noise the solution would be gain₀·u₀ with u₀ of covariance `sampling`; with it, it
        is gain·(u₀ + e). Their difference is (gain − gain₀)·u₀ + gain·e.
        """
        without = _solved(self.sampling, self.design).T
        shrinkage = self.gain - without
        found = shrinkage @ self.sampling @ shrinkage.T + self.gain @ noise @ self.gain.T
        return (found + found.T) / 2


def _noise_at(label: LabelFigure, mean: Vector) -> Matrix:
    """Covariance of the noise in u − R·b at the solution, in the basis.

    Noise on counts moves the variance of a bin and the mean of the label; noise on a pair of bins
    moves the equations of both.
    """
    given = label.given
    full = given.basis @ mean
    natural = full / np.sqrt(given.masses)
    counts, counts_noise = given.centred_counts
    shift = counts / given.budget.rows * natural
    others = np.repeat([shift.sum() - shift[part].sum() for part in given.slices], given.counts)
    lever = label.mean[0] - others + natural
    sums = label.sums[1] + lever[:, None] * counts_noise * lever
    white = given.basis.T / np.sqrt(given.masses) / given.budget.rows
    return white @ sums @ white.T + _pair_noise(given, full)


def _pair_noise(given: Estimates, full: Vector) -> Matrix:
    """Covariance, in the basis, of the noise in E·b, for b as it is for each bin."""
    crossed = given.pair_variance * np.outer(full, full)
    noise = np.diag(given.pair_variance @ full**2) + crossed
    found: Matrix = given.basis.T @ noise @ given.basis
    return found


def _left_out(label: LabelFigure, gain: Matrix, mean: Vector) -> Vector:
    """How far the solution would move by what shrinking took away from the correlations, feature
    by feature as far as that stands out of the noise."""
    given = label.given
    full = given.basis @ mean
    taken = given.basis.T @ (given.pairs @ full) - (given.correlations @ mean - mean)
    moved, noise = gain @ taken, np.diag(gain @ _pair_noise(given, full) @ gain.T)
    ends = np.cumsum([0, *(count - 1 for count in given.counts)]).tolist()
    for part in map(slice, ends[:-1], ends[1:]):
        energy = max(float(moved[part] @ moved[part]), 1e-300)
        moved[part] *= math.sqrt(max(1 - float(noise[part].sum()) / energy, 0.0))
    return moved


def _log_likelihood(values: Vector, covariance: Matrix) -> float:
    try:
        root = np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:  # sums that no rows can have made
        return -math.inf
    white = np.linalg.solve(root, values)
    return -0.5 * float(white @ white) - float(np.log(np.diag(root)).sum())


def _solved(matrix: Matrix, values: Matrix) -> Matrix:
    """Whatever the sums were: a server may send some that no rows can have made."""
    try:
        return np.linalg.solve(matrix, values).astype(np.float64)
    except np.linalg.LinAlgError:
        return (np.linalg.pinv(matrix) @ values).astype(np.float64)


def _score_variance(label: LabelFigure, mean: Vector) -> tuple[float, float]:
    """A factor for the coefficients, and the variance of the score after it.

    Shrunk correlations understate or overstate the variance of the score. What was released before
    shrinking is unbiased and noisy: both are blended, by how noisy it is.
    """
    rule, given = RULE.solve, label.given
    shrunk = max(float(mean @ given.correlations @ mean), 1e-9 * label.unit)
    full = given.basis @ mean
    released = float(mean @ mean) + float(full @ given.pairs @ full)
    noise = 2 * float(full**2 @ given.pair_variance @ full**2)
    prior = (rule.variance_prior * shrunk) ** 2
    blended = (rule.variance_inflation * shrunk * noise + released * prior) / (noise + prior)
    blended = max(blended, shrunk / 2)
    scale = float(np.clip(shrunk / blended, rule.scale_least, rule.scale_most))
    variance = scale**2 * blended
    cap = label.variance_cap * label.residual
    if variance > cap:
        scale, variance = scale * math.sqrt(cap / variance), cap
    return scale, variance


def _complement(unit: Vector) -> Matrix:
    """Orthonormal columns at right angles to a vector of length 1 with positive entries."""
    mirror = unit.copy()
    mirror[0] += 1
    reflection = np.eye(len(unit)) - 2 * np.outer(mirror, mirror) / float(mirror @ mirror)
    return reflection[:, 1:]


def _joined(parts: Sequence[NDArray[np.float64]]) -> Vector:
    return np.concatenate(parts).astype(np.float64) if parts else np.zeros(0)
