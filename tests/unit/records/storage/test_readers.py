"""Connections that read are kept, few of them, and none that something is wrong with."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from voile.core.errors import StorageFault
from voile.records.storage import Storage, open_storage
from voile.records.storage.session import Reader
from voile.records.storage.sql import MOST_IDLE, Readers


class Connection:
    """Counts what is done with it."""

    def __init__(self) -> None:
        self.memory: dict[str, Any] = {}
        self.started = self.stopped = self.closed = 0
        self.broken = False

    def start(self) -> None:
        if self.broken:
            raise StorageFault("the connection was lost")
        self.started += 1

    def stop(self) -> None:
        self.stopped += 1

    def close(self) -> None:
        self.closed += 1

    def get(self, *_: object) -> None: ...

    def get_all(self, *_: object) -> list[Any]:
        return []

    def last_all(self, *_: object) -> list[Any]:
        return []

    def scan(self, *_: object, **__: object) -> list[Any]:
        return []


class Connecting:
    def __init__(self) -> None:
        self.made: list[Connection] = []

    def __call__(self) -> Connection:
        self.made.append(Connection())
        return self.made[-1]


@pytest.fixture
def connect() -> Connecting:
    return Connecting()


@pytest.fixture
def readers(connect: Connecting) -> Readers[Connection]:
    return Readers(connect)


def test_one_is_used_again(readers: Readers[Connection], connect: Connecting) -> None:
    for _ in range(3):
        with readers.one():
            pass
    (only,) = connect.made
    assert (only.started, only.stopped, only.closed) == (3, 3, 0)


def test_two_at_once_are_two(readers: Readers[Connection], connect: Connecting) -> None:
    with readers.one() as first, readers.one() as second:
        assert first is not second
    assert len(connect.made) == 2


def test_few_are_kept(readers: Readers[Connection], connect: Connecting) -> None:
    many = [readers.one() for _ in range(MOST_IDLE + 3)]
    for each in many:
        each.__enter__()
    for each in many:
        each.__exit__(None, None, None)
    assert sum(each.closed for each in connect.made) == 3


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_one_that_something_went_wrong_with_is_closed(
    readers: Readers[Connection], connect: Connecting, error: type[BaseException]
) -> None:
    def read() -> None:
        with readers.one():
            raise error

    with pytest.raises(error):
        read()
    assert connect.made[0].closed == 1
    with readers.one():
        pass
    assert len(connect.made) == 2


def test_a_lost_connection_is_replaced(readers: Readers[Connection], connect: Connecting) -> None:
    with readers.one(), readers.one():
        pass
    for each in connect.made:
        each.broken = True
    with readers.one() as reader:
        assert reader is connect.made[2]
    assert [each.closed for each in connect.made] == [1, 1, 0]


def test_one_that_cannot_be_started_is_closed(connect: Connecting) -> None:
    def broken() -> Connection:
        made = connect()
        made.broken = True
        return made

    with pytest.raises(StorageFault, match="lost"), Readers(broken).one():
        pass
    assert connect.made[0].closed == 1


def test_closing_closes_one_that_is_used_when_it_is_given_back(
    readers: Readers[Connection], connect: Connecting
) -> None:
    with readers.one():
        with readers.one():
            pass
        readers.close()
        assert [each.closed for each in connect.made] == [0, 1]
    assert [each.closed for each in connect.made] == [1, 1]


# --- on a file -----------------------------------------------------------------------------------


def count_connections(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    made = list[Any]()
    connect = sqlite3.connect

    def counted(*given: Any, **named: Any) -> Any:
        made.append(connect(*given, **named))
        return made[-1]

    monkeypatch.setattr(sqlite3, "connect", counted)
    return lambda: len(made)


def test_threads_that_read_one_after_the_other_share_a_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = count_connections(monkeypatch)
    with open_storage(tmp_path / "test.db", []) as storage:
        for _ in range(5):
            thread = threading.Thread(target=lambda: storage.read_snapshot(nothing))
            thread.start()
            thread.join()
        assert count() == 2


def test_nothing_is_remembered_from_one_snapshot_to_the_next(tmp_path: Path) -> None:
    with open_storage(tmp_path / "test.db", []) as storage:
        storage.read_snapshot(lambda t: t.memory.update(names="old"))
        assert storage.read_snapshot(lambda t: dict(t.memory)) == {}


def test_a_kept_reader_of_a_deleted_file_is_refused(tmp_path: Path) -> None:
    storage: Storage = open_storage(tmp_path / "test.db", [])
    storage.read_snapshot(nothing)
    (tmp_path / "test.db").unlink()
    with pytest.raises(StorageFault, match="deleted or replaced"):
        storage.read_snapshot(nothing)
    storage.close()


def nothing(_: Reader) -> None: ...
