"""Kill -9 in the middle of charges; sixty-four writers on one tree; disks that fail."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import resource
import select
import signal
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from tests.faults.forking import child, kill, lines
from tests.support.journal import check_journal
from tests.unit.app.budget_examples import House, drawn, request
from tests.unit.records.ledger.examples import CHEAP, Books, charge, opening
from voile.core.errors import (
    BudgetExceeded,
    ForeignDatabase,
    StorageBusy,
    StorageFault,
    StorageFull,
    StorageReadOnly,
)
from voile.privacy.accounting import ZeroConcentratedFilter
from voile.privacy.accounting.measures import fits
from voile.privacy.events import Gaussian
from voile.records.audit_log import ReleaseRecord, decode_record
from voile.records.ledger import PART, Children, Ledger
from voile.records.ledger.event_text import event_text
from voile.records.ledger.tables import ANSWERS, ENTRIES, Entry
from voile.records.storage import Storage, open_storage, storage_on
from voile.records.storage.sqlite import SqliteSession
from voile.records.vault import PARTS

PLACES = ["sqlite", pytest.param("postgres", marks=pytest.mark.real)]
EVENT = Gaussian(20.0)


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "test.db")
    url: str = request.getfixturevalue("postgres_url")
    return url


# --- kill -9 -------------------------------------------------------------------------------------


def answer_for_ever(place: str, folder: Path, name: str) -> Callable[[int], None]:
    """Answers one question after the other, and says what left the house."""

    def work(pipe: int) -> None:
        house = House.reopen(place, folder)
        number = 0
        while True:
            content = f"{name}/{number}"
            account = ("north", "south")[number % 2]
            answer = house.service.answer_request(request(content, account=account), drawn(content))
            said = {"asked": content, "charge": answer.charge, "answer": answer.content.decode()}
            os.write(pipe, json.dumps(said).encode() + b"\n")
            number += 1

    return work


def open_wards(house: House, epsilon: float) -> None:
    house.open("clinic", epsilon=epsilon)
    house.open("wards", parent="clinic", epsilon=epsilon, children=Children.PARALLEL)
    house.open("north", parent="wards", epsilon=epsilon)
    house.open("south", parent="wards", epsilon=epsilon)


def test_kill_at_random_points_every_answer_is_charged_and_on_record(
    place: str, tmp_path: Path
) -> None:
    rounds, batch = (300, 30) if place.startswith("/") else (60, 20)
    assert kill_while_charging(place, tmp_path, rounds, batch) >= rounds // 2


def kill_while_charging(place: str, folder: Path, rounds: int, batch: int) -> int:
    """Balances, journal, answers and log agree after each batch of kills; how many answers left."""
    chance = random.Random(5)
    house = House.create(place, folder)
    open_wards(house, 100.0)
    house.storage.close()
    returned: dict[str, dict[str, str]] = {}
    for number in range(rounds):
        with child(answer_for_ever(place, folder, str(number))) as (process, pipe):
            if number % 3:  # sometimes before it has answered anything at all
                select.select([pipe], [], [], 10)
            time.sleep(chance.uniform(0, 0.008 if place.startswith("/") else 0.03))
            kill(process)
            for line in lines(pipe):
                said = json.loads(line)
                returned[said["charge"]] = said
        if number % batch == batch - 1:
            check_books(place, folder, returned, kills=number + 1)
    return len(returned)


def check_books(
    place: str, folder: Path, returned: dict[str, dict[str, str]], *, kills: int
) -> None:
    house = House.reopen(place, folder)
    report = house.verify()
    assert report.verified, report.failed
    rows = house.storage.submit(lambda t: t.scan(ANSWERS))
    stored = {f"{row.root}#{row.number}": row for row in rows}
    contents = house.storage.submit(lambda t: house.vault.log.records(t, limit=10**6))
    records = [decode_record(content) for content in contents]
    logged = Counter(record.charge for record in records if isinstance(record, ReleaseRecord))
    assert set(logged.values()) <= {1}
    assert logged.keys() == stored.keys()
    for charge_name, said in returned.items():
        assert stored[charge_name].answer.decode() == said["answer"] == said["asked"]
    # At most the charge under way was kept without anybody hearing of it, once for each kill.
    assert len(returned) <= len(stored) <= len(returned) + kills
    house.storage.close()


# --- two processes, one question -----------------------------------------------------------------


def test_two_processes_that_ask_at_once_pay_once_and_get_one_answer(
    place: str, tmp_path: Path
) -> None:
    house = House.create(place, tmp_path)
    house.open("clinic", epsilon=10.0)
    house.storage.close()
    start = time.monotonic() + 0.3

    def ask(name: str) -> Callable[[int], None]:
        def work(pipe: int) -> None:
            mine = House.reopen(place, tmp_path)
            while time.monotonic() < start:
                time.sleep(0.001)
            for number in range(40):
                answer = mine.service.answer_request(
                    request(str(number)), drawn(f"{name} {number}")
                )
                os.write(pipe, f"{number}|{answer.charge}|{answer.content.decode()}\n".encode())

        return work

    with child(ask("left")) as (_, left), child(ask("right")) as (_, right):
        one, two = lines(left), lines(right)
    assert len(one) == 40
    assert one == two
    house = House.reopen(place, tmp_path)
    entries = house.storage.submit(lambda t: t.scan(ENTRIES, "clinic"))
    assert len(entries) == 41
    assert house.verify().verified
    house.storage.close()


def test_many_threads_that_ask_at_once_pay_once(tmp_path: Path) -> None:
    house = House.create(str(tmp_path / "t.db"), tmp_path)
    house.open()
    gate, heard = threading.Barrier(16), []

    def ask(number: int) -> None:
        gate.wait()
        heard.append(house.service.answer_request(request(), drawn(str(number))).content)

    workers = [threading.Thread(target=ask, args=(n,)) for n in range(16)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(heard) == 16
    assert len(set(heard)) == 1
    assert len(house.storage.submit(lambda t: t.scan(ENTRIES, "clinic"))) == 2


# --- sixty-four writers --------------------------------------------------------------------------

SIDES = {"ada": 0.6, "grace": 0.8, "north": 0.7, "south": 0.7}


def open_hospital(books: Books) -> None:
    """Analysts one after the other, wards in parallel, all below one root that is too small."""
    books.open("hospital", epsilon=1.0)
    books.open("analysts", parent="hospital", epsilon=0.9)
    books.open("wards", parent="hospital", epsilon=0.9, children=Children.PARALLEL)
    for name, epsilon in SIDES.items():
        parent = "analysts" if name in ("ada", "grace") else "wards"
        books.open(name, parent=parent, epsilon=epsilon)


def spend_all(place: str, seed: int, start: Barrier) -> Callable[[int], None]:
    """Eight threads that charge until every account has refused the smallest event there is."""

    def work(pipe: int) -> None:
        ledger, storage = Ledger(), open_storage(place, [PART])
        start.wait(60)

        def spend(number: int) -> None:
            chance = random.Random(100 * seed + number)
            dry: set[str] = set()
            counts: Counter[str] = Counter()
            while len(dry) < len(SIDES):
                name = chance.choice([each for each in SIDES if each not in dry])
                event = chance.choice(EVENTS)
                asked = charge(name, event, caller=f"{seed}/{number}")
                try:
                    storage.submit(lambda t, asked=asked: ledger.charge(t, asked))  # type: ignore[misc]
                except BudgetExceeded:
                    counts["refused"] += 1
                    if event == SMALLEST:
                        dry.add(name)
                else:
                    counts[f"{name} {EVENTS.index(event)}"] += 1
                    counts["granted"] += 1
            os.write(pipe, json.dumps(counts).encode() + b"\n")

        workers = [threading.Thread(target=spend, args=(n,)) for n in range(8)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    return work


EVENTS = (Gaussian(120.0), Gaussian(160.0), Gaussian(240.0))
SMALLEST = EVENTS[-1]


def test_sixty_four_writers_drive_a_tree_to_exhaustion(place: str) -> None:
    with open_storage(place, [PART]) as storage:
        open_hospital(Books.on(storage))
    start = multiprocessing.get_context("fork").Barrier(8)
    with ExitStack() as stack:
        pipes = [stack.enter_context(child(spend_all(place, n, start)))[1] for n in range(8)]
        said = [Counter[str](json.loads(line)) for pipe in pipes for line in lines(pipe)]
    assert len(said) == 64
    with open_storage(place, [PART]) as storage:
        books = Books.on(storage)
        assert books.problems() == []
        nodes = storage.submit(books.ledger.nodes)
        entries = storage.submit(lambda t: t.scan(ENTRIES, "hospital"))
    # never above the bound
    for node in nodes:
        assert fits(node.standing.spent, node.account.budgets), node.account.name
    # no grant missing: what the writers heard is what the journal holds, writer by writer
    charges = [entry for entry in entries if entry.act == "charged"]
    heard = sum(said, Counter[str]())
    assert len(charges) == heard["granted"] > 500
    for name in SIDES:
        for number, event in enumerate(EVENTS):
            kept = [e for e in charges if (e.account, e.event) == (name, event_text(event))]
            assert len(kept) == heard[f"{name} {number}"]
    # every refusal was right: afterwards nothing fits any more, not even the smallest event
    for name in SIDES:
        with open_storage(place, [PART]) as storage, pytest.raises(BudgetExceeded):
            Books.on(storage).charge(name, SMALLEST)
    check_refusals_were_right(charges, place)
    # Every writer was heard until all was gone. How large a share each gets is up to the machine's
    # scheduler; that turns are given in order is tested in unit/records/storage/test_turns.py.
    attempts = [each["granted"] + each["refused"] for each in said]
    assert min(attempts) >= len(SIDES)
    assert len({entry.caller.split("/")[0] for entry in charges}) == 8


def check_refusals_were_right(charges: list[Entry], place: str) -> None:
    """One writer alone, given the same charges in the same order, is granted each of them."""
    with open_storage("memory:", [PART]) as storage:
        twin = Books.on(storage)
        twin.open("hospital", epsilon=1.0)
        twin.open("analysts", parent="hospital", epsilon=0.9)
        twin.open("wards", parent="hospital", epsilon=0.9, children=Children.PARALLEL)
        for name, epsilon in SIDES.items():
            parent = "analysts" if name in ("ada", "grace") else "wards"
            twin.open(name, parent=parent, epsilon=epsilon)
        by_text = {
            f'{{"kind":"gaussian","noise_multiplier":{e.noise_multiplier}}}': e for e in EVENTS
        }
        for entry in charges:
            twin.charge(entry.account, by_text[entry.event])
        with open_storage(place, [PART]) as stored:
            for name in ("hospital", "analysts", "wards", *SIDES):
                assert Books.on(stored).spent(name) == twin.spent(name)


def test_a_writer_alone_gets_exactly_what_the_filter_allows(place: str) -> None:
    with open_storage(place, [PART]) as storage:
        books = Books.on(storage)
        books.open()
        most = ZeroConcentratedFilter(1.0, 1e-5).how_many(EVENT)
        for _ in range(most):
            books.charge(event=EVENT)
        with pytest.raises(BudgetExceeded):
            books.charge(event=EVENT)


# --- disks and databases -------------------------------------------------------------------------


def tried(storage: Storage) -> None:
    ledger = Ledger()
    storage.submit(lambda t: ledger.charge(t, charge()))


def test_a_locked_database_is_said_to_be_busy_and_nothing_is_charged(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with storage_on(SqliteSession(path, patience=0.2), [PART]) as storage:
        Books.on(storage).open()
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageBusy):
            tried(storage)
        other.execute("ROLLBACK")
        other.close()
        tried(storage)
        assert len(storage.submit(lambda t: t.scan(ENTRIES, "clinic"))) == 2


def test_a_full_disk_charges_nothing_and_recovers(tmp_path: Path) -> None:
    session = SqliteSession(tmp_path / "ledger.db")
    with storage_on(session, [PART]) as storage:
        books = Books.on(storage)
        books.open("clinic", epsilon=100.0)
        pages = int(str(session._ask("PRAGMA page_count")[0][0]))
        session._ask(f"PRAGMA max_page_count = {pages}")

        def charge_on() -> None:
            while True:
                books.charge()

        with pytest.raises(StorageFull):
            charge_on()
        done = len(storage.submit(lambda t: t.scan(ENTRIES, "clinic")))
        assert books.problems() == []
        session._ask("PRAGMA max_page_count = 1000000")
        books.charge()
        assert len(storage.submit(lambda t: t.scan(ENTRIES, "clinic"))) == done + 1
        assert books.problems() == []


def test_a_disk_that_stops_taking_bytes_never_leaves_half_a_charge(tmp_path: Path) -> None:
    """The limit on file size makes write() fail, at a different byte each time."""
    path = tmp_path / "ledger.db"

    def charge_until(limit: int) -> Callable[[int], None]:
        def work(pipe: int) -> None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            storage = open_storage(path, [PART])
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            try:
                while True:
                    tried(storage)
                    os.write(pipe, b"charged\n")
            except StorageFault:
                os.write(pipe, b"fault\n")

        return work

    with open_storage(path, [PART]) as storage:
        Books.on(storage).open("clinic", epsilon=1000.0)
    heard = faults = 0
    for limit in range(90_000, 160_000, 7_001):
        with child(charge_until(limit)) as (_, pipe):
            said = lines(pipe)
        heard += said.count("charged")
        faults += said.count("fault")
        with open_storage(path, [PART]) as storage:
            assert Books.on(storage).problems() == []
            kept = len(storage.submit(lambda t: t.scan(ENTRIES, "clinic"))) - 1
        assert heard <= kept <= heard + faults
    assert faults == 10
    assert heard > 0


def test_a_read_only_database(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    session = SqliteSession(path)
    with storage_on(session, [PART]) as storage:
        Books.on(storage).open()
        session._ask("PRAGMA query_only = 1")
        with pytest.raises(StorageReadOnly):
            tried(storage)
        session._ask("PRAGMA query_only = 0")
        assert not any(Books.on(storage).spent("clinic"))


def test_a_foreign_database_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "theirs.db"
    theirs = sqlite3.connect(path)
    theirs.execute("CREATE TABLE ledger_accounts (x)")
    theirs.commit()
    theirs.close()
    before = path.read_bytes()
    with pytest.raises(ForeignDatabase):
        open_storage(path, [PART])
    assert path.read_bytes() == before


@pytest.mark.real
def test_a_lost_connection_charges_nothing_twice(postgres_url: str) -> None:
    import psycopg

    with open_storage(postgres_url, [PART]) as storage:
        books = Books.on(storage)
        books.open()
        books.charge()
        with psycopg.connect(postgres_url, autocommit=True) as other:
            other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE pid <> pg_backend_pid() AND datname = current_database()"
            )
        with pytest.raises(StorageFault):
            books.charge(event=CHEAP)
        books.charge(event=CHEAP)
        assert len(storage.submit(lambda t: t.scan(ENTRIES, "clinic"))) == 3
        assert books.problems() == []


def test_a_storage_without_a_ledger_in_it_is_a_fault(tmp_path: Path) -> None:
    house = House.create(str(tmp_path / "a.db"), tmp_path)
    assert [part.name for part in PARTS] == ["ledger", "audit log", "rules"]
    with open_storage(tmp_path / "b.db", []) as storage, pytest.raises(StorageFault):
        storage.submit(lambda t: Ledger().open(t, opening(), caller="x"))
    assert house.storage.submit(lambda t: check_journal(t, [])) == []
