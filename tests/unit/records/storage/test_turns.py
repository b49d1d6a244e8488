"""Turns between processes; two on one path in one process stand for two processes."""

from __future__ import annotations

import fcntl
import os
import struct
import threading
import time
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.faults.forking import child, lines

from voile.core.errors import StorageBusy, StorageFault
from voile.records.storage import Part, Table, storage_on, turns
from voile.records.storage.sqlite import SqliteSession, private_file
from voile.records.storage.turns import Turns


class Name(NamedTuple):
    name: str


NAMES = Table("names", Name, key=("name",))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return private_file(tmp_path / "test.db")


def arrival(one: Turns) -> threading.Event:
    """Set once its turn has come, in a thread of its own."""
    arrived = threading.Event()

    def wait() -> None:
        one.wait()
        arrived.set()
        one.pause()

    threading.Thread(target=wait, daemon=True).start()
    return arrived


def queued(path: Path, one: Turns) -> threading.Event:
    """The same, returned when it is next in line."""
    arrived = arrival(one)
    with Path(f"{path}.turn").open("rb") as stream:
        while turns._taken(stream.fileno()):
            fcntl.flock(stream, fcntl.LOCK_UN)
            time.sleep(0.001)
    return arrived


def work(one: Turns) -> None:
    one.wait()
    one.pause()


def test_whoever_waits_behind_the_next_in_line_gives_up_after_a_while(path: Path) -> None:
    one, two = Turns(path, patience=10), Turns(path, patience=0.05)
    one.wait()  # next in line, and waiting for SQLite
    with pytest.raises(StorageBusy, match="stopped or hung"):
        two.wait()
    one.pause()
    one.close()


def test_whoever_gave_up_lets_others_pass(path: Path) -> None:
    one, two, three = (Turns(path, patience=patience) for patience in (10, 0.05, 10))
    one.wait()
    with pytest.raises(StorageBusy):
        two.wait()
    one.pause()
    assert arrival(three).wait(60)


