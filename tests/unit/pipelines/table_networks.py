"""Networks of a small table, and releases about it."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.paying import Ledger, as_if_paid
from tests.protecting import row_of
from tests.unit.release.statistics.examples import SCHEMA, people
from voile.core.guarantee import Relation
from voile.pipelines.score_table import PrivateScoreTable
from voile.pipelines.table_network import (
    NetworkParameters,
    PrivateTableNetwork,
    TableNetworkPlan,
)
from voile.pipelines.tables import TableRecords
from voile.release.charged import paid_artefact

DELTA: Final = 1e-5


def records(count: int, seed: int = 0) -> TableRecords:
    rows, labels = people(count, seed)
    return TableRecords(SCHEMA, rows, labels, np.zeros(count, dtype=np.bool_))


def plan(rows: int, rho: float = 0.1, relation: Relation = Relation.BLANK_ONE) -> TableNetworkPlan:
    return TableNetworkPlan(SCHEMA, rows, row_of("people 1", relation), rho)


def network(
    found: TableRecords, given: TableNetworkPlan | None = None, **more: Any
) -> PrivateTableNetwork:
    given = given or plan(len(found))
    return PrivateTableNetwork(found, given, protected=given.protected, delta=DELTA, **more)


def known_scores(rows: int = 30) -> PrivateScoreTable:
    """Over a network that is the same every time."""
    found, given = records(rows), plan(rows)
    made = network(found, given)
    start = NetworkParameters(given.task.start(0), event=made.cost(1))
    paid = paid_artefact(made, "charge 1", Ledger(made.codec.pack(start)))
    return PrivateScoreTable(found, given, paid, protected=given.protected, delta=DELTA)


def scores(found: TableRecords, given: TableNetworkPlan | None = None) -> PrivateScoreTable:
    """Over a network that somebody paid for."""
    given = given or plan(len(found))
    paid = as_if_paid(network(found, given))
    return PrivateScoreTable(found, given, paid, protected=given.protected, delta=DELTA)
