"""Private statistics from one table: their price, what to expect, how good."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from voile.app.expected_statistics import expectation, too_little_signal
from voile.app.train_chain import Training, measured_quality
from voile.app.train_quality import joint_quality, released_quality
from voile.app.trained_model import TrainedModel, save_trained_model
from voile.core.guarantee import Guarantee
from voile.core.schema import Schema
from voile.privacy.events import PrivacyEvent
from voile.release.contract import Release
from voile.release.statistics import (
    CalibrationTable,
    CentredMoments,
    FineTables,
    LabelledRecords,
    PrivateCalibrationTable,
    PrivateFineTables,
    PrivateMoments,
    PrivateStatistics,
    StatisticsBudget,
    joint_guarantee,
)
from voile.release.statistics.releases import NO_TABLES


@dataclass(frozen=True, eq=False)
class StatisticsTraining(Training):
    """An additive model from private statistics: three releases, or two if all cuts are public."""

    @staticmethod
    def read(table: Any, schema: Schema) -> LabelledRecords:
        return LabelledRecords.read(table, schema)

    @cached_property
    def budget(self) -> StatisticsBudget:
        """The least noise for which the account grants all three releases."""
        return StatisticsBudget(
            schema=self.schema,
            rows=len(self.records),
            relation=self.account.protected.relation,
            rho=self.rho,
        )

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        return self.budget.events

    def following(self, made: Sequence[Any]) -> Release[Any]:
        earlier = [*made] if self.budget.table_places else [NO_TABLES, *made]
        kind = (PrivateFineTables, PrivateMoments, PrivateCalibrationTable)[len(earlier)]
        known = dict(zip(("tables", "moments"), earlier, strict=False))
        return kind(self.records, self.budget, **self.terms, **known)

    @property
    def promise(self) -> Guarantee:
        return joint_guarantee(self.budget, **self.terms)

    def learn(self) -> PrivateStatistics:
        *tables, moments, calibration = self.chain.obtain()
        first = tables[0] if tables else NO_TABLES
        assert isinstance(first, FineTables)
        assert isinstance(moments, CentredMoments)
        assert isinstance(calibration, CalibrationTable)
        return PrivateStatistics(self.budget, first, moments, calibration, self.promise)

    def save(self, learned: PrivateStatistics, folder: Path) -> TrainedModel:
        measured = measured_quality(learned.model.predict, self.open_rows)
        quality = joint_quality(released_quality(learned), measured)
        return save_trained_model(learned, quality, folder)

    @property
    def accuracy(self) -> str:
        budget, unit = self.budget, self.budget.target.unit
        last = budget.calibration_noise.sigma / (unit**2 if budget.target.is_number else 1)
        return (
            f"noise of standard deviation {self._tables_noise}about "
            f"{self._expected_moments_noise:.3g} on sums of the moments "
            f"and {last:.3g} on {'sums' if budget.target.is_number else 'counts'} of the "
            "calibration table"
        )

    @property
    def expectation(self) -> tuple[str, ...]:
        return expectation(self.budget)

    @property
    def warning(self) -> str:
        return too_little_signal(self.budget, "a secure sum with others who hold such rows")

    @property
    def _tables_noise(self) -> str:
        if not self.budget.table_places:
            return ""
        deviation = self.budget.tables_noise.sigma / self.budget.target.unit
        return f"{deviation:.3g} on counts of the fine tables, "

    @property
    def _expected_moments_noise(self) -> float:
        """If every feature keeps all bins that it may have, and both classes are as frequent."""
        budget = self.budget
        cells = zip(budget.fine_edges, budget.fine_cells, strict=True)
        bins = [budget.bins if edges else min(count, budget.level_bins) for edges, count in cells]
        bins += [len(each.cuts) + 1 for each in self.schema.features if each.cuts is not None]
        kept = [count for count in bins if count > 1]
        even = (1 / budget.target.columns,) * budget.target.columns
        return budget.moments_noise(kept, even).label_deviation
