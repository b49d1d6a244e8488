"""A lock between processes that serves them in turn.

SQLite makes a second writer sleep and try again, and whoever just wrote is always first to come
back: with eight processes the slowest gets a thousandth of its share. Here the kernel queues the
waiting processes, and whoever has had its turn goes to the end of the queue.

The kernel lets go of the locks when a process dies, however it dies.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import threading
import time
import weakref
from pathlib import Path
from typing import Final

from voile.core.errors import StorageBusy

TURN: Final = 0.005
"""Seconds a process may go on working while others wait. Waking another process takes longer than
a commit, so changing over after every commit would cost most of the throughput."""
IDLE: Final = 0.0005
"""Seconds without new work after which a turn ends early."""


class FairLock:
    """Two advisory file locks: *turn* is held while waiting for *work*.

    A process whose turn is over has to queue for *turn*, which the next in line holds until it is
    working: nobody is overtaken by more than those already queued. During its turn a process lets
    go of *work* after every commit and takes it again for the next; the next in line leaves it
    alone until the turn is over or no more work came. It knows from a notice in shared memory.

    Only *work* keeps others out. A notice that is wrong, or of a process that died, makes somebody
    wait or be overtaken for the length of a turn, nothing else.
    """

    def __init__(self, path: Path, *, patience: float) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._turn = os.open(f"{path}.turn", flags, 0o600)
        self._work = os.open(f"{path}.work", flags, 0o600)
        try:
            self._notice = _Notice(self._turn)
        except BaseException:
            self._close_descriptors()
            raise
        self._patience = patience
        self._abandoned = False
        _OPEN.add(self)

    def acquire(self) -> None:
        """Wait for our turn, but not for ever: `StorageBusy` after `patience` seconds."""
        now = time.monotonic()
        if self._notice.is_our_turn(now) and _taken(self._work):
            self._notice.working()
            return
        if not self._try():
            self._wait()
        self._notice.begin_turn(time.monotonic() + TURN)

    def release(self) -> None:
        """Let go; for the rest of the turn only we take it again, unless no more work comes."""
        self._notice.paused(time.monotonic())
        fcntl.flock(self._work, fcntl.LOCK_UN)

    def close(self) -> None:
        _OPEN.discard(self)
        if not self._abandoned:  # else a thread still waits in the kernel on these descriptors
            self._close_descriptors()

    def _try(self) -> bool:
        if not _taken(self._turn):
            return False
        free = _taken(self._work)
        fcntl.flock(self._turn, fcntl.LOCK_UN)
        return free

    def _wait(self) -> None:
        # A blocking flock knows no time limit, so a thread of its own waits in it.
        visit = _Visit()
        threading.Thread(target=self._queue, args=(visit,), daemon=True).start()
        if not visit.wait(self._patience):
            self._abandoned = True
            raise StorageBusy(
                f"another process has been writing for more than {self._patience:g} seconds; "
                "it may be stopped or hung"
            )

    def _queue(self, visit: _Visit) -> None:
        fcntl.flock(self._turn, fcntl.LOCK_EX)
        latest = time.monotonic() + TURN  # a notice may be older than the machine's last start
        while (now := time.monotonic()) < latest and (rest := self._notice.rest_of_turn(now)) > 0:
            time.sleep(rest)
        fcntl.flock(self._work, fcntl.LOCK_EX)
        fcntl.flock(self._turn, fcntl.LOCK_UN)
        if not visit.arrive():
            fcntl.flock(self._work, fcntl.LOCK_UN)

    def _close_descriptors(self) -> None:
        os.close(self._turn)
        os.close(self._work)


class _Notice:
    """What all processes can read: whose turn it is, when it ends, and since when it pauses.

    Three numbers at the head of the *turn* file; times are those of the monotonic clock, which all
    processes of a machine share.
    """

    def __init__(self, descriptor: int) -> None:
        if os.fstat(descriptor).st_size < mmap.PAGESIZE:
            os.pwrite(descriptor, bytes(mmap.PAGESIZE), 0)  # a page the disk has room for
        self._numbers = memoryview(mmap.mmap(descriptor, mmap.PAGESIZE)).cast("d")
        self._me = float(int.from_bytes(os.urandom(6), "big"))
        self._turn_ends = 0.0

    def is_our_turn(self, now: float) -> bool:
        return now < self._turn_ends and self._numbers[0] == self._me

    def begin_turn(self, ends: float) -> None:
        self._turn_ends = ends
        self._numbers[0], self._numbers[1], self._numbers[2] = self._me, ends, 0.0

    def working(self) -> None:
        self._numbers[2] = 0.0

    def paused(self, now: float) -> None:
        self._numbers[2] = now

    def rest_of_turn(self, now: float) -> float:
        """Seconds to leave whoever works alone; 0 if its turn is over, or no more work comes."""
        ends, pauses_since = self._numbers[1], self._numbers[2]
        rest = min(ends - now, IDLE)
        if pauses_since:
            rest = min(rest, pauses_since + IDLE - now)
        return rest


class _Visit:
    """One wait for the lock: either the waiter arrives first or the one who sent it gives up."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._arrived = threading.Event()
        self._given_up = False

    def arrive(self) -> bool:
        """Report the lock; false if nobody wants it any more."""
        with self._guard:
            self._arrived.set()
            return not self._given_up

    def wait(self, seconds: float) -> bool:
        self._arrived.wait(seconds)
        with self._guard:
            self._given_up = not self._arrived.is_set()
            return not self._given_up


def _taken(descriptor: int) -> bool:
    """Take a lock if that is possible at once."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


_OPEN: weakref.WeakSet[FairLock] = weakref.WeakSet()


def _forget_in_child() -> None:
    """A forked child shares the parent's locks: left open, it would keep them past its death."""
    for lock in list(_OPEN):
        lock.close()
    _OPEN.clear()


os.register_at_fork(after_in_child=_forget_in_child)