def test_whoever_is_interrupted_in_the_queue_lets_others_pass(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two, three = (Turns(path, patience=10) for _ in range(3))
    one.wait()
    with monkeypatch.context() as patch:
        patch.setattr(turns._Visit, "wait", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            two.wait()
    two.pause()
    one.pause()
    assert arrival(three).wait(60)


def test_whoever_is_interrupted_as_the_next_in_line_lets_others_pass(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "TURN", 5.0)
    first, second, third = (SqliteSession(path, patience=10) for _ in range(3))
    first.begin()
    first.commit()
    first.begin()
    with monkeypatch.context() as patch:
        patch.setattr("voile.records.storage.turns.time.sleep", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            second.begin()
    first.commit()
    third.begin()
    third.commit()
    second.begin()
    second.commit()
    for session in (first, second, third):
        session.close()


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_the_next_in_line_comes_up_after_the_first_work(path: Path) -> None:
    one, two = Turns(path, patience=10), Turns(path, patience=10)
    one.wait()
    assert not turns._taken(two._queue)
    one.pause()
    assert turns._taken(two._queue)


def test_a_turn_goes_on_while_others_wait_and_then_ends(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "TURN", 0.5)
    monkeypatch.setattr(turns, "IDLE", 0.5)
    one, two = Turns(path, patience=10), Turns(path, patience=10)
    work(one)
    arrived, times = queued(path, two), 0
    while not arrived.is_set():
        time.sleep(0.001)  # time enough to be overtaken
        work(one)  # queues behind the other one when the turn is over
        times += 1
    assert times > 5


def test_who_is_at_work_is_left_alone_past_the_end_of_its_turn(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "TURN", 0.3)
    one, two = Turns(path, patience=10), Turns(path, patience=10)
    work(one)
    one.wait()
    arrived = queued(path, two)
    assert not arrived.wait(0.4)  # 0.3 s later the turn is over, but it works
    one.pause()
    assert arrived.wait(60)


def test_a_turn_ends_early_when_no_more_work_comes(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "TURN", 3600.0)
    one, two = Turns(path, patience=10), Turns(path, patience=10)
    work(one)
    one.wait()
    arrived = queued(path, two)
    one.pause()
    assert arrived.wait(60)
    assert arrival(one).wait(60)  # the turn that was cut short is over


def test_the_end_of_anothers_work_does_not_end_our_turn(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "TURN", 0.2)
    one, two, three = (Turns(path, patience=10) for _ in range(3))
    work(one)
    one.wait()
    work(two)  # the first works on and on; its turn is over
    two.wait()
    arrived = queued(path, three)
    one.pause()
    assert not arrived.wait(0.1)


@pytest.mark.parametrize("numbers", [(1e300, 0), (float("nan"), 0), (-1.0, 0), (1e300, 1e300)])
def test_the_notice_of_a_process_that_died_delays_nobody_for_long(
    path: Path, numbers: tuple[float, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "TURN", 0.5)
    one, two = Turns(path, patience=10), Turns(path, patience=10)
    work(one)
    one.wait()
    arrived = queued(path, two)
    with Path(f"{path}.turn").open("r+b") as stream:
        stream.seek(8)
        stream.write(struct.pack("=2d", *numbers))
    one.close()  # as the kernel does
    assert arrived.wait(60)


def test_what_another_wrote_while_we_waited_is_noticed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether others have written is asked once SQLite's lock is ours, not before."""
    monkeypatch.setattr(turns, "TURN", 0.2)
    one, two = SqliteSession(path), SqliteSession(path)
    for session in (one, two):
        storage_on(session, [Part("p", (NAMES,))])
    one.begin()
    one.memory["names"] = 1
    one.commit()
    two.begin()
    two.commit()
    two.begin()  # in its turn: the queue is free
    found: list[object] = []
    waiting = threading.Event()

    def wait() -> None:
        waiting.set()
        one.begin()
        found.append(dict(one.memory))
        one.rollback()

    thread = threading.Thread(target=wait)
    thread.start()
    waiting.wait(60)
    time.sleep(0.6)  # past the turns: it waits in BEGIN
    two.insert(NAMES, Name("n"))
    two.commit()
    thread.join(60)
    assert found == [{}]
    one.close()
    two.close()


def test_a_beginning_that_is_interrupted_leaves_nothing_open(path: Path) -> None:
    session, other = SqliteSession(path), SqliteSession(path, patience=1)
    storage_on(session, [Part("p", (NAMES,))])
    session.begin()
    session.memory["names"] = 1
    session.commit()
    connection = session._connection

    class Interrupted:
        """Ctrl-C right after BEGIN."""

        def execute(self, statement: str, _: object = ()) -> object:
            if statement.startswith("PRAGMA"):
                raise KeyboardInterrupt
            return connection.execute(statement)

        in_transaction = True

    session._connection = Interrupted()  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt) as caught:
        session.begin()
    assert caught.value.__cause__ is None
    session._connection = connection
    assert not connection.in_transaction
    assert session.memory == {}
    other.begin()
    other.commit()
    session.close()
    other.close()


def test_whoever_is_interrupted_as_its_lock_arrives_lets_others_pass(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two, three = (Turns(path, patience=10) for _ in range(3))
    one.wait()
    arrive = turns._Visit.wait

    def interrupt(visit: turns._Visit, seconds: float) -> None:
        one.pause()
        arrive(visit, seconds)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(turns._Visit, "wait", interrupt)
        with pytest.raises(KeyboardInterrupt):
            two.wait()
    two.pause()
    assert arrival(three).wait(60)


# --- the file of the queue -----------------------------------------------------------------------


def test_a_link_in_its_place_is_refused_and_what_it_points_to_is_left_alone(path: Path) -> None:
    precious = path.parent / "precious"
    precious.write_bytes(b"")
    Path(f"{path}.turn").symlink_to(precious)
    with pytest.raises(StorageFault, match="found a link"):
        SqliteSession(path)
    assert precious.read_bytes() == b""


def test_a_second_name_of_another_file_in_its_place_is_refused(path: Path) -> None:
    precious = path.parent / "precious"
    precious.write_bytes(b"x")
    Path(f"{path}.turn").hardlink_to(precious)
    with pytest.raises(StorageFault, match="remove it"):
        SqliteSession(path)
    assert precious.read_bytes() == b"x"


def test_what_is_no_file_in_its_place_is_refused(path: Path) -> None:
    os.mkfifo(f"{path}.turn")
    with pytest.raises(StorageFault, match="another kind of file"):
        SqliteSession(path)


@pytest.mark.skipif(os.getuid() != 0, reason="only the superuser can give a file away")
def test_a_strangers_file_in_its_place_is_refused(path: Path) -> None:
    turn = Path(f"{path}.turn")
    turn.touch()
    os.chown(turn, 65534, -1)
    with pytest.raises(StorageFault, match="somebody else's"):
        SqliteSession(path)
    os.chown(path, 65534, -1)  # the owner of the database may have it
    SqliteSession(path).close()


def test_cut_short_while_in_use_it_is_nobodys_turn(path: Path) -> None:
    """In a process of its own: a page that was mapped into memory would end it."""

    def work_on(pipe: int) -> None:
        sessions = [SqliteSession(path) for _ in range(2)]
        for length in (0, 5, 24, 4096):
            os.truncate(f"{path}.turn", length)
            for session in sessions * 2:
                session.begin()
                os.truncate(f"{path}.turn", length)
                session.commit()
        os.write(pipe, b"done\n")

    with child(work_on) as (_, pipe):
        assert lines(pipe) == ["done"]
