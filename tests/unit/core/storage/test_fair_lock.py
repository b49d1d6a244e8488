"""The lock between processes; two locks on one path in one process stand for two processes."""

from __future__ import annotations

import fcntl
import mmap
import threading
import time
from pathlib import Path

import pytest

from voile.core.errors import StorageBusy
from voile.core.storage import fair_lock
from voile.core.storage.fair_lock import FairLock


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "test.db"


def arrival(lock: FairLock) -> threading.Event:
    """Set once the lock was acquired, and let go of again, in a thread of its own."""
    arrived = threading.Event()

    def wait() -> None:
        lock.acquire()
        arrived.set()
        lock.release()

    threading.Thread(target=wait, daemon=True).start()
    return arrived


def queued(path: Path, lock: FairLock) -> threading.Event:
    """The same, returned when the lock is next in line."""
    arrived = arrival(lock)
    with Path(f"{path}.turn").open("rb") as stream:
        while fair_lock._taken(stream.fileno()):
            fcntl.flock(stream, fcntl.LOCK_UN)
            time.sleep(0.001)
    return arrived


def test_one_at_a_time(path: Path) -> None:
    one, two = FairLock(path, patience=10), FairLock(path, patience=0.05)
    one.acquire()
    with pytest.raises(StorageBusy):
        two.acquire()
    one.release()
    one.close()


def test_a_turn_goes_on_while_others_wait_and_then_ends(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fair_lock, "TURN", 0.5)
    monkeypatch.setattr(fair_lock, "IDLE", 0.5)
    one, two = FairLock(path, patience=10), FairLock(path, patience=10)
    one.acquire()
    arrived, times = queued(path, two), 0
    while not arrived.is_set():
        one.release()
        time.sleep(0.001)  # time enough to be overtaken
        one.acquire()  # queues behind the other one when the turn is over
        times += 1
    assert times > 5


def test_a_turn_ends_early_when_no_more_work_comes(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fair_lock, "TURN", 3600.0)
    one, two = FairLock(path, patience=10), FairLock(path, patience=10)
    one.acquire()
    arrived = queued(path, two)
    one.release()
    assert arrived.wait(5)
    assert arrival(one).wait(5)  # the turn that was cut short is over


@pytest.mark.parametrize("ends", [1e300, float("nan"), -1.0])
def test_the_notice_of_a_process_that_died_delays_nobody_for_long(
    path: Path, ends: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fair_lock, "TURN", 0.5)
    one, two = FairLock(path, patience=10), FairLock(path, patience=10)
    one.acquire()
    arrived = queued(path, two)
    with Path(f"{path}.turn").open("r+b") as stream:
        numbers = memoryview(mmap.mmap(stream.fileno(), mmap.PAGESIZE)).cast("d")
        numbers[1] = ends
    one.close()  # as the kernel does
    assert arrived.wait(5)
