"""The model that the same rule makes without noise, on the bins of a private one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from voile.models.additive import AdditiveModel, FeatureBins, bin_codes
from voile.models.additive.model import summed
from voile.release.statistics import LabelledRecords, PrivateStatistics, StatisticsBudget
from voile.release.statistics.calibrating import calibrated_model
from voile.release.statistics.cells import cell_codes
from voile.release.statistics.first_model import FirstModel
from voile.release.statistics.merging import MergedTables
from voile.release.statistics.solving import Estimates
from voile.release.statistics.sums import cell_table, centred_products, centred_sums

PRECISION = 1e8
"""By which rho is larger than that of the private model."""


@dataclass(frozen=True, kw_only=True)
class ExactBudget(StatisticsBudget):
    """Next to no noise, and the sizes of another budget."""

    like: StatisticsBudget

    @property
    def bins(self) -> int:
        return self.like.bins

    @property
    def is_wide(self) -> bool:
        return self.like.is_wide


@dataclass(frozen=True, eq=False)
class FixedBins(MergedTables):
    """Tables with bins that were found in others."""

    fixed: tuple[FeatureBins, ...]

    @property
    def all_bins(self) -> tuple[FeatureBins, ...]:
        return self.fixed


def noise_free_model(private: PrivateStatistics, records: LabelledRecords) -> AdditiveModel:
    """For comparison only: it is made from the rows themselves."""
    like, rows = private.budget, records.present
    budget = ExactBudget(
        schema=like.schema,
        rows=like.rows,
        relation=like.relation,
        rho=like.rho * PRECISION,
        like=like,
    )
    tables = [
        cell_table(cell_codes(edges, rows.rows[:, place]), rows.labels, cells)
        for place, (edges, cells) in enumerate(zip(like.fine_edges, like.fine_cells, strict=True))
    ]
    merged = FixedBins(budget, tables, MergedTables(like, private.tables.blocks).all_bins)
    counts = [feature.count for feature in merged.bins]
    codes = bin_codes(merged.bins, like.schema, rows.rows)
    moments = [*centred_sums(codes, rows.labels, counts), *centred_products(codes, counts)]
    first = FirstModel.solved(Estimates(merged, moments))
    scores = summed(first.intercept, first.scores, first.bins, codes)
    places = np.searchsorted(first.score_edges, scores)
    return calibrated_model(first, cell_table(places, rows.labels, budget.calibration_bins))
