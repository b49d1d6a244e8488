"""A lock between processes that serves them in turn.

SQLite makes a second writer sleep and try again, and whoever just wrote is always first to come
back: with eight processes the slowest gets a thousandth of its share. Here the kernel queues the
waiting processes, and whoever has had its turn goes to the end of the queue.

The kernel lets go of the locks when a process dies, however it dies.
"""

from __future__ import annotations

import fcntl
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
IDLE: Final = 0.0003
"""Seconds without new work after which a turn ends early."""


class FairLock:
    """Two advisory file locks: *turn* is held while waiting for *work*.

    A process whose turn is over has to queue for *turn*, which the next in line holds until it is
    working: nobody is overtaken by more than those already queued. During its turn a process keeps
    *work* between commits (it lingers), and a thread lets go of it when no more work comes.
    """

    def __init__(self, path: Path, *, patience: float) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._turn = os.open(f"{path}.turn", flags, 0o600)
        self._work = os.open(f"{path}.work", flags, 0o600)
        self._patience = patience
        self._turn_ends = 0.0
        self._guard = threading.Lock()
        self._lingers_since: float | None = None
        self._lingers = threading.Event()
        self._thread: threading.Thread | None = None
        self._abandoned = False
        self._closed = False
        _OPEN.add(self)

    def acquire(self) -> None:
        """Wait for our turn, but not for ever: `StorageBusy` after `patience` seconds."""
        with self._guard:
            lingered, self._lingers_since = self._lingers_since is not None, None
        if lingered:
            return
        if not self._try():
            self._wait()
        self._turn_ends = time.monotonic() + TURN

    def release(self) -> None:
        """Let go, at once if nobody waits or the turn is over, else when no more work comes."""
        if time.monotonic() < self._turn_ends and self._somebody_waits():
            self._linger()
        else:
            fcntl.flock(self._work, fcntl.LOCK_UN)

    def close(self) -> None:
        _OPEN.discard(self)
        with self._guard:
            self._closed = True
            self._close_descriptors()
        self._lingers.set()

    def _try(self) -> bool:
        if not _taken(self._turn):
            return False
        free = _taken(self._work)
        fcntl.flock(self._turn, fcntl.LOCK_UN)
        return free

    def _somebody_waits(self) -> bool:
        if _taken(self._turn):
            fcntl.flock(self._turn, fcntl.LOCK_UN)
            return False
        return True

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
        fcntl.flock(self._work, fcntl.LOCK_EX)
        fcntl.flock(self._turn, fcntl.LOCK_UN)
        if not visit.arrive():
            fcntl.flock(self._work, fcntl.LOCK_UN)

    def _linger(self) -> None:
        with self._guard:
            self._lingers_since = time.monotonic()
        if self._thread is None:
            self._thread = threading.Thread(target=self._let_go_when_idle, daemon=True)
            self._thread.start()
        self._lingers.set()

    def _let_go_when_idle(self) -> None:
        while self._lingers.wait() and not self._closed:
            self._lingers.clear()
            time.sleep(IDLE)
            with self._guard:
                if self._closed or self._lingers_since is None:
                    continue
                if time.monotonic() - self._lingers_since < IDLE:
                    self._lingers.set()
                else:
                    self._lingers_since = None
                    fcntl.flock(self._work, fcntl.LOCK_UN)

    def _close_descriptors(self) -> None:
        if not self._abandoned:  # else a thread still waits in the kernel on these descriptors
            os.close(self._turn)
            os.close(self._work)


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
        lock._close_descriptors()
    _OPEN.clear()


os.register_at_fork(after_in_child=_forget_in_child)
