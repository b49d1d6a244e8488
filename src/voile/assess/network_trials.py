"""The table of a network's scores, audited: rows in it over an invented table, or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from voile.assess.assessment import Arrangement
from voile.assess.betting import Floats
from voile.assess.release_canary import ReleaseCanary
from voile.core.guarantee import Protected, ProtectedUnit, Relation
from voile.core.schema import Categories, Feature, Label, Schema
from voile.pipelines.score_table import PrivateScoreTable
from voile.pipelines.table_network import (
    SCORE_SHARE,
    NetworkParameters,
    TableNetworkPlan,
)
from voile.pipelines.tables import TableRecords

_LEVELS: Final = Categories(("no", "yes"))
_SCHEMA: Final = Schema("invented", (Feature("first", _LEVELS),), Label("label", _LEVELS))


def invented_scores(relation: Relation, rho: float, *, delta: float) -> PrivateScoreTable:
    """The table that cost so much, of a network that nobody trained."""
    return _invented(relation, rho, delta, _table(np.nan, 1))


def score_tables(release: PrivateScoreTable, together: int) -> tuple[Arrangement, ...]:
    """Rows that say yes everywhere, against rows that say no, or nothing."""
    is_replaced = release.protected.relation is Relation.REPLACE_ONE
    inside = _drawing(release, 1.0, together)
    outside = _drawing(release, 0.0 if is_replaced else np.nan, together)
    return (ReleaseCanary("some rows", inside, outside),)


def scores_at_half_noise(release: PrivateScoreTable) -> PrivateScoreTable:
    """Four times the cost."""
    rho, relation = 4 * release.plan.score_rho, release.protected.relation
    return invented_scores(relation, rho, delta=release.delta)


def _drawing(release: PrivateScoreTable, said: float, together: int) -> Callable[[int], Floats]:
    plan = release.plan
    table = _table(said, together)
    made = _invented(plan.protected.relation, plan.score_rho, release.delta, table)

    def side(draws: int) -> Floats:
        return np.stack([made.draw().counts.ravel() for _ in range(draws)]).astype(np.float64)

    return side


def _table(said: float, together: int) -> TableRecords:
    """So many rows that say the same, among null rows."""
    cells = np.full(4 * together, np.nan)
    cells[:together] = said
    null = np.isnan(cells)
    return TableRecords(_SCHEMA, np.nan_to_num(cells)[:, np.newaxis], cells, null)


def _invented(
    relation: Relation, rho: float, delta: float, table: TableRecords
) -> PrivateScoreTable:
    about = Protected(ProtectedUnit.ROW, relation, "invented rows")
    plan = TableNetworkPlan(_SCHEMA, len(table), about, rho / SCORE_SHARE)
    network = NetworkParameters(plan.task.start(0), event=None)
    return PrivateScoreTable(table, plan, network, protected=about, delta=delta)
