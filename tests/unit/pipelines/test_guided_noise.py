"""Difference clipping across clients: figures, personal levels, promises, what is not covered."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.unit.federation.toys import rounds_over
from tests.unit.training.private.stubs import Known, KnownSource
from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import Protected, ProtectedUnit, Relation
from voile.core.row_note import KnownNote
from voile.datasets import clinic_federation
from voile.federation import (
    Client,
    CountingGuard,
    Instruction,
    SeededSources,
    Unprotected,
)
from voile.federation.arrays import shapes_of
from voile.federation.pipeline import run_pipeline
from voile.pipelines.network_task import Training
from voile.pipelines.shapley_guided_noise import (
    STAGE,
    GuidedFacts,
    GuidedModel,
    GuidedPlan,
    plan_guided_noise,
)
from voile.pipelines.tables import TableRecords
from voile.privacy.accounting import Plan

QUICK = Training(hidden=(), clipping_norm=0.3, sampling_rate=0.25, epochs=4, rate=0.2, cooling=0.3)
DELTA, ROUNDS = 1e-5, 2


@pytest.fixture(scope="module")
def records() -> dict[str, TableRecords]:
    hospitals = clinic_federation(200, reference_rows=4, seed=4).hospitals
    return {name: TableRecords.from_dataset(data) for name, data in hospitals.items()}


@pytest.fixture(scope="module")
def held_out() -> TableRecords:
    return TableRecords.from_dataset(clinic_federation(500, seed=9).together())


def protected(
    records: dict[str, TableRecords], relation: Relation = Relation.BLANK_ONE
) -> Protected:
    names = next(iter(records.values())).schema.feature_names[:2]
    return Protected(ProtectedUnit.COLUMNS, relation, "clinic v1", names)


def facts(records: dict[str, TableRecords], **changes: Any) -> GuidedFacts:
    schema = next(iter(records.values())).schema
    sizes = {name: len(found) for name, found in records.items()}
    given: dict[str, Any] = {"rounds": ROUNDS, "protected": protected(records)}
    return GuidedFacts(schema, sizes, **(given | changes))


def planned(records: dict[str, TableRecords], epsilon: float = 8.0, **changes: Any) -> GuidedPlan:
    agreed = facts(records, **changes)
    return plan_guided_noise(agreed, epsilon=epsilon, delta=DELTA, training=QUICK)


def run(
    plan: GuidedPlan, records: dict[str, TableRecords], held_out: TableRecords | None = None
) -> GuidedModel:
    clients = [
        Client(
            name=name,
            size=len(found),
            records=found,
            tasks=plan.tasks_of(name),
            guard=CountingGuard(cap=plan.facts.cap),
            sources=SeededSources(7),
        )
        for name, found in records.items()
    ]
    unprotected = None if held_out is None else Unprotected(held_out, "generated")
    results = run_pipeline(plan, rounds_over(clients), unprotected=unprotected)
    return GuidedModel(plan, results)


def test_it_learns_and_says_what_it_is_made_with(
    records: dict[str, TableRecords], held_out: TableRecords
) -> None:
    trained = run(planned(records), records, held_out)
    rows = trained.results[STAGE].rows
    assert all(row.outcome.counts for row in rows)
    assert trained.results[STAGE].figures[-1]["accuracy"] > 0.65
    assert trained.promise().notes == (KnownNote.SEEDED_NOISE,)
    assert 0 <= trained.contribution_rate(held_out) <= 1
    assert trained.model.predict(held_out.rows[:3]).shape == (3, 2)


def test_everybodys_account_is_that_of_its_own_level(records: dict[str, TableRecords]) -> None:
    strict, *others = sorted(records)
    plan = planned(records, epsilon=2.0, levels={strict: 0.5})
    for name, epsilon in ((strict, 0.5), (others[0], 2.0)):
        events = plan.events_of(name)
        assert events == (plan.stages[0].task_of(name).cost(1),) * ROUNDS
        assert 0.99 * epsilon <= Plan(events, epsilon, DELTA).needed() <= epsilon
        assert 0.99 * epsilon <= plan.guarantee_of(name).epsilon <= epsilon
    assert plan.noise[strict] > plan.noise[others[0]]
    weakest = plan.guarantee()
    assert weakest.epsilon == plan.guarantee_of(others[0]).epsilon  # never the strictest
    assert weakest.protected == protected(records)
    assert plan.participation_events == plan.events_of(plan.weakest)


def test_what_is_not_covered_is_said(records: dict[str, TableRecords]) -> None:
    found = planned(records).guarantee()
    said = " ".join(found.assumptions)
    assert "label" in said
    assert "correlated" in said
    assert "difference clipping" in found.mechanism
    assert "level of each client" in " ".join(found.public_facts)


def test_an_update_at_another_level_is_left_out(records: dict[str, TableRecords]) -> None:
    """What a client states is compared with the level that it declared, not with any."""
    loud, *_ = sorted(records)
    plan = planned(records, epsilon=2.0, levels={loud: 0.5})
    weaker = replace(plan, noise={**plan.noise, loud: plan.noise[plan.weakest]})
    clients = [
        Client(
            name=name,
            size=len(found),
            records=found,
            tasks=(weaker if name == loud else plan).tasks_of(name),
            guard=CountingGuard(cap=plan.facts.cap),
            sources=SeededSources(7),
        )
        for name, found in records.items()
    ]
    rows = run_pipeline(plan, rounds_over(clients))[STAGE].rows
    assert {row.client for row in rows if not row.outcome.counts} == {loud}


def change(plan: GuidedPlan, data: TableRecords, client: str) -> np.ndarray[Any, Any]:
    task = plan.tasks_of(client)[STAGE]
    sent = Instruction(STAGE, 1, task.start(0), {})
    found = task.fit(sent, data, len(data), KnownSource(Known(3, 0.0))).change
    return np.concatenate([array.ravel() for array in found.values()])


def test_whether_a_record_is_null_is_decided_by_public_columns(
    records: dict[str, TableRecords],
) -> None:
    """Were a row null for what its private columns say, the public sum would show it."""
    name, data = next(iter(records.items()))
    plan = planned(records)
    inputs = plan.tasks_of(name)[STAGE].inputs
    null = data.null.copy()
    null[3] = True
    rows = data.rows.copy()
    rows[3] = data.schema.null_row
    same = TableRecords(data.schema, rows, data.labels, data.null)
    other = TableRecords(data.schema, rows, data.labels, null)
    assert np.array_equal(inputs(same), inputs(other))
    assert np.array_equal(change(plan, same, name), change(plan, other, name))


def test_public_columns_alone_move_what_has_no_noise(records: dict[str, TableRecords]) -> None:
    """With blank private columns everywhere the differences vanish."""
    name, data = next(iter(records.items()))
    plan = planned(records)
    rows = data.rows.copy()
    rows[:, :2] = data.schema.null_row[:2]
    blank = TableRecords(data.schema, rows, data.labels, data.null)
    small = replace(plan, training=replace(plan.training, clipping_norm=1e-5))
    np.testing.assert_allclose(
        change(plan, blank, name), change(small, blank, name), atol=1e-3
    )  # no difference is clipped, whatever the norm


def test_rounds_begin_where_everybody_can_see(records: dict[str, TableRecords]) -> None:
    plan = planned(records)
    start = plan.start(STAGE)
    assert shapes_of(start) == dict(plan.stages[0].task.shapes)
    assert not np.concatenate([array.ravel() for array in start.values()]).any()


def test_what_cannot_be_promised_is_refused(records: dict[str, TableRecords]) -> None:
    row = Protected(ProtectedUnit.ROW, Relation.BLANK_ONE, "clinic v1")
    with pytest.raises(Refused, match="declared columns"):
        facts(records, protected=row)
    every = next(iter(records.values())).schema.feature_names
    for columns in (every, ("shoe size",)):
        wrong = Protected(ProtectedUnit.COLUMNS, Relation.BLANK_ONE, "clinic v1", columns)
        with pytest.raises(InvalidInput, match="declared columns must be some"):
            facts(records, protected=wrong)
    added = protected(records, Relation.ADD_OR_REMOVE_ONE)
    with pytest.raises(Refused, match="add or remove one"):
        facts(records, protected=added)
    with pytest.raises(InvalidInput, match="there is no"):
        planned(records, levels={"nobody": 1.0})
