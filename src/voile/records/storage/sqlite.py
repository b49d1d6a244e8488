"""Storage in one SQLite file: write-ahead log, forced to the disk at every commit."""

from __future__ import annotations

import ctypes
import os
import sqlite3
import stat
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from voile.core.atomic_file import disk_fault
from voile.core.errors import (
    ForeignDatabase,
    OutcomeUnknown,
    StorageBusy,
    StorageFault,
    StorageFull,
    StorageReadOnly,
)
from voile.records.storage.session import Reader
from voile.records.storage.sql import Dialect, Readers, SqlRecords
from voile.records.storage.tables import Row
from voile.records.storage.turns import Turns, hung

# --- The files of an SQLite database: created privately, and still the ones that were opened -----
# Closing any descriptor of a database drops every lock that this process holds on it, SQLite's too;
# the next process to leave then removes the write-ahead log, and whoever goes on writes into a file
# without a name. So nothing here ever opens a database that exists: it is asked about by name.


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
        raise StorageFault(
            f"{path}: expected a database, found something that is not a regular file"
        )
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


# --------------------------------------------------------------------------------------------------


APPLICATION: Final = 0x766F696C  # "voil": how SQLite files say whose they are
PATIENCE: Final = 10.0
"""Seconds to wait for another writer before giving up."""

_PREPARED: Final = 512
"""Statements that a connection keeps prepared: for each table, one for each count of rows."""

# A column declared REAL forgets the sign of -0.0; one without a type keeps numbers as they are.
_DIALECT = Dialect("?", {int: "INTEGER", str: "TEXT", bytes: "BLOB", float: ""})
_FAULTS: dict[int, type[StorageFault]] = {
    sqlite3.SQLITE_BUSY: StorageBusy,
    sqlite3.SQLITE_LOCKED: StorageBusy,
    sqlite3.SQLITE_READONLY: StorageReadOnly,
    sqlite3.SQLITE_CANTOPEN: StorageReadOnly,
    sqlite3.SQLITE_PERM: StorageReadOnly,
    sqlite3.SQLITE_FULL: StorageFull,
    sqlite3.SQLITE_NOTADB: ForeignDatabase,
}


class _Connected(SqlRecords):
    """One connection to one file; its errors in our words. Any thread may use it, one at a time."""

    def __init__(self, path: Path, patience: float, *, mode: str) -> None:
        super().__init__(_DIALECT)
        self._path = path
        try:
            self._connection = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode={mode}",
                uri=True,
                timeout=patience,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=_PREPARED,
            )
        except sqlite3.Error as error:
            raise self._fault(error) from error

    def _change(self, statement: str, parameters: Row) -> int:
        self._check_in_transaction()
        try:
            return self._connection.execute(statement, parameters).rowcount
        except sqlite3.Error as error:
            raise self._fault(error) from error

    def _change_each(self, statement: str, parameters: list[Row]) -> int:
        self._check_in_transaction()
        try:
            return self._connection.executemany(statement, parameters).rowcount
        except sqlite3.Error as error:
            raise self._fault(error) from error

    def _fetch(self, statement: str, parameters: Row) -> list[Row]:
        self._check_in_transaction()
        return self._ask(statement, parameters)

    def _define(self, statement: str) -> None:
        self._check_in_transaction()
        self._ask(statement)

    def _check_in_transaction(self) -> None:
        # Some errors make SQLite undo the whole transaction by itself. Whoever went on all the
        # same would store each further statement alone.
        try:
            inside = self._connection.in_transaction
        except sqlite3.Error as error:  # it was closed
            raise self._fault(error) from error
        if not inside:
            raise StorageFault(f"{self._path}: outside a transaction, or it was undone; try again")

    def _ask(self, statement: str, parameters: Row = ()) -> list[Row]:
        """Run a statement, in a transaction or not."""
        try:
            return self._connection.execute(statement, parameters).fetchall()
        except sqlite3.Error as error:
            raise self._fault(error) from error

    def _fault(self, error: sqlite3.Error) -> StorageFault:
        code = getattr(error, "sqlite_errorcode", None)
        kind = StorageFault if code is None else _FAULTS.get(code & 0xFF, StorageFault)
        return kind(f"{self._path}: {error}")


class _SqliteReader(_Connected):
    """A connection that is kept to read snapshots."""

    def __init__(self, path: Path, patience: float) -> None:
        super().__init__(path, patience, mode="rw")
        self.is_checked = False
        self._ask("PRAGMA query_only = ON")
        self._ask("SELECT 1 FROM sqlite_master")  # opens the file

    def start(self) -> None:
        self.memory.clear()
        self._ask("BEGIN")  # the first question is the moment that is looked at

    def stop(self) -> None:
        self._ask("ROLLBACK")

    def close(self) -> None:
        self._connection.close()


