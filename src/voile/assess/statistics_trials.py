"""Private statistics, audited: rows in the sums over an invented table, or not.

Two features of two levels are enough: noise follows from the sensitivity, which one row reaches
with any number of features and bins.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np

from voile.assess.assessment import Arrangement, AuditTrial
from voile.assess.betting import Floats
from voile.assess.claims import group_size
from voile.assess.explanation_trials import MOST_TOGETHER
from voile.assess.release_canary import ReleaseCanary
from voile.assess.shared_sums import canary_in_sum, honest_of
from voile.core.guarantee import Protected, ProtectedUnit, Relation
from voile.core.schema import Categories, Feature, Label, Schema
from voile.pipelines.statistics import StatisticsTask, noise_in_shares
from voile.privacy.events import PrivacyEvent
from voile.release.statistics import (
    CentredMoments,
    FineTables,
    LabelledRecords,
    PrivateCalibrationTable,
    PrivateFineTables,
    PrivateMoments,
    StatisticsBudget,
)

Statistics: TypeAlias = PrivateFineTables | PrivateMoments | PrivateCalibrationTable
KINDS: Final[tuple[type[Statistics], ...]] = (
    PrivateFineTables,
    PrivateMoments,
    PrivateCalibrationTable,
)
"""In the order in which they are charged."""
_LEVELS: Final = Categories(("no", "yes"))
_SCHEMA: Final = Schema(
    "invented", (Feature("first", _LEVELS), Feature("second", _LEVELS)), Label("label", _LEVELS)
)
_NULL: Final = np.nan


def invented_statistics(relation: Relation, rho: float, *, delta: float) -> tuple[Statistics, ...]:
    """The three releases that so much was spent on together, over an invented table."""
    return tuple(_invented(kind, relation, rho, delta, _table(_NULL, 1)) for kind in KINDS)


def invented_share(name: str, relation: Relation, rho: float, *, delta: float) -> Statistics:
    """The one of them that is called so, which cost so much by itself."""
    names = [kind.name for kind in KINDS]
    place = names.index(name)
    share = invented_statistics(relation, 1.0, delta=delta)[place].rho
    return invented_statistics(relation, rho / share, delta=delta)[place]


def statistics(release: Statistics, together: int) -> tuple[Arrangement, ...]:
    """Rows that say yes everywhere, against rows that say no, or nothing."""
    is_replaced = release.protected.relation is Relation.REPLACE_ONE
    inside = _drawing(release, 1.0, together)
    outside = _drawing(release, 0.0 if is_replaced else _NULL, together)
    return (ReleaseCanary("some rows", inside, outside),)


def sum_trial(task: StatisticsTask, charged: PrivacyEvent, *, delta: float) -> AuditTrial:
    """A round across parties, see `voile.assess.shared_sums`. Noise is that of the plan, whatever
    was charged for it."""
    plan = task.plan
    together = group_size(charged, MOST_TOGETHER)
    honest = honest_of(plan.facts.protocol, len(plan.facts.sizes), plan.shares)

    def arrangements(half: bool) -> tuple[Arrangement, ...]:
        rho = plan.rhos[task.stage] * (4 if half else 1)
        release = invented_share(task.stage, plan.protected.relation, rho, delta=delta)
        return (_in_shares(release, plan.shares, honest, together),)

    return AuditTrial(f"{task.stage}, a sum", charged, arrangements, delta, together)


def _in_shares(release: Statistics, shares: int, honest: int, together: int) -> ReleaseCanary:
    is_replaced = release.protected.relation is Relation.REPLACE_ONE
    said = (1.0, 0.0 if is_replaced else _NULL)
    inside, outside = (release.exact(_table(each, together).present) for each in said)
    return canary_in_sum("some rows", noise_in_shares(release, shares), inside, outside, honest)


def at_half_noise(release: Statistics) -> Statistics:
    """Four times the cost: shares of it, which are fixed, stay."""
    budget = release.budget
    table = _table(_NULL, 1)
    return _invented(type(release), budget.relation, 4 * budget.rho, release.delta, table)


def _drawing(release: Statistics, said: float, together: int) -> Callable[[int], Floats]:
    budget, table = release.budget, _table(said, together)
    made = _invented(type(release), budget.relation, budget.rho, release.delta, table)

    def side(draws: int) -> Floats:
        drawn = (made.draw().blocks for _ in range(draws))
        return np.stack([np.concatenate([b.ravel() for b in blocks]) for blocks in drawn]).astype(
            np.float64
        )

    return side


def _table(said: float, together: int) -> LabelledRecords:
    """So many rows that say the same, among null rows."""
    cells = np.full((4 * together, len(_SCHEMA.features)), _NULL)
    cells[:together] = said
    return LabelledRecords.read(cells, _SCHEMA, cells[:, 0])


def _invented(
    kind: type[Statistics], relation: Relation, rho: float, delta: float, table: LabelledRecords
) -> Statistics:
    """What was released before is invented too: it depends on no row of the table."""
    budget = StatisticsBudget(schema=_SCHEMA, rows=len(table), relation=relation, rho=rho)
    terms: dict[str, Any] = {
        "protected": Protected(ProtectedUnit.ROW, relation, "invented rows"),
        "delta": delta,
    }
    if kind is PrivateFineTables:
        return PrivateFineTables(table, budget, **terms)
    even = np.full((len(_LEVELS.values), 2), len(table) // 4, dtype=np.int64)
    tables = FineTables((even,) * len(_SCHEMA.features), event=None)
    second = PrivateMoments(table, budget, **terms, tables=tables)
    if kind is PrivateMoments:
        return second
    nothing = tuple(np.zeros(shape, dtype=np.int64) for shape in second.shapes)
    moments = CentredMoments(nothing, event=None)
    return PrivateCalibrationTable(table, budget, **terms, tables=tables, moments=moments)
