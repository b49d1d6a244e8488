"""What a federation in one process adds to the bare training loops of its clients.

The peer is the time that the very same round spends inside its clients' training calls; the rest
are messages, books, checks, aggregation and history. (Two runs of one training differ by up to a
third on a machine that does other things besides, far more than what is looked for.)

And, with tasks that do next to nothing, so that only the runtime is seen: how a round grows from 10
to 10,000 clients, and how much memory the server needs for 1,000 large updates where the aggregator
is a sum. With VOILE_DATA, also where the time of the pipeline on the Dutch census goes.
"""

from __future__ import annotations

import os
import time
import tracemalloc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.harness import Figure, alternate, compare, write
from voile.core.guarantee import Protected, ProtectedUnit, Relation
from voile.core.one_thread import one_thread
from voile.core.randomness import GeneratorSource, Seeded
from voile.datasets import clinic_federation
from voile.federation import (
    Arrays,
    Client,
    CountingGuard,
    FitResult,
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
    NetworkTask,
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
    with one_thread():
        figures = [*rounds(), *growth(), memory(), *_dutch()]
    peer = "the clients' training alone, in the same round"
    write("federation", peer, figures, seed=SEED, unit="CPU time of one thread; memory at its peak")


# --- one round against bare loops -----------------------------------------------------------------


def rounds() -> list[Figure]:
    clinic = clinic_federation(ROWS, seed=SEED)
    records = {name: TableRecords.from_dataset(data) for name, data in clinic.hospitals.items()}
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
        ours, peer = _one_round(plan, stage, fixed, records)
        what = f"one round of 8 clients, {stage.name}"
        figures.append(compare(what, "s", ours, peer, at_most=1.1))
    return figures


def _over(clients: list[Client]) -> Rounds:
    transport = Threads([Node(client) for client in clients])
    return Rounds(transport, {c.name: c.size for c in clients}, source=Seeded(SEED))


def _one_round(
    plan: PipelinePlan, stage: Stage, given: Arrays, records: Mapping[str, TableRecords]
) -> tuple[float, float]:
    """CPU seconds of a round, and of the training in it: of the run with the median ratio."""
    start, measured = plan.tasks[stage.name].start(SEED), []
    for _ in range(9):
        task, books = Timed(plan.tasks[stage.name]), CountingGuard(CAP)
        rounds = _over(
            [
                Client(name, len(found), found, {stage.name: task}, books, SeededSources(SEED))
                for name, found in records.items()
            ]
        )
        begin = time.process_time()
        result = rounds.run(stage, start, given=given)
        measured.append((time.process_time() - begin, task.seconds))
        assert not result.errors
    return sorted(measured, key=lambda each: each[0] / each[1])[len(measured) // 2]


@dataclass
class Timed:
    """A task that knows how much CPU time went into training."""

    task: NetworkTask
    seconds: float = 0.0

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return self.task.shapes

    def cost(self, size: int) -> PrivacyEvent | None:
        return self.task.cost(size)

    def fit(
        self, instruction: Instruction, records: Any, size: int, source: GeneratorSource
    ) -> FitResult:
        begin = time.process_time()
        try:
            return self.task.fit(instruction, records, size, source)
        finally:
            self.seconds += time.process_time() - begin

    def evaluate(self, arrays: Arrays, given: Arrays, rows: Unprotected) -> Mapping[str, float]:
        return self.task.evaluate(arrays, given, rows)


# --- growth ---------------------------------------------------------------------------------------


class Idle:
    """Sends the same array every time, without training: only the runtime is seen."""

    def __init__(self, *shape: int) -> None:
        self.shapes = {"weights": shape}
        self.change = {"weights": np.full(shape, 0.5, dtype=np.float32)}

    @property
    def start(self) -> Arrays:
        return {"weights": np.ones(self.shapes["weights"], dtype=np.float32)}

    def cost(self, size: int) -> PrivacyEvent | None:  # noqa: ARG002
        return None

    def fit(
        self,
        instruction: Instruction,  # noqa: ARG002
        records: Any,  # noqa: ARG002
        size: int,  # noqa: ARG002
        source: GeneratorSource,  # noqa: ARG002
    ) -> FitResult:
        return FitResult(self.change, None)

    def evaluate(
        self,
        arrays: Arrays,  # noqa: ARG002
        given: Arrays,  # noqa: ARG002
        rows: Unprotected,  # noqa: ARG002
    ) -> Mapping[str, float]:
        return {}


def _idle(task: Idle, clients: int, rounds: int = 1) -> Callable[[], object]:
    """A federation that has yet to run; every client with books of its own."""
    stage = Stage("idle", task, rounds, clients, rounds)
    over = _over(
        [
            Client(f"client {i:05}", 100, None, {"idle": task}, CountingGuard(rounds))
            for i in range(clients)
        ]
    )
    return lambda: over.run(stage, task.start)


def growth() -> list[Figure]:
    """Time for each client of a round of 6,000 values; the peer is a federation of ten."""
    counts = (10, 100, 1_000, 10_000)
    few, *others = alternate([_time_of_one(count) for count in counts])
    first = Figure("one client of a round, of 10, without training", "ms", few, None, None)
    targets = (None, None, 2.0)
    return [
        first,
        *(
            compare(f"one client of a round, of {n:,}; peer: of 10", "ms", ours, few, at_most=most)
            for n, ours, most in zip(counts[1:], others, targets, strict=True)
        ),
    ]


def _time_of_one(clients: int) -> Callable[[], float]:
    task, rounds = Idle(60, 100), max(1, 1_000 // clients)

    def measured() -> float:
        run = _idle(task, clients, rounds)
        begin = time.process_time()
        run()
        return 1e3 * (time.process_time() - begin) / (rounds * clients)

    return measured


# --- memory ---------------------------------------------------------------------------------------


def memory() -> Figure:
    """What the server holds at most during one round, beyond what was there before it."""
    ours, peer = _peak(1_000), _peak(10)
    return compare("1,000 updates of 10⁶ values; peer: 10", "MB", ours, peer, at_most=1.1)


def _peak(updates: int) -> float:
    run = _idle(Idle(1_000_000), updates)
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


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
