"""A lock between processes that serves them in turn.

SQLite makes a second writer sleep and try again, and whoever just wrote is always first to come
back: with eight processes the slowest gets a thousandth of its share. Here the kernel queues the
waiting processes, and whoever has just written goes to the end of the queue.

The kernel lets go of both locks when a process dies, however it dies.
"""

from __future__ import annotations

import fcntl
import os
import threading
import weakref
from pathlib import Path

from voile.core.errors import StorageBusy


class FairLock:
    """Two advisory file locks: *turn* is held while waiting for *work*.

    A process that finished its work and wants more has to queue for the turn, which the next one
    in line holds until it is working: nobody is overtaken by more than those already queued.
    """

    def __init__(self, path: Path, *, patience: float) -> None:
        self._patience = patience
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._turn = os.open(f"{path}.turn", flags, 0o600)
        self._work = os.open(f"{path}.work", flags, 0o600)
        self._abandoned = False
        _OPEN.add(self)

    def acquire(self) -> None:
        """Wait for our turn, but not for ever: `StorageBusy` after `patience` seconds."""
        if self._try():
            return
        # A blocking flock knows no time limit, so a thread of its own waits in it.
        visit = _Visit()
        threading.Thread(target=self._queue, args=(visit,), daemon=True).start()
        if not visit.wait(self._patience):
            self._abandoned = True
            raise StorageBusy(
                f"another process has been writing for more than {self._patience:g} seconds; "
                "it may be stopped or hung"
            )

    def release(self) -> None:
        fcntl.flock(self._work, fcntl.LOCK_UN)

    def close(self) -> None:
        _OPEN.discard(self)
        if not self._abandoned:  # else a thread still waits in the kernel on these descriptors
            os.close(self._turn)
            os.close(self._work)

    def _try(self) -> bool:
        try:
            fcntl.flock(self._turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        try:
            fcntl.flock(self._work, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            fcntl.flock(self._turn, fcntl.LOCK_UN)
        return True

    def _queue(self, visit: _Visit) -> None:
        fcntl.flock(self._turn, fcntl.LOCK_EX)
        fcntl.flock(self._work, fcntl.LOCK_EX)
        fcntl.flock(self._turn, fcntl.LOCK_UN)
        if not visit.arrive():
            self.release()


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


_OPEN: weakref.WeakSet[FairLock] = weakref.WeakSet()


def _forget_in_child() -> None:
    """A forked child shares the parent's locks: left open, it would keep them past its death."""
    for lock in list(_OPEN):
        lock.close()


os.register_at_fork(after_in_child=_forget_in_child)
