"""What a federation in one process adds to the bare training loops of its clients.

The peer trains the same clients with the same calls and the same randomness in a plain loop,
without messages, books, checks, aggregation or history. And: how a round grows from 10 to 1,000
clients, with a task that does next to nothing, so that only the engine is seen. With VOILE_DATA,
also where the time of the pipeline on the Dutch census goes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.harness import Figure, alternate, compare, write
from voile import Protected, ProtectedUnit, Relation
from voile.core.randomness import GeneratorSource, Seeded
from voile.datasets import clinic_federation
from voile.federation import (
    Arrays,
    Client,
    CountingGuard,
    Fitted,
    Instruction,
    Node,
    Rounds,
    SeededSources,
    Stage,
    Threads,
    Unprotected,
)
from voile.pipelines.private_explainer import (
    BLACK_BOX,
    SURROGATE,
    Facts,
    PipelinePlan,
    TableRecords,
    Training,
    split_total,
)
from voile.privacy.events import PrivacyEvent

SEED, ROWS, CAP = 0, 600, 1_000
TRAINING = {
    BLACK_BOX: Training(hidden=(64,), clipping_norm=0.5, sampling_rate=0.2, epochs=6),
    SURROGATE: Training(hidden=(64, 64), clipping_norm=0.05, sampling_rate=0.24, epochs=10),
}


def run() -> None:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        figures = [*rounds(), *growth(), *_dutch()]
    finally:
        torch.set_num_threads(before)
    peer = "the clients' training loops alone, one after the other"
    write("federation", peer, figures, seed=SEED, unit="CPU time of one thread")


# --- one round against bare loops -----------------------------------------------------------------


def rounds() -> list[Figure]:
    clinic = clinic_federation(ROWS, seed=SEED)
    records = {name: TableRecords.of(data) for name, data in clinic.hospitals.items()}
    sizes = {name: len(found) for name, found in records.items()}
    facts = Facts(
        clinic.schema,
        sizes,
        Protected(ProtectedUnit.ROW, Relation.BLANK_ONE, "clinic"),
        rounds=1,
    )
    plan = split_total(facts, epsilon=2.0, delta=1e-5, training=TRAINING)
    given = {f"{BLACK_BOX}/{n}": a for n, a in plan.tasks[BLACK_BOX].start(SEED).items()}
    figures = []
    for stage in plan.stages:
        fixed = {} if stage.name == BLACK_BOX else given
        ours, peer = alternate(
            [_one_round(plan, stage, fixed, records), _bare(plan, stage, fixed, records)],
            rounds=9,
        )
        what = f"one round of 8 clients, {stage.name}"
        figures.append(compare(what, "s", ours, peer, at_most=1.2))
    return figures


def _over(clients: list[Client]) -> Rounds:
    transport = Threads([Node(client) for client in clients])
    return Rounds(transport, {c.name: c.size for c in clients}, source=Seeded(SEED))


def _one_round(
    plan: PipelinePlan, stage: Stage, given: Arrays, records: Mapping[str, TableRecords]
) -> Callable[[], float]:
    start = plan.tasks[stage.name].start(SEED)

    def measured() -> float:
        books = CountingGuard(CAP)
        clients = [
            Client(name, len(found), found, plan.tasks, books, SeededSources(SEED))
            for name, found in records.items()
        ]
        rounds = _over(clients)
        begin = time.process_time()
        result = rounds.run(stage, start, given=given)
        taken = time.process_time() - begin
        assert not result.errors
        return taken

    return measured


def _bare(
    plan: PipelinePlan, stage: Stage, given: Arrays, records: Mapping[str, TableRecords]
) -> Callable[[], float]:
    task = plan.tasks[stage.name]
    message = Instruction(stage.name, 1, task.start(SEED), given)
    sources = SeededSources(SEED)

    def measured() -> float:
        begin = time.process_time()
        for name, found in records.items():
            task.fit(message, found, len(found), sources.source(name, stage.name, 1))
        return time.process_time() - begin

    return measured


# --- growth ---------------------------------------------------------------------------------------


class Nothing:
    """Moves 6,000 parameters a little, without training: only the engine takes time."""

    shapes: Mapping[str, tuple[int, ...]] = {"weights": (60, 100)}

    def cost(self, size: int) -> PrivacyEvent | None:  # noqa: ARG002
        return None

    def fit(
        self,
        instruction: Instruction,
        records: Any,  # noqa: ARG002
        size: int,  # noqa: ARG002
        source: GeneratorSource,  # noqa: ARG002
    ) -> Fitted:
        return Fitted({"weights": instruction.arrays["weights"] * np.float32(0.5)}, None)

    def evaluate(
        self,
        arrays: Arrays,  # noqa: ARG002
        given: Arrays,  # noqa: ARG002
        rows: Unprotected,  # noqa: ARG002
    ) -> Mapping[str, float]:
        return {}


def growth() -> list[Figure]:
    """Seconds for each client of a round; the peer is a federation of ten."""
    few, more, many = alternate([_idle(count) for count in (10, 100, 1_000)])
    return [
        Figure("one client of a round, of 10, without training", "ms", few, None, None),
        compare("one client of a round, of 100; peer: of 10", "ms", more, few),
        compare("one client of a round, of 1,000; peer: of 10", "ms", many, few, at_most=2.0),
    ]


def _idle(count: int) -> Callable[[], float]:
    task = Nothing()
    start = {"weights": np.ones((60, 100), dtype=np.float32)}
    repeats = max(1, 200 // count)

    def measured() -> float:
        books = CountingGuard(CAP)
        clients = [Client(f"client {i:04}", 100, None, {"idle": task}, books) for i in range(count)]
        stage = Stage("idle", task, repeats, count, repeats)
        rounds = _over(clients)
        begin = time.process_time()
        rounds.run(stage, start)
        return 1e3 * (time.process_time() - begin) / (repeats * count)

    return measured


# --- the Dutch pipeline ---------------------------------------------------------------------------


def _dutch() -> list[Figure]:
    if not os.environ.get("VOILE_DATA"):
        print("the Dutch pipeline is left out: set VOILE_DATA to the folder of the data")
        return []
    from experiments.private_explainer.setting import Split, parts_of_the_time

    return [
        Figure(f"Dutch pipeline: {what}", "s", seconds, None, None)
        for what, seconds in parts_of_the_time(Split.of(SEED)).items()
    ]
