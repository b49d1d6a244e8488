"""Processes that write to one SQLite file take turns.

SQLite makes a second writer sleep and try again, and whoever just wrote is always first to come
back: with eight processes the slowest gets a thousandth of its share. Here the kernel queues the
waiting processes, and whoever has had its turn goes to the end of the queue.

Nothing here keeps writers apart: SQLite does. A process that is not polite, a notice that is wrong,
or one of a process that died, makes somebody wait or be overtaken for about a turn, nothing else.
"""

from __future__ import annotations

import fcntl
import os
import stat
import struct
import threading
import time
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Final

from voile.core.atomic_file import disk_fault
from voile.core.errors import StorageBusy, StorageFault

TURN: Final = 0.025
"""Seconds a process may go on working while others wait. A change costs about a millisecond: the
other process has to wake up, to read again what has changed, and to warm the processor's caches."""
IDLE: Final = 0.0005
"""Seconds without new work after which a turn ends early."""
_NOBODY: Final = 0.0
_NUMBER, _NUMBERS = struct.Struct("=d"), struct.Struct("=3d")
_PAUSES_SINCE: Final = 16
"""Where the third number stands."""
_WORKING: Final = _NUMBER.pack(0.0)
_GLANCE: Final = 0.00005
"""Seconds between two looks at a process that works on past the end of its turn."""


class Turns:
    """One advisory file lock, and a notice that all processes can read.

    Whoever holds the lock is next in line. It leaves the process at work alone until the notice
    says that its turn is over or that no more work came, puts its own name on the notice, does its
    first work (`wait`, then BEGIN to COMMIT, then `pause`) and only then lets the next one come up:
    waking it earlier would slow down what it waits for. So nobody is overtaken by more than those
    already queued.

    During its turn a process looks at the notice and takes no lock.
    """

    def __init__(self, path: Path, *, patience: float) -> None:
        self._queue = _opened(path)
        self._notice = Notice(self._queue)
        self._patience = patience
        self._is_next = False
        self._abandoned = False
        _OPEN.add(self)

    def wait(self) -> None:
        """Wait for our turn, but not for ever: `StorageBusy` after `patience` seconds."""
        if self._notice.goes_on():
            return
        self._is_next = True  # before we are: whatever happens, `pause` lets go
        if not _taken(self._queue):
            self._queue_up()
        latest = time.monotonic() + 2 * TURN  # a notice may be older than the machine's last start
        while (now := time.monotonic()) < latest and (rest := self._notice.rest_of_turn(now)) > 0:
            time.sleep(rest)
        self._notice.begin()

    def pause(self) -> None:
        """The work is done, or we gave up waiting; the next in line may come up.

        For the rest of the turn only we go on, unless no more work comes.
        """
        self._notice.pause()
        if self._is_next:
            fcntl.flock(self._queue, fcntl.LOCK_UN)
            self._is_next = False

    def close(self) -> None:
        _OPEN.discard(self)
        if not self._abandoned:  # else a thread still waits in the kernel on this descriptor
            os.close(self._queue)

    def _queue_up(self) -> None:
        # A blocking flock knows no time limit, so a thread of its own waits in it.
        visit = _Visit()
        threading.Thread(target=self._stand_in_line, args=(visit,), daemon=True).start()
        try:
            visit.wait(self._patience)
        finally:  # also if somebody pressed Ctrl-C
            arrived = visit.end()
            self._abandoned = self._abandoned or not arrived
        if not arrived:
            raise StorageBusy(hung(self._patience))

    def _stand_in_line(self, visit: _Visit) -> None:
        fcntl.flock(self._queue, fcntl.LOCK_EX)
        if not visit.arrive():
            fcntl.flock(self._queue, fcntl.LOCK_UN)


def hung(patience: float) -> str:
    """What to tell somebody who waited for nothing."""
    return (
        f"another process has been writing for more than {patience:g} seconds; it may be stopped "
        "or hung"
    )


class Notice:
    """Whose turn it is, when it ends, and since when it pauses (0 while it works).

    Three numbers at the head of the file; times are those of the monotonic clock, which all
    processes of a machine share. Read and written as a file, not mapped into memory: somebody may
    cut the file short at any moment. What cannot be read says that it is nobody's turn.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._me = float(int.from_bytes(os.urandom(6), "big"))
        self._ends = self._paused = 0.0

    def goes_on(self) -> bool:
        """Go on with a turn that is still ours."""
        now = time.monotonic()
        if now >= self._ends:
            return False
        # Nobody takes a turn away before `IDLE` is over: only after that is there anything to read.
        if now >= self._paused + IDLE and self._read()[0] != self._me:
            self._ends = 0.0
            return False
        self._put(_WORKING, _PAUSES_SINCE)
        return True

    def begin(self) -> None:
        """Our turn begins."""
        self._ends = time.monotonic() + TURN
        self._put(_NUMBERS.pack(self._me, self._ends, 0.0))

    def pause(self) -> None:
        self._paused = time.monotonic()
        if self._paused < self._ends or self._read()[0] == self._me:
            self._put(_NUMBER.pack(self._paused), _PAUSES_SINCE)

    def rest_of_turn(self, now: float) -> float:
        """Seconds to leave whoever works alone; 0 if its turn is over, or no more work comes."""
        who, ends, pauses_since = self._read()
        if who in (_NOBODY, self._me):
            return 0.0
        if not pauses_since:
            return max(_GLANCE, min(ends - now, IDLE))
        return min(ends - now, pauses_since + IDLE - now, IDLE)

    def _read(self) -> tuple[float, float, float]:
        try:
            who, ends, pauses_since = _NUMBERS.unpack(os.pread(self._descriptor, 24, 0))
        except (OSError, struct.error):
            return _NOBODY, 0.0, 0.0
        return who, ends, pauses_since

    def _put(self, content: bytes, place: int = 0) -> None:
        with suppress(OSError):  # a notice that nobody can read makes somebody wait, nothing else
            os.pwrite(self._descriptor, content, place)


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

    def wait(self, seconds: float) -> None:
        self._arrived.wait(seconds)

    def end(self) -> bool:
        """Wait no longer; whether the lock was reported in time."""
        with self._guard:
            self._given_up = not self._arrived.is_set()
            return not self._given_up


def _opened(database: Path) -> int:
    """The file of the queue, beside the database.

    It is written to: neither a link to another file nor a stranger's file will do.
    """
    path = Path(f"{database}.turn")
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        owners = {os.geteuid(), database.stat().st_uid}
        descriptor = os.open(path, flags, 0o600)
    except OSError as error:
        if path.is_symlink():
            raise _not_ours(path) from error
        raise disk_fault(path, error) from error
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1 or found.st_uid not in owners:
        os.close(descriptor)
        raise _not_ours(path)
    return descriptor


def _not_ours(path: Path) -> StorageFault:
    return StorageFault(
        f"{path}: expected a plain file of the database's owner, found a link, another kind of "
        "file, or somebody else's; remove it"
    )


def _taken(descriptor: int) -> bool:
    """Take a lock if that is possible at once."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


_OPEN: weakref.WeakSet[Turns] = weakref.WeakSet()


def _forget_in_child() -> None:
    """A forked child shares the parent's locks: left open, it would keep them past its death."""
    for turns in list(_OPEN):
        turns.close()
    _OPEN.clear()


os.register_at_fork(after_in_child=_forget_in_child)
