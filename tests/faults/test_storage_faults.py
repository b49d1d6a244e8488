"""Kill -9, two processes, locked, read-only and full disks, foreign files, lost connections."""

from __future__ import annotations

import os
import random
import resource
import select
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from tests.faults.forking import child, kill, lines
from voile.core.errors import (
    ForeignDatabase,
    InvalidInput,
    OutcomeUnknown,
    StorageBusy,
    StorageFault,
    StorageFull,
    StorageReadOnly,
)
from voile.records.storage import (
    Part,
    Reader,
    Storage,
    Table,
    Transaction,
    open_storage,
    storage_on,
)
from voile.records.storage.postgres import PostgresSession
from voile.records.storage.sqlite import SqliteSession


@dataclass(frozen=True)
class Entry:
    number: int
    payload: bytes


@dataclass(frozen=True)
class Sum:
    name: str
    value: int


@dataclass(frozen=True)
class Figure:
    name: str
    value: float


FIGURES = Table("figures", Figure, key=("name",))
FIGURES_PART = Part("figures", (FIGURES,))
ENTRIES = Table("entries", Entry, key=("number",))
SUMS = Table("sums", Sum, key=("name",))
PART = Part("accounts", (ENTRIES, SUMS))

PLACES = ["sqlite", pytest.param("postgres", marks=pytest.mark.real)]


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "test.db")
    url: str = request.getfixturevalue("postgres_url")
    return url


def append(payload: bytes = b"x" * 200) -> Callable[[Transaction], int]:
    """Two tables that must always tell the same story: entries, and how many there are."""

    def command(t: Transaction) -> int:
        total = t.get(SUMS, "entries")
        if total is None:
            total = Sum("entries", 0)
            t.insert(SUMS, total)
        t.insert(ENTRIES, Entry(total.value, payload))
        t.replace(SUMS, Sum("entries", total.value + 1))
        return total.value

    return command


def check_consistent(storage: Storage) -> int:
    def look(t: Transaction) -> tuple[list[Entry], Sum | None]:
        return t.scan(ENTRIES), t.get(SUMS, "entries")

    entries, total = storage.submit(look)
    assert [entry.number for entry in entries] == list(range(len(entries)))
    assert (total.value if total else 0) == len(entries)
    return len(entries)


def append_for_ever(place: str) -> Callable[[int], None]:
    def work(pipe: int) -> None:
        storage = open_storage(place, [PART])
        while True:
            os.write(pipe, b"%d\n" % storage.submit(append()))

    return work


def append_times(place: str, times: int) -> Callable[[int], None]:
    def work(pipe: int) -> None:
        with open_storage(place, [PART]) as storage:
            for _ in range(times):
                os.write(pipe, b"%d\n" % storage.submit(append()))

    return work


def test_kill_at_random_points_loses_nothing_that_was_answered(place: str) -> None:
    rounds = 60 if place.startswith("/") else 20
    chance = random.Random(7)
    open_storage(place, [PART]).close()
    answered = 0
    for _ in range(rounds):
        with child(append_for_ever(place)) as (process, pipe):
            select.select([pipe], [], [], 10)  # it is at work
            time.sleep(chance.uniform(0, 0.01))
            kill(process)
            heard = lines(pipe)
        answered = max([answered, *(int(number) + 1 for number in heard)])
        with open_storage(place, [PART]) as storage:
            # At most the command under way was kept without an answer.
            assert answered <= check_consistent(storage) <= answered + 1
            answered = check_consistent(storage)
    assert answered > rounds


def test_two_processes_at_once_lose_no_entry(place: str) -> None:
    open_storage(place, [PART]).close()
    with child(append_times(place, 50)) as (_, one), child(append_times(place, 50)) as (_, two):
        said = [int(number) for number in lines(one) + lines(two)]
    assert sorted(said) == list(range(100))
    with open_storage(place, [PART]) as storage:
        assert check_consistent(storage) == 100


