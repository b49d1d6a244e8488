"""One process or thread at a time, by a file that is locked; the lock ends with whoever held it."""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from voile.core.atomic_file import disk_fault
from voile.core.errors import StorageBusy, UnreadableFile


@contextmanager
def locked(lock: Path, *, patience: float, busy: str) -> Iterator[None]:
    """Hold this lock; `StorageBusy` with these words if somebody else holds it for that long.

    Args:
        lock: a file of nobody else's use, which is made.
        patience: seconds.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(lock, flags, 0o600)
    except OSError as error:
        raise disk_fault(lock, error) from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise UnreadableFile(f"{lock}: expected a plain file to lock; remove what is there")
        _take(descriptor, lock, patience, busy)
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int, lock: Path, patience: float, busy: str) -> None:
    deadline = time.monotonic() + patience
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise StorageBusy(f"{lock}: {busy}") from None
            time.sleep(0.01)
        except OSError as error:
            raise disk_fault(lock, error) from error
