"""With test randomness the pipeline gives the arrays that it gave before `Rounds` was its loop.

`stored/private_explainer.npz` was written by the version before, whose networks were torch's: all
stages of FastSHAP++ over eight small clients, once with everybody, and once with a client that
fails in every first round. Draws and noise come in the same order still, so only rounding differs.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.protecting import row_of
from voile.core.randomness import Seeded
from voile.datasets import Dataset, clinic_federation
from voile.federation import (
    Client,
    CountingGuard,
    Node,
    Outcome,
    RoundReport,
    Rounds,
    SeededSources,
    Threads,
)
from voile.pipelines.private_explainer import (
    BLACK_BOX,
    EXPLAINER,
    SURROGATE,
    Facts,
    PipelinePlan,
    PrivateExplainer,
    Setting,
    StageSpending,
    TableRecords,
    Training,
    separate_budgets,
    train_private_explainer,
)

STORED = np.load(Path(__file__).parent / "stored" / "private_explainer.npz")
FEATURES, CAP = 5, 2
TRAINING = {
    BLACK_BOX: Training(hidden=(8,), clipping_norm=0.5, sampling_rate=0.25, epochs=1),
    SURROGATE: Training(hidden=(8,), clipping_norm=0.1, sampling_rate=0.25, epochs=1),
    EXPLAINER: Training(hidden=(8,), clipping_norm=0.1, sampling_rate=0.5, epochs=1),
}


@pytest.fixture(scope="module")
def records() -> dict[str, TableRecords]:
    clinic = clinic_federation(60, reference_rows=6, seed=4)
    schema = replace(clinic.schema, features=clinic.schema.features[:FEATURES])
    return {
        name: TableRecords.from_dataset(Dataset(name, schema, data.rows[:, :FEATURES], data.labels))
        for name, data in clinic.hospitals.items()
    }


@pytest.fixture(scope="module")
def plan(records: dict[str, TableRecords]) -> PipelinePlan:
    facts = Facts(
        next(iter(records.values())).schema,
        {name: len(found) for name, found in records.items()},
        protected=row_of("clinic v1"),
        rounds=2,
        participations=CAP,
    )
    budgets = {stage: StageSpending(1.0, 1e-3) for stage in TRAINING}
    return separate_budgets(facts, budgets, setting=Setting.FULL_PRIVATE, training=TRAINING)


class FailsFirst(Node):
    """Does not answer in the first round of a stage."""

    def handle(self, message: Any) -> Any:
        if message.round == 1:
            raise RuntimeError
        return super().handle(message)


def run(
    plan: PipelinePlan,
    records: dict[str, TableRecords],
    folder: Path | None = None,
    *,
    faulty: bool = False,
    at_once: int = 1,
    guard: CountingGuard | None = None,
    **settings: Any,
) -> PrivateExplainer:
    nodes, books = [], guard or CountingGuard(CAP)
    for place, (name, found) in enumerate(records.items()):
        client = Client(name, len(found), found, plan.tasks, books, SeededSources(7), folder)
        nodes.append((FailsFirst if faulty and place == 2 else Node)(client))
    rounds = Rounds(
        Threads(nodes, at_once=at_once),
        plan.facts.sizes,
        source=Seeded(3),
        checkpoints=None if folder is None else folder / "server",
        **settings,
    )
    return train_private_explainer(plan, rounds)


def check(kind: str, found: PrivateExplainer) -> None:
    for stage, result in found.results.items():
        for name, array in result.arrays.items():
            before = STORED[f"{kind}/{stage}/{name}"]
            np.testing.assert_allclose(array, before, rtol=1e-4, atol=1e-5)
    assert len(STORED.files) == 2 * sum(len(each.arrays) for each in found.results.values())


@pytest.fixture(scope="module")
def plain(plan: PipelinePlan, records: dict[str, TableRecords]) -> PrivateExplainer:
    return run(plan, records)


def same_bits(first: PrivateExplainer, second: PrivateExplainer) -> bool:
    return all(
        np.array_equal(array, second.results[stage].arrays[name])
        for stage, result in first.results.items()
        for name, array in result.arrays.items()
    )


def test_one_after_the_other(plain: PrivateExplainer) -> None:
    """Other processors add in another order: their last digits may differ, and no more."""
    check("all", plain)


def test_in_threads(
    plan: PipelinePlan, records: dict[str, TableRecords], plain: PrivateExplainer
) -> None:
    assert same_bits(plain, run(plan, records, at_once=4, deadline=300.0))


def test_without_a_client_that_fails(
    plan: PipelinePlan, records: dict[str, TableRecords], plain: PrivateExplainer
) -> None:
    faulty = run(plan, records, faulty=True)
    check("one fails", faulty)
    assert not same_bits(plain, faulty)


class StopsOnce:
    """The books of a server that is stopped once, after the second round of the first stage."""

    def __init__(self) -> None:
        self.told = 0

    def after_round(self, report: RoundReport) -> None:  # noqa: ARG002
        self.told += 1
        if self.told == 2:
            raise KeyboardInterrupt


def test_after_a_restart_in_the_middle(
    plan: PipelinePlan, records: dict[str, TableRecords], plain: PrivateExplainer, tmp_path: Path
) -> None:
    log, guard = StopsOnce(), CountingGuard(CAP)
    with suppress(KeyboardInterrupt):
        run(plan, records, tmp_path, log=log, guard=guard)
    assert log.told == 2
    rest = run(plan, records, tmp_path, log=log, guard=guard)
    assert same_bits(plain, rest)
    assert log.told == 2 * len(TRAINING) + 1  # the round that was cut is told again
    resent = {row.client for row in rest.results[BLACK_BOX].rows if row.outcome is Outcome.RESENT}
    assert resent == set(records)