def create_at_once(place: str) -> None:
    create = append_times(place, 1)
    with (
        child(create) as (_, a),
        child(create) as (_, b),
        child(create) as (_, c),
        child(create) as (_, d),
    ):
        said = [line for pipe in (a, b, c, d) for line in lines(pipe)]
    assert sorted(said) == ["0", "1", "2", "3"]


def test_many_processes_may_create_the_database_at_once(place: str) -> None:
    create_at_once(place)


def test_many_processes_may_create_a_file_at_once_again_and_again(tmp_path: Path) -> None:
    """One look at an unfinished file in twenty used to mistake it for another program's."""
    for number in range(30):
        create_at_once(str(tmp_path / f"{number}.db"))


def test_a_storage_is_not_carried_over_a_fork(place: str) -> None:
    with open_storage(place, [PART]) as storage:

        def use(pipe: int) -> None:
            with pytest.raises(StorageFault, match="fork"):
                storage.submit(append())
            os.write(pipe, b"refused\n")

        with child(use) as (_, pipe):
            assert lines(pipe) == ["refused"]
        assert storage.submit(append()) == 0


def test_a_file_that_was_open_before_a_fork_is_not_opened_again_in_the_child(
    tmp_path: Path,
) -> None:
    """SQLite would rely on locks that only the parent holds."""
    path = tmp_path / "test.db"

    def use(pipe: int) -> None:
        with pytest.raises(StorageFault, match="was open when this process was forked"):
            open_storage(path, [PART])
        os.write(pipe, b"refused\n")

    with open_storage(path, [PART]) as storage:
        with child(use) as (_, pipe):
            assert lines(pipe) == ["refused"]
        assert storage.submit(append()) == 0
    with child(append_times(str(path), 1)) as (_, pipe):
        assert lines(pipe) == ["1"]


def test_a_file_that_was_closed_while_it_was_read_is_not_opened_in_a_child(tmp_path: Path) -> None:
    """The reader's connection is open until it is given back."""
    path = tmp_path / "test.db"

    def use(pipe: int) -> None:
        with pytest.raises(StorageFault, match="was open when this process was forked"):
            open_storage(path, [PART])
        os.write(pipe, b"refused\n")

    storage = open_storage(path, [PART])

    def close_and_fork(_reader: Reader) -> None:
        storage.close()
        with child(use) as (_, pipe):
            assert lines(pipe) == ["refused"]

    storage.read_snapshot(close_and_fork)
    with child(append_times(str(path), 1)) as (_, pipe):
        assert lines(pipe) == ["0"]


FORKED = """
import os, sys
from tests.faults.test_storage_faults import PART, append, open_storage

path = sys.argv[1]
waits, goes = os.pipe()
with open_storage(path, [PART]) as storage:
    storage.submit(append())
    storage.read_snapshot(lambda _: None)  # its connection is kept
    child = os.fork()
    if child == 0:
        os.close(goes)
        os.read(waits, 1)  # until its parent closes the other end
        sys.exit()
os.spawnl(os.P_WAIT, sys.executable, sys.executable, "-c", sys.argv[2], path)
os.close(goes)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
KILLED = """
import os, sys
from tests.faults.test_storage_faults import PART, append, open_storage

storage = open_storage(sys.argv[1], [PART])
for _ in range(6):
    storage.submit(append())
os.kill(os.getpid(), 9)
"""


def test_a_forked_child_that_ends_leaves_the_write_ahead_log_alone(tmp_path: Path) -> None:
    """SQLite would take the child's copy of a connection for the last one and remove the log."""
    path = tmp_path / "test.db"
    command = [sys.executable, "-c", FORKED, str(path), KILLED]
    subprocess.run(command, check=True, timeout=60)
    with open_storage(path, [PART]) as storage:
        assert check_consistent(storage) == 7


