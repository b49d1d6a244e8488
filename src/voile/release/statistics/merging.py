"""Bins from the released tables: post-processing, free. Exact quantiles are never looked at."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from voile.core.schema import Feature
from voile.models.additive.bins import FeatureBins
from voile.release.statistics.budget import StatisticsBudget
from voile.release.statistics.cells import cut_edges
from voile.release.statistics.rule import RULE

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class MergedTables:
    """Fine tables as they were released, and the bins that they are merged into.

    Args:
        budget: of the release.
        tables: of each feature, noisy counts of shape (cells, label cells).
    """

    budget: StatisticsBudget
    tables: Sequence[NDArray[np.int64]]

    @property
    def deviation(self) -> float:
        """Of the noise on one count of rows, in the sum over parties."""
        if not self.counts:
            return 0.0  # on none
        noise = self.budget.tables_noise.sigma / self.budget.target.unit
        return noise * self.budget.growth[0]

    @cached_property
    def counts(self) -> tuple[Array, ...]:
        """The tables in rows: a row adds 1 to each of them, divided among label cells."""
        return tuple(table / self.budget.target.unit for table in self.tables)

    @cached_property
    def all_bins(self) -> tuple[FeatureBins, ...]:
        """Of every feature of the schema, in order."""
        return tuple(
            self._bins_of(place, feature)
            for place, feature in enumerate(self.budget.schema.features)
        )

    def _bins_of(self, place: int, feature: Feature) -> FeatureBins:
        if feature.cuts is not None:
            return FeatureBins(feature.name, edges=cut_edges(feature))
        table, edges = self._table_of(place)
        if edges is None:
            return FeatureBins(feature.name, groups=self._merged_levels(table))
        return FeatureBins(feature.name, edges=self._merged_edges(table, edges))

    def _table_of(self, place: int) -> tuple[Array, tuple[float, ...] | None]:
        """Of the feature at a place, in rows, with the edges of its fine cells."""
        among = self.budget.table_places.index(place)
        return self.counts[among], self.budget.fine_edges[among]

    @cached_property
    def bins(self) -> tuple[FeatureBins, ...]:
        """Of the features with more than one bin."""
        return tuple(feature for feature in self.all_bins if feature.count > 1)

    @property
    def dropped(self) -> tuple[str, ...]:
        """Features of which noise leaves one bin: they have no influence."""
        return tuple(feature.name for feature in self.all_bins if feature.count == 1)

    @property
    def rates(self) -> tuple[float, ...]:
        """The share of each label cell, together 1: the mean over all tables, each of which holds
        it. Without tables nothing is known, and no share is larger."""
        if not self.counts:
            return (1 / self.budget.target.columns,) * self.budget.target.columns
        found = np.mean([table.sum(axis=0) for table in self.counts], axis=0) / self.budget.rows
        if len(found) == 2:  # the second alone: the rule was chosen so
            return 1 - float(found[1]), float(found[1])
        return tuple((found + (1 - found.sum()) / len(found)).tolist())

    @cached_property
    def merged(self) -> tuple[tuple[Array, Array], ...]:
        """Of each feature in use: its table summed to bins, and how many cells each bin has. No
        table holds a feature with cut points: it has no cells, and nothing is known of it."""
        found = []
        for place, feature in enumerate(self.all_bins):
            if feature.count == 1:
                continue
            sums = np.zeros((feature.count, self.budget.target.columns))
            cells = np.zeros(feature.count)
            if place in self.budget.table_places:
                table, edges = self._table_of(place)
                groups = self._groups(feature, edges)
                np.add.at(sums, groups, table)
                cells = np.bincount(groups, minlength=feature.count).astype(float)
            found.append((sums, cells))
        return tuple(found)

    @staticmethod
    def _groups(feature: FeatureBins, edges: tuple[float, ...] | None) -> NDArray[np.intp]:
        """The bin of each fine cell."""
        if edges is None:
            return np.array(feature.groups, dtype=np.intp)
        # A cell is known by its upper edge; the last one has none.
        return feature.codes(np.array([*edges, math.inf]))

    # --- numbers --------------------------------------------------------------------------------

    def _merged_edges(self, table: Array, edges: tuple[float, ...]) -> tuple[float, ...]:
        """Cuts at quantiles of the noisy counts, where bins stay large enough."""
        summed = self._summed(table)
        cuts = self._quantile_cuts(summed)
        return tuple(edges[cut] for cut in (*cuts, *self._tail_cuts(summed, cuts)))

    def _summed(self, table: Array) -> Array:
        """Rows up to each cell, rising."""
        from scipy.optimize import isotonic_regression

        rows, summed = float(self.budget.rows), np.cumsum(table.sum(axis=1))
        # The number of rows is public, so the last sum is known: spread what is over.
        summed += (rows - summed[-1]) * np.arange(1, len(summed) + 1) / len(summed)
        rising: Array = np.clip(isotonic_regression(summed).x, 0, rows)
        return rising

    def _quantile_cuts(self, summed: Array) -> list[int]:
        """At k/K, the cells after which bins end."""
        rows, wanted = float(self.budget.rows), self.budget.bins
        goals = [rows * step / wanted for step in range(1, wanted)]
        return _cuts(summed, rows, goals, 0.0, rows / (RULE.bins.least_mass * wanted))

    def _tail_cuts(self, summed: Array, cuts: list[int]) -> list[int]:
        """Where most rows share one value, few quantiles differ, and all others are one bin, even
        if they differ most. Then what lies above the last cut is divided into smaller bins."""
        rule, rows, wanted = RULE.tails, float(self.budget.rows), self.budget.bins
        if (len(cuts) + 1) * rule.few > wanted:
            return []
        below = float(summed[cuts[-1]]) if cuts else 0.0
        parts = min(int((rows - below) / (rows / (rule.mass * wanted))), rule.parts)
        goals = [below + (rows - below) * step / parts for step in range(1, parts)]
        least = rule.least * rows / (rule.mass * wanted)
        found = _cuts(summed, rows, goals, below, least)
        return [cut for cut in found if not cuts or cut > cuts[-1]]

    @property
    def sections(self) -> tuple[str, ...]:
        """Of the rule, where a tail was divided; else bins are what they were without that rule."""
        divided = (
            self._tail_cuts(summed, self._quantile_cuts(summed))
            for table, edges in zip(self.counts, self.budget.fine_edges, strict=True)
            if edges is not None
            for summed in (self._summed(table),)
        )
        return ("tails",) if any(divided) else ()

    # --- categories -----------------------------------------------------------------------------

    def _merged_levels(self, table: Array) -> tuple[int, ...]:
        """A bin for each frequent level and one for the rest; or groups of equal label rate."""
        counts = table.sum(axis=1)
        levels, most = len(counts), self.budget.level_bins
        noise = RULE.bins.deviations * self._row_deviation
        least = max(noise, self.budget.rows / (RULE.bins.levels_share * self.budget.bins))
        frequent = np.flatnonzero(counts > least) if levels > 2 else np.arange(levels)
        is_long = levels > max(most, 8) and len(frequent) < levels
        if len(frequent) > most or is_long:
            return self._sorted_by_rate(
                table, np.flatnonzero(counts > max(noise, RULE.bins.count_floor))
            )
        if not len(frequent):
            return (0,) * levels
        groups = np.full(levels, -1)
        groups[frequent] = np.arange(len(frequent))
        rest = groups < 0
        is_bin = counts[rest].sum() > least
        groups[rest] = len(frequent) if is_bin else np.argmax(counts[frequent])
        return tuple(groups.tolist())

    @property
    def _row_deviation(self) -> float:
        """Of the noise on the rows of one cell, all label cells together."""
        return self.deviation * math.sqrt(self.budget.target.columns)

    def _sorted_by_rate(self, table: Array, known: NDArray[np.intp]) -> tuple[int, ...]:
        """Levels in the order of their shrunk label rate, cut into groups of equal mass; the rest
        is a group of its own."""
        counts, noise = table.sum(axis=1), self._row_deviation
        prior = RULE.bins.rate_prior * noise
        mean = table.sum(axis=0) / max(counts.sum(), 1.0)
        rates = (table + mean * prior) / (np.maximum(counts, noise) + prior)[:, None]
        order = known[np.argsort(_one_figure(rates, counts)[known], kind="stable")]
        mass, most = np.maximum(counts[order], 0), self.budget.level_bins
        middle = (np.cumsum(mass) - mass / 2) / max(mass.sum(), 1.0)
        _, places = np.unique(
            np.minimum((middle * most).astype(int), most - 1), return_inverse=True
        )
        groups = np.full(len(counts), places.max(initial=-1) + 1)
        groups[order] = places
        return tuple(groups.tolist())


def _cuts(
    summed: Array, rows: float, goals: Sequence[float], below: float, least: float
) -> list[int]:
    """The cells nearest to the goals, where bins hold so many rows at least, the last one too."""
    cuts: list[int] = []
    for goal in goals:
        nearest = int(np.argmin(np.abs(summed - goal)))
        rises = not cuts or nearest > cuts[-1]
        if rises and summed[nearest] - below >= least and rows - summed[nearest] >= least:
            cuts.append(nearest)
            below = float(summed[nearest])
    return cuts


def _one_figure(rates: Array, counts: Array) -> Array:
    """By which levels are sorted: the rate of the second class, or with more classes the direction
    in which the rates of the levels differ most."""
    if rates.shape[1] == 2:
        return rates[:, 1]
    weights = np.maximum(counts, 0.0)
    apart = rates - weights @ rates / max(weights.sum(), 1.0)
    _, directions = np.linalg.eigh(apart.T * weights @ apart)
    found: Array = apart @ directions[:, -1]
    return found
