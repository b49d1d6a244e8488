"""Storage in one SQLite file: write-ahead log, forced to the disk at every commit."""

from __future__ import annotations

import os
import sqlite3
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
from voile.core.storage.fair_lock import FairLock
from voile.core.storage.sql import Dialect, SqlRecords
from voile.core.storage.tables import Row

APPLICATION: Final = 0x766F696C  # "voil": how SQLite files say whose they are
PATIENCE: Final = 10.0
"""Seconds to wait for another writer before giving up."""

_DIALECT = Dialect("?", {int: "INTEGER", str: "TEXT", bytes: "BLOB", float: "REAL"})
_FAULTS: dict[int, type[StorageFault]] = {
    sqlite3.SQLITE_BUSY: StorageBusy,
    sqlite3.SQLITE_LOCKED: StorageBusy,
    sqlite3.SQLITE_READONLY: StorageReadOnly,
    sqlite3.SQLITE_CANTOPEN: StorageReadOnly,
    sqlite3.SQLITE_PERM: StorageReadOnly,
    sqlite3.SQLITE_FULL: StorageFull,
    sqlite3.SQLITE_NOTADB: ForeignDatabase,
}


class SqliteSession(SqlRecords):
    """One connection to one file. Any thread may use it, one at a time."""

    def __init__(self, path: Path, *, patience: float = PATIENCE) -> None:
        super().__init__(_DIALECT)
        self._path = path
        self._lock = _fair_lock(path, patience)
        self._holds_lock = False
        try:
            self._connection = sqlite3.connect(
                path, timeout=patience, isolation_level=None, check_same_thread=False
            )
        except sqlite3.Error as error:
            self._lock.close()
            raise self._fault(error) from error
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    def _prepare(self) -> None:
        # Looked at before anything is written: another program's file is not touched.
        if not self.is_ours() and not self.is_blank():
            raise ForeignDatabase(
                f"{self._path}: a database of another program; voile needs a file of its own"
            )
        mode = self._fetch("PRAGMA journal_mode = WAL", ())[0][0]
        if mode != "wal":
            raise StorageFault(f"{self._path}: this disk cannot carry a write-ahead log")
        self._define("PRAGMA synchronous = FULL")

    def begin(self) -> None:
        self._lock.acquire()
        self._holds_lock = True
        try:
            self._define("BEGIN IMMEDIATE")
        except StorageFault:
            self._let_go()
            raise

    def savepoint(self) -> None:
        self._define("SAVEPOINT command")

    def release(self) -> None:
        self._define("RELEASE command")

    def undo(self) -> None:
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
        self._let_go()

    def rollback(self) -> None:
        try:
            if self._connection.in_transaction:
                self._define("ROLLBACK")
        finally:
            self._let_go()

    def is_blank(self) -> bool:
        return self._application() == 0 and not self._fetch("SELECT 1 FROM sqlite_master", ())

    def is_ours(self) -> bool:
        return self._application() == APPLICATION

    def claim(self) -> None:
        self._define(f"PRAGMA application_id = {APPLICATION}")

    def close(self) -> None:
        self.rollback()
        self._connection.close()
        self._lock.close()

    def _application(self) -> object:
        return self._fetch("PRAGMA application_id", ())[0][0]

    def _let_go(self) -> None:
        if self._holds_lock:
            self._holds_lock = False
            self._lock.release()

    def _change(self, statement: str, parameters: Row) -> int:
        try:
            return self._connection.execute(statement, parameters).rowcount
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


def _fair_lock(path: Path, patience: float) -> FairLock:
    """Make the file private before SQLite does, then the locks beside it."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        return FairLock(path, patience=patience)
    except OSError as error:
        raise disk_fault(path, error) from error