class SqliteSession(_Connected):
    """Transactions on one file. Its memory lasts while nobody else writes.

    See docs/decisions/storage.md.
    """

    def __init__(self, path: Path, *, patience: float = PATIENCE) -> None:
        real = private_file(path)
        if FileIdentity.from_path(real) in _BEFORE_FORK:
            raise StorageFault(
                f"{path}: was open when this process was forked, and SQLite cannot open it safely "
                "here; close it before forking, or start the process with 'spawn'"
            )
        self._turns = Turns(real, patience=patience)
        self._patience = patience
        self._readers = Readers(lambda: _SqliteReader(real, patience))
        self._data_version: list[Row] = []
        self._closed = False
        try:
            super().__init__(real, patience, mode="rw")
        except StorageFault:
            self._turns.close()
            raise
        try:
            try:
                self._turns.wait()  # several processes may come to a new file at once
                self._prepare()
                self._files = LinkedFiles(real)
            finally:
                self._turns.pause()
        except BaseException:
            self.close()
            raise
        _OPEN.add(self)

    @property
    def file(self) -> FileIdentity:
        """Which file it is."""
        return self._files.database

    def _prepare(self) -> None:
        # Looked at before anything is written: another program's file is not touched.
        self._ask("BEGIN")  # two looks at one state
        foreign = not self.is_ours() and not self.is_blank()
        self._ask("COMMIT")
        if foreign:
            raise ForeignDatabase(
                f"{self._path}: a database of another program; voile needs a file of its own"
            )
        mode = self._ask("PRAGMA journal_mode = WAL")[0][0]
        if mode != "wal":
            raise StorageFault(f"{self._path}: this disk cannot carry a write-ahead log")
        self._ask("PRAGMA synchronous = FULL")
        self._ask("SELECT 1 FROM sqlite_master")  # opens the write-ahead log

    def begin(self) -> None:
        run = self._connection.execute
        try:
            self._turns.wait()
            run("BEGIN IMMEDIATE")
            self._check_linked()
            version = run("PRAGMA data_version").fetchall()
        except sqlite3.Error as error:
            self.rollback()
            fault = self._fault(error)
            if isinstance(fault, StorageBusy):
                fault = StorageBusy(hung(self._patience))
            raise fault from error
        except BaseException:
            self.rollback()
            raise
        # What is kept in memory holds as long as no other connection has committed anything.
        # SQLite says so by a number that it changes whenever it drops its own copies of pages.
        if version != self._data_version:
            self.memory.clear()
            self._data_version = version

    def _check_linked(self) -> None:
        """What is written into a file without a name is lost when the last process closes it."""
        if not self._files.are_linked():
            raise StorageFault(self._unlinked())

    def _unlinked(self) -> str:
        return (
            f"{self._path}: this file or its write-ahead log was deleted or replaced while it was "
            "open; nothing more is written to it: find out by whom, then open it again"
        )

    def savepoint(self) -> None:
        self._define("SAVEPOINT command")

    def release(self) -> None:
        self._define("RELEASE command")

    def undo(self) -> None:
        self.memory.clear()
        self._define("ROLLBACK TO command")
        self._define("RELEASE command")

    def commit(self) -> None:
        try:
            self._connection.execute("COMMIT")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_IOERR:
                raise self._fault(error) from error
            # The commit mark may have reached the disk before the error, and a crash would keep it.
            raise OutcomeUnknown(f"{self._path}: {error} while committing") from error
        if not self._files.log_is_linked():
            raise OutcomeUnknown(self._unlinked())
        self._turns.pause()

    def rollback(self) -> None:
        self.memory.clear()
        try:
            if self._connection.in_transaction:
                self._ask("ROLLBACK")
        finally:
            self._turns.pause()

    @contextmanager
    def snapshot(self) -> Iterator[Reader]:
        self._check_linked()
        try:
            with self._readers.one() as reader:
                if not reader.is_checked:  # it is our files that were opened
                    self._check_linked()
                    reader.is_checked = True
                yield reader
        finally:
            self._forget_if_unused()

    def is_blank(self) -> bool:
        return self._application() == 0 and not self._ask("SELECT 1 FROM sqlite_master")

    def is_ours(self) -> bool:
        return self._application() == APPLICATION

    def claim(self) -> None:
        self._define(f"PRAGMA application_id = {APPLICATION}")

    def close(self) -> None:
        self._readers.close()
        self.rollback()
        self._connection.close()
        self._turns.close()
        self._closed = True
        self._forget_if_unused()

    def _forget_if_unused(self) -> None:
        """A fork concerns a file until its last connection is closed, and that may be a reader."""
        if self._closed and not self._readers.in_use:
            _OPEN.discard(self)

    def _application(self) -> object:
        return self._ask("PRAGMA application_id")[0][0]


_OPEN: weakref.WeakSet[SqliteSession] = weakref.WeakSet()
_BEFORE_FORK: set[FileIdentity | None] = set()


def _leave_to_parent() -> None:
    """In a forked child SQLite believes to hold locks that only the parent holds.

    A new connection to the same file would rely on them, and closing an old one is the parent's
    business: so such a file is not opened again here, and the connections are never closed. Not
    even by Python when the child ends: SQLite would take itself for the last one to leave and
    remove the write-ahead log, in which others may have left what they committed. So each gets one
    reference that nobody gives back.
    """
    for session in _OPEN:
        for each in (session, *session._readers.open):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(each._connection))
    _BEFORE_FORK.update(session.file for session in _OPEN)
    _OPEN.clear()


os.register_at_fork(after_in_child=_leave_to_parent)
