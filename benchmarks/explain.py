"""A private explanation from the question to the durable answer, beside the sum of its parts.

One row of twelve features is explained by a learned explainer, clipped, noised exactly, charged to
the account of its record and written to the log, in one SQLite database that forces every commit to
the disk. The parts are measured alone and in turn with the whole:

    draw        the learned explainer, clipping and exact noise
    bytes       the answer as it is stored, and as it is committed to
    look        was it asked before, would it fit
    charge      one durable transaction: account of the record, charge, answer, log

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
from voile.attribution import FastShap
from voile.attribution.fastshap import EXPLAINER_PLAN, train_explainer, train_surrogate
from voile.audit_log import AuditLog, RowTree, explanation_bytes, explanation_rows
from voile.core.guarantee import Adversary, Guarantee, Protected, ProtectedUnit, Relation
from voile.core.randomness import Seeded
from voile.core.storage import open_storage
from voile.datasets import clinic_federation
from voile.ledger import Children, Ledger, NamedRecord, Opening, ReplayKey
from voile.ledger.tables import BALANCES
from voile.models import Box, Rows, wrap
from voile.release import PUBLIC, ClippedRelease, PostProcessed, trained_privately
from voile.training import Plan
from voile.workflows.budget import open_budget
from voile.workflows.charging import PARTS, Desk, Drawn
from voile.workflows.explain import Explainer
from voile.workflows.explain.explainer import _settled_notes
from voile.workflows.explain.per_record import _look, _prepared, _settle

SEED = 0
DATASET = "clinic v1"
CLINIC = clinic_federation(300, seed=1)
CALLS = 400
WARM_UP = 40
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
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        learned = explainer()
        figures = [*single(learned, known=False), *single(learned, known=True)]
        figures += [forced_write(), *million(learned)]
    finally:
        torch.set_num_threads(before)
    write("explain", "the sum of its parts, measured alone in the same run", figures, seed=SEED)


def explainer() -> FastShap:
    """Briefly trained: speed does not depend on how well."""
    rows = CLINIC.together().rows[:2_000]
    model = wrap(CLINIC.risk, outputs=Box(0, 1), output_names=("readmitted",), digest="risk")
    plan = Plan(steps=20, hidden=(64, 64))
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
def desk() -> Iterator[Desk]:
    account = Opening(
        name="people",
        protected=Protected(ProtectedUnit.EXPLAINED_ROW, Relation.REPLACE_ONE, DATASET),
        epsilon=10_000.0,
        delta=1e-5,
        children=Children.PARALLEL,
    )
    with (
        tempfile.TemporaryDirectory() as folder,
        open_storage(str(Path(folder) / "books.db"), PARTS) as storage,
    ):
        log = storage.submit(lambda t: AuditLog.create(t, "example.org/benchmark"))
        made = Desk(storage, Ledger(), log, ReplayKey(bytes(32)))
        open_budget(storage, made.ledger, log, account, caller="custodian")
        yield made


# --- one explanation ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Parts:
    """Everything a call does, one after the other and each by itself."""

    asking: Explainer
    rows: Rows
    known: bool

    def name(self, number: int) -> str:
        return f"patient {number % WARM_UP if self.known else number}"

    def whole(self, number: int) -> float:
        row, name = self._row(number), self.name(number)
        return clocked(lambda: self.asking(row, identifiers=[name], fresh=self.known))

    def alone(self, number: int) -> dict[str, float]:
        asking, row = self.asking, self._row(number)
        made: list[Any] = []
        times = {"draw": clocked(lambda: made.append(asking.release.draw(row)))}
        explanation = _settled_notes(made[0])
        times["bytes"] = clocked(lambda: made.append(_drawn(explanation)))
        # Another name than the whole call took: a question that is as new.
        name = f"{self.name(number)}{'' if self.known else ' alone'}"
        paying = asking._paying
        assert paying is not None
        desk = asking.desk
        record = NamedRecord(name, paying.protected.dataset)
        one = [_prepared(desk, paying, asking._record_request(paying, record))]
        found: list[Any] = []
        times["look"] = clocked(
            lambda: found.append(
                desk.storage.submit(lambda t: _look(desk, t, paying, one, self.known))
            )
        )
        ready = {0: made[-1]}
        times["charge"] = clocked(
            lambda: desk.storage.submit(
                lambda t: _settle(desk, t, paying, one, found[0], ready, self.known)
            )
        )
        return times

    def _row(self, number: int) -> Rows:
        place = number % len(self.rows)
        return self.rows[place : place + 1]


def _drawn(explanation: Any) -> Drawn:
    return Drawn(explanation.to_bytes(), explanation_bytes(explanation))


def single(learned: FastShap, *, known: bool) -> list[Figure]:
    with desk() as made:
        asking = Explainer(private(learned), made, "people", caller="service")
        parts = Parts(asking, CLINIC.together().rows, known)
        counter = itertools.count()
        for number in itertools.islice(counter, WARM_UP):
            asking(parts._row(number), identifiers=[parts.name(number)])
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
    with desk() as made:
        asking = Explainer(release, made, caller="service")
        asking(rows[:10_000])
        before = made.storage.submit(lambda t: t.scan(BALANCES))
        whole = clocked(lambda: asking(rows))
        unchanged = made.storage.submit(lambda t: t.scan(BALANCES)) == before
    learned_alone = clocked(lambda: learned(rows))
    explanation = learned(rows)
    commitments = clocked(lambda: RowTree.of(explanation_rows(explanation), bytes(32)))
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
