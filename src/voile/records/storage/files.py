"""The files of an SQLite database: created privately, and still the ones that were opened.

Closing any descriptor of a database drops every lock that this process holds on it, SQLite's too;
the next process to leave then removes the write-ahead log, and whoever goes on writes into a file
without a name. So nothing here ever opens a database that exists: it is asked about by name.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from voile.core.atomic_file import disk_fault
from voile.core.errors import StorageFault


class FileIdentity(NamedTuple):
    """Which file it is, whatever its name. No other file gets this while somebody has it open."""

    device: int
    number: int

    @classmethod
    def from_path(cls, path: Path) -> FileIdentity | None:
        """The file that is found there now, or None."""
        try:
            found = path.stat()
        except OSError:
            return None
        return cls(found.st_dev, found.st_ino)


def private_file(path: Path) -> Path:
    """The path of a database without symbolic links; an empty private file if there was none."""
    real = Path(os.path.realpath(path))
    try:
        _create(real)
        found = real.stat()
    except OSError as error:
        raise disk_fault(path, error) from error
    if not stat.S_ISREG(found.st_mode):
        raise StorageFault(f"{path}: not a regular file, so no database")
    if found.st_nlink > 1:
        raise StorageFault(
            f"{path}: this file has a second name (a hard link), and with it a second write-ahead "
            "log; remove one of the names"
        )
    return real


def _create(path: Path) -> None:
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with suppress(FileExistsError):
        os.close(os.open(path, flags, 0o600))


class LinkedFiles:
    """A database and its write-ahead log, as they are called now, while SQLite has both open."""

    def __init__(self, database: Path) -> None:
        log = Path(f"{database}-wal")
        opened, opened_log = FileIdentity.from_path(database), FileIdentity.from_path(log)
        if opened is None or opened_log is None:
            raise StorageFault(f"{database}: was deleted while it was being opened")
        self.database, self._path = opened, str(database)
        self._log, self._log_path = opened_log, str(log)

    def are_linked(self) -> bool:
        """Whether both names still mean the files that were opened."""
        return self.log_is_linked() and _is(self._path, self.database)

    def log_is_linked(self) -> bool:
        """The same of the write-ahead log alone, which SQLite itself removes."""
        return _is(self._log_path, self._log)


def _is(path: str, file: FileIdentity) -> bool:
    try:
        found = os.stat(path)  # noqa: PTH116  in every transaction: a Path takes twice as long
    except OSError:
        return False
    return (found.st_dev, found.st_ino) == file
