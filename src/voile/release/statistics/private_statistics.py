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
from voile.release.statistics.by_target import fitted_model, solved_model
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

    >>> import numpy as np
    >>> from voile.core.guarantee import Protected
    >>> from voile.core.schema import Categories, Feature, Label, Schema
    >>> levels = Categories(("no", "yes"))
    >>> schema = Schema("people", (Feature("smoker", levels),), Label("ill", levels))
    >>> budget = StatisticsBudget(schema=schema, rows=200, relation="blank one", rho=0.5)
    >>> terms = {"protected": Protected("row", "blank one", "people"), "delta": 1e-6}
    >>> tables = FineTables((np.array([[100, 0], [0, 100]]),), event=None)
    >>> moments = CentredMoments(tuple(map(np.array, ([0, 0], [-200, 200], [0]))), event=None)
    >>> table = np.zeros((budget.calibration_bins, 2), dtype=np.int64)
    >>> table[1, 0] = table[6, 1] = 100
    >>> parts = (tables, moments, CalibrationTable((table,), event=None))
    >>> found = PrivateStatistics(budget, *parts, joint_guarantee(budget, **terms))
    >>> found.model.predict({"smoker": ["no", "yes"]})[:, 1].round(2).tolist()
    [0.02, 0.98]
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
        first = solved_model(Estimates(merged, self.moments.blocks))
        return replace(
            fitted_model(first, self.calibration.blocks[0]), guarantees=(self.guarantee,)
        )


def joint_guarantee(budget: StatisticsBudget, *, protected: Protected, delta: float) -> Guarantee:
    """What all three releases of a budget promise together.

    >>> from voile.core.guarantee import Relation
    >>> from voile.datasets.clinic import SCHEMA
    >>> given = {"schema": SCHEMA, "rows": 8000, "relation": Relation.BLANK_ONE}
    >>> budget = StatisticsBudget.within(**given, epsilon=2.0, delta=1e-5)
    >>> protected = Protected("row", "blank one", "patients")
    >>> round(joint_guarantee(budget, protected=protected, delta=1e-5).epsilon, 3)
    2.0
    """
    sensitivity, together = (
        budget.tables_sensitivity,
        "all three" if budget.table_places else "both",
    )
    tables = "fine tables, " * bool(budget.table_places)
    check_bounds(sensitivity, protected)
    return Guarantee(
        epsilon=zcdp_to_epsilon(sum(budget.rhos.values()), delta),
        delta=delta,
        protected=protected,
        against=(Adversary.PUBLIC,),
        computational=False,
        mechanism=f"discrete Gaussian noise on {tables}centred moments and a calibration table",
        composition=f"{together} together, by zero-concentrated differential privacy",
        public_facts=PUBLIC_FACTS,
        assumptions=(
            *sensitivity.conditions,
            "each release depends on rows and on released numbers only",
            "running time is not observed",
            "whoever adds up the rows sees them: the guarantee is not against the server",
        ),
    )
