"""`PrivateStatistics`: all three releases, what they promise together, and the model they make."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from voile.core.guarantee import Adversary, Guarantee, Protected
from voile.models.additive import AdditiveModel
from voile.privacy.accounting.conversion import zcdp_to_epsilon
from voile.privacy.sensitivity.bound import check_bounds
from voile.release.origin import Origin, trained_privately
from voile.release.statistics.budget import StatisticsBudget
from voile.release.statistics.calibrating import calibrated_model
from voile.release.statistics.first_model import FirstModel
from voile.release.statistics.merging import MergedTables
from voile.release.statistics.releases import (
    PUBLIC_FACTS,
    CalibrationTable,
    CentredMoments,
    FineTables,
)
from voile.release.statistics.solving import Estimates


@dataclass(frozen=True, eq=False)
class PrivateStatistics:
    """All three releases. All that is made from them is free.

    Args:
        budget: how noisy they are.
        tables, moments, calibration: paid for.
        guarantee: joint, of all three (`joint_guarantee`).
    """

    budget: StatisticsBudget
    tables: FineTables
    moments: CentredMoments
    calibration: CalibrationTable
    guarantee: Guarantee

    def __post_init__(self) -> None:
        for each in (self.tables, self.moments, self.calibration):
            each.check_paid()

    @property
    def origin(self) -> Origin:
        return trained_privately(self.guarantee)

    @cached_property
    def model(self) -> AdditiveModel:
        """The additive model, its background and its errors."""
        merged = MergedTables(self.budget, self.tables.blocks)
        first = FirstModel.solved(Estimates(merged, self.moments.blocks))
        return replace(
            calibrated_model(first, self.calibration.blocks[0]), guarantees=(self.guarantee,)
        )


def joint_guarantee(budget: StatisticsBudget, *, protected: Protected, delta: float) -> Guarantee:
    """What all three releases of a budget promise together."""
    sensitivity = budget.tables_noise.sensitivity
    check_bounds(sensitivity, protected)
    return Guarantee(
        epsilon=zcdp_to_epsilon(
            budget.tables_rho + budget.moments_rho + budget.calibration_rho, delta
        ),
        delta=delta,
        protected=protected,
        against=(Adversary.PUBLIC,),
        computational=False,
        mechanism="discrete Gaussian noise on fine tables, centred moments and a calibration table",
        composition="all three together, by zero-concentrated differential privacy",
        public_facts=PUBLIC_FACTS,
        assumptions=(
            *sensitivity.conditions,
            "each release depends on rows and on released numbers only",
            "running time is not observed",
            "whoever adds up the rows sees them: the guarantee is not against the server",
        ),
    )
