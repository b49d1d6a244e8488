"""Storage in one SQLite file: write-ahead log, forced to the disk at every commit."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from voile.core.atomic_file import disk_fault
from voile.core.errors import (
    ForeignDatabase,
    OutcomeUnknown,
    StorageBusy,
    StorageFault,
    StorageFull,
    StorageReadOnly,
)
from voile.core.storage.session import Reader
from voile.core.storage.sql import Dialect, SqlRecords
from voile.core.storage.tables import Row
from voile.core.storage.turns import Turns, hung

APPLICATION: Final = 0x766F696C  # "voil": how SQLite files say whose they are
PATIENCE: Final = 10.0
"""Seconds to wait for another writer before giving up."""

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
            )
        except sqlite3.Error as error:
            raise self._fault(error) from error

    def _change(self, statement: str, parameters: Row) -> int:
        try:
            return self._connection.execute(statement, parameters).rowcount
        except sqlite3.Error as error:
            raise self._fault(error) from error

    def _change_each(self, statement: str, parameters: list[Row]) -> int:
        try:
            return self._connection.executemany(statement, parameters).rowcount
        except sqlite3.Error as error:
            raise self._fault(error) from error

    def _fetch(self, statement: str, parameters: Row) -> list[Row]:
        try:
            return self._connection.execute(statement, parameters).fetchall()
        except sqlite3.Error as error:
            raise self._fault(error) from error

    def _define(self, statement: str) -> None:
        try:
            self._connection.execute(statement)
        except sqlite3.Error as error:
            raise self._fault(error) from error

    def _fault(self, error: sqlite3.Error) -> StorageFault:
        code = getattr(error, "sqlite_errorcode", None)
        kind = StorageFault if code is None else _FAULTS.get(code & 0xFF, StorageFault)
        return kind(f"{self._path}: {error}")


class SqliteSession(_Connected):
    """Transactions on one file. Its memory lasts while nobody else writes (decision 0035)."""

    def __init__(self, path: Path, *, patience: float = PATIENCE) -> None:
        self._turns = _turns(path, patience)
        self._patience = patience
        self._data_version: list[Row] = []
        try:
            super().__init__(path.absolute(), patience, mode="rwc")
        except StorageFault:
            self._turns.close()
            raise
        try:
            try:
                self._turns.wait()  # several processes may come to a new file at once
                self._prepare()
            finally:
                self._turns.pause()
        except BaseException:
            self.close()
            raise

    def _prepare(self) -> None:
        # Looked at before anything is written: another program's file is not touched.
        self._define("BEGIN")  # two looks at one state
        foreign = not self.is_ours() and not self.is_blank()
        self._define("COMMIT")
        if foreign:
            raise ForeignDatabase(
                f"{self._path}: a database of another program; voile needs a file of its own"
            )
        mode = self._fetch("PRAGMA journal_mode = WAL", ())[0][0]
        if mode != "wal":
            raise StorageFault(f"{self._path}: this disk cannot carry a write-ahead log")
        self._define("PRAGMA synchronous = FULL")

    def begin(self) -> None:
        run = self._connection.execute
        try:
            self._turns.wait()
            run("BEGIN IMMEDIATE")
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
        self._turns.pause()

    def rollback(self) -> None:
        self.memory.clear()
        try:
            if self._connection.in_transaction:
                self._define("ROLLBACK")
        finally:
            self._turns.pause()

    @contextmanager
    def snapshot(self) -> Iterator[Reader]:
        reader = _Connected(self._path, self._patience, mode="rw")
        try:
            reader._define("PRAGMA query_only = ON")
            reader._define("BEGIN")
            yield reader
        finally:
            reader._connection.close()

    def is_blank(self) -> bool:
        return self._application() == 0 and not self._fetch("SELECT 1 FROM sqlite_master", ())

    def is_ours(self) -> bool:
        return self._application() == APPLICATION

    def claim(self) -> None:
        self._define(f"PRAGMA application_id = {APPLICATION}")

    def close(self) -> None:
        self.rollback()
        self._connection.close()
        self._turns.close()

    def _application(self) -> object:
        return self._fetch("PRAGMA application_id", ())[0][0]


def _turns(path: Path, patience: float) -> Turns:
    """Make the file private before SQLite does, then the queue beside it."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        return Turns(path, patience=patience)
    except OSError as error:
        raise disk_fault(path, error) from error