class TestSqlite:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return tmp_path / "test.db"

    def impatient(self, path: Path) -> Storage:
        return storage_on(SqliteSession(path, patience=0.2), [PART])

    def test_a_snapshot_is_read_after_a_change_of_directory(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        elsewhere = path.parent / "elsewhere"
        elsewhere.mkdir()
        monkeypatch.chdir(path.parent)
        with open_storage(path.name, [PART]) as storage:
            storage.submit(append())
            monkeypatch.chdir(elsewhere)
            assert len(storage.read_snapshot(lambda t: t.scan(ENTRIES))) == 1
        assert list(elsewhere.iterdir()) == []

    def test_a_file_locked_by_another_program_is_busy_then_free(self, path: Path) -> None:
        with self.impatient(path) as storage:
            other = sqlite3.connect(path, isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StorageBusy):
                storage.submit(append())
            other.execute("ROLLBACK")
            other.close()
            assert storage.submit(append()) == 0

    def test_a_stopped_process_makes_others_busy_and_its_death_frees_them(self, path: Path) -> None:
        go_on, go = os.pipe()

        def stop_inside(pipe: int) -> None:
            def command(_: Transaction) -> None:
                os.write(pipe, b"inside\n")
                os.kill(os.getpid(), signal.SIGSTOP)

            os.read(go_on, 1)
            open_storage(path, [PART]).submit(command)

        with child(stop_inside) as (process, pipe), self.impatient(path) as storage:
            os.write(go, b"!")
            assert select.select([pipe], [], [], 10)[0]
            with pytest.raises(StorageBusy, match="stopped or hung"):
                storage.submit(append())
            with pytest.raises(StorageBusy):
                storage.submit(append())
            kill(process)
            assert storage.submit(append()) == 0
            assert storage.submit(append()) == 1

    def test_a_read_only_folder_is_said_to_be_one(self, path: Path) -> None:
        path.parent.chmod(0o555)

        def try_to_open(pipe: int) -> None:
            if os.getuid() == 0:  # the superuser may write everywhere
                os.setuid(65534)
            try:
                open_storage(path, [PART])
            except StorageFault as fault:
                os.write(pipe, f"{type(fault).__name__}\n".encode())

        path.parent.parent.chmod(0o755)
        with child(try_to_open) as (_, pipe):
            assert lines(pipe) == [StorageReadOnly.__name__]
        path.parent.chmod(0o755)

    def test_a_missing_folder_is_a_clear_fault(self, tmp_path: Path) -> None:
        with pytest.raises(StorageFault, match="No such file"):
            open_storage(tmp_path / "nowhere" / "test.db", [PART])

    def test_a_full_disk_fails_the_command_and_keeps_the_rest(self, path: Path) -> None:
        session = SqliteSession(path)
        with storage_on(session, [PART]) as storage:
            storage.submit(append())
            pages = int(str(session._ask("PRAGMA page_count")[0][0]))
            session._ask(f"PRAGMA max_page_count = {pages}")
            with pytest.raises(StorageFull):
                storage.submit(append(b"x" * 100_000))
            assert check_consistent(storage) == 1
            session._ask("PRAGMA max_page_count = 1000000")
            storage.submit(append(b"x" * 100_000))
            assert check_consistent(storage) == 2

    def test_a_disk_that_stops_taking_bytes_never_leaves_half_a_command(self, path: Path) -> None:
        """The limit on file size makes write() fail, at a different byte each time."""

        def fill(limit: int) -> Callable[[int], None]:
            def work(pipe: int) -> None:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                storage = open_storage(path, [PART])
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
                try:
                    while True:
                        os.write(pipe, b"%d\n" % storage.submit(append(b"x" * 3000)))
                except StorageFault:
                    os.write(pipe, b"fault\n")

            return work

        open_storage(path, [PART]).close()
        for limit in range(60_000, 120_000, 7_001):
            with child(fill(limit)) as (_, pipe):
                *numbers, last = lines(pipe)
            assert last == "fault"
            with open_storage(path, [PART]) as storage:
                assert check_consistent(storage) >= max([0, *(int(n) + 1 for n in numbers)])

    def test_another_programs_database_is_refused_and_untouched(self, path: Path) -> None:
        other = sqlite3.connect(path)
        other.execute("CREATE TABLE mine (x)")
        other.commit()
        other.close()
        before = path.read_bytes()
        with pytest.raises(ForeignDatabase):
            open_storage(path, [PART])
        assert path.read_bytes() == before

    def test_a_file_that_is_no_database_is_refused_and_untouched(self, path: Path) -> None:
        path.write_text("name,age\n" * 200)
        with pytest.raises(ForeignDatabase):
            open_storage(path, [PART])
        assert path.read_text() == "name,age\n" * 200

    def test_a_truncated_file_is_a_fault_not_an_answer(self, path: Path) -> None:
        with open_storage(path, [PART]) as storage:
            for _ in range(200):
                storage.submit(append())
        content = path.read_bytes()
        path.write_bytes(content[: len(content) // 2])
        with pytest.raises(StorageFault), open_storage(path, [PART]) as storage:
            check_consistent(storage)

    def test_the_file_is_private(self, path: Path) -> None:
        open_storage(path, [PART]).close()
        assert {file.stat().st_mode & 0o077 for file in path.parent.iterdir()} == {0}

    @pytest.mark.parametrize("place", ["", "mysql://host/db"])
    def test_a_place_that_is_none_is_refused(self, place: str) -> None:
        with pytest.raises(InvalidInput, match="expected a path"):
            open_storage(place, [PART])


@pytest.mark.real
class TestPostgres:
    def admin(self, url: str) -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(url, autocommit=True)

    def test_another_programs_schema_is_refused_and_untouched(self, postgres_url: str) -> None:
        with self.admin(postgres_url) as admin:
            admin.execute("CREATE TABLE theirs (x integer)")
            with pytest.raises(ForeignDatabase):
                open_storage(postgres_url, [PART])
            tables = "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()"
            assert admin.execute(tables).fetchall() == [(1,)]

    @pytest.mark.parametrize(
        "setting", ["extra_float_digits = -15", "client_encoding = 'SQL_ASCII'"]
    )
    def test_no_default_of_the_server_changes_what_was_stored(
        self, postgres_url: str, setting: str
    ) -> None:
        with self.admin(postgres_url) as admin:
            (role,) = admin.execute("SELECT current_user").fetchone() or ("",)
            admin.execute(f'ALTER ROLE "{role}" SET {setting}')
            try:
                with open_storage(postgres_url, [FIGURES_PART]) as storage:
                    storage.submit(lambda t: t.insert(FIGURES, Figure("für 3 €", 2.7 + 1e-15)))
                    assert storage.submit(lambda t: t.scan(FIGURES)) == [
                        Figure("für 3 €", 2.7 + 1e-15)
                    ]
                    assert storage.read_snapshot(lambda t: t.scan(FIGURES))[0].value == 2.7 + 1e-15
            finally:
                admin.execute(f'ALTER ROLE "{role}" RESET ALL')

    def test_a_lost_connection_fails_one_command_and_the_next_one_works(
        self, postgres_url: str
    ) -> None:
        with open_storage(postgres_url, [PART]) as storage, self.admin(postgres_url) as admin:
            storage.submit(append())

            def cut_off(t: Transaction) -> None:
                append()(t)
                admin.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE pid <> pg_backend_pid() AND query LIKE '%sums%'"
                )
                append()(t)

            with pytest.raises(StorageFault) as caught:
                storage.submit(cut_off)
            assert not isinstance(caught.value, OutcomeUnknown)  # it was lost before the commit
            assert storage.submit(append()) == 1
            assert check_consistent(storage) == 2

    def test_a_kept_reader_that_was_cut_off_is_replaced(self, postgres_url: str) -> None:
        with open_storage(postgres_url, [PART]) as storage, self.admin(postgres_url) as admin:
            storage.submit(append())
            for _ in range(2):
                assert len(storage.read_snapshot(lambda t: t.scan(ENTRIES))) == 1
                admin.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE pid <> pg_backend_pid() AND datname = current_database()"
                )

    def test_a_connection_lost_while_committing_is_called_unknown(self, postgres_url: str) -> None:
        with open_storage(postgres_url, [PART]) as storage, self.admin(postgres_url) as admin:
            admin.execute(
                "CREATE FUNCTION leave() RETURNS trigger LANGUAGE plpgsql AS "
                "$$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$"
            )
            admin.execute(
                "CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON entries "
                "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION leave()"
            )
            with pytest.raises(OutcomeUnknown, match="look before you repeat"):
                storage.submit(append())
            admin.execute("DROP TRIGGER at_commit ON entries")
            assert storage.submit(append()) == 0

    def test_a_writer_that_never_ends_makes_others_busy(self, postgres_url: str) -> None:
        impatient = storage_on(PostgresSession(postgres_url, patience=0.2), [PART])
        other = PostgresSession(postgres_url)
        other.begin()
        with impatient as storage:
            with pytest.raises(StorageBusy):
                storage.submit(append())
            other.rollback()
            other.close()
            assert storage.submit(append()) == 0

    @pytest.mark.parametrize("level", ["repeatable%20read", "serializable"])
    def test_nobody_starves_where_the_server_asks_for_a_stricter_isolation(
        self, postgres_url: str, level: str
    ) -> None:
        place = (
            f"{postgres_url}%20-cdefault_transaction_isolation%3D{level.replace('%20', '%5C%20')}"
        )
        open_storage(place, [PART]).close()
        with ExitStack() as stack:
            pipes = [stack.enter_context(child(append_times(place, 25)))[1] for _ in range(4)]
            said = [int(number) for pipe in pipes for number in lines(pipe)]
        assert sorted(said) == list(range(100))

    def test_a_writer_that_stopped_in_the_middle_is_cut_off(self, postgres_url: str) -> None:
        stopped = PostgresSession(postgres_url, patience=0.2)
        with open_storage(postgres_url, [PART]) as storage:
            stopped.begin()
            assert storage.submit(append()) == 0  # it waited for the server to end the other one
            with pytest.raises(StorageFault):
                stopped.commit()
            stopped.begin()  # and that one may come again
            stopped.rollback()
        stopped.close()

    def test_reading_a_snapshot_has_no_time_limit(self, postgres_url: str) -> None:
        with storage_on(PostgresSession(postgres_url, patience=0.1), [PART]) as storage:
            storage.submit(append())

            def slow(t: Reader) -> int:
                time.sleep(0.5)  # a writer would have been cut off
                return len(t.scan(ENTRIES))

            assert storage.read_snapshot(slow) == 1

    def test_a_statement_that_never_ends_is_given_up(self, postgres_url: str) -> None:
        session = PostgresSession(postgres_url, patience=0.1)
        with storage_on(session, [PART]) as storage:
            with pytest.raises(StorageBusy):
                storage.submit(lambda _: session._fetch("SELECT pg_sleep(20)", ()))
            assert storage.submit(append()) == 0

    def test_a_command_that_goes_on_after_an_error_is_not_told_that_it_was_kept(
        self, postgres_url: str
    ) -> None:
        session = PostgresSession(postgres_url)
        with storage_on(session, [PART]) as storage:

            def stubborn(t: Transaction) -> int:
                number = append()(t)
                with suppress(StorageFault):
                    session._fetch("SELECT 1 / 0", ())
                return number

            with pytest.raises(StorageFault, match="nothing was kept"):
                storage.submit(stubborn)
            assert check_consistent(storage) == 0

    def test_a_server_that_is_not_there_is_a_clear_fault(self, tmp_path: Path) -> None:
        with pytest.raises(StorageFault, match="PostgreSQL"):
            open_storage(f"postgresql://nobody@/none?host={tmp_path}", [PART])
