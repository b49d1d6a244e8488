"""Storage in a PostgreSQL database, in the first schema of the connection's search path."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from voile.core.errors import (
    OutcomeUnknown,
    StorageBusy,
    StorageFault,
    StorageFull,
    StorageReadOnly,
)
from voile.core.optional import optional
from voile.core.storage.session import Reader
from voile.core.storage.sql import Dialect, SqlRecords
from voile.core.storage.tables import Row

PATIENCE: Final = 10.0
"""Seconds to wait for another writer before giving up."""

# Text is compared by code point, as everywhere else, whatever language the server speaks.
_DIALECT = Dialect(
    "%s", {int: "bigint", str: 'text COLLATE "C"', bytes: "bytea", float: "double precision"}
)
_MARK = "voile_storage"
# One writer at a time, in the order of asking; the lock ends with the transaction.
_WRITER = "SELECT pg_advisory_xact_lock(hashtextextended('voile ' || current_schema(), 0))"
_RELATIONS = (
    "SELECT 1 FROM pg_class WHERE relnamespace = "
    "(SELECT oid FROM pg_namespace WHERE nspname = current_schema())"
)
_FAULTS: dict[str, type[StorageFault]] = {
    "55P03": StorageBusy,  # lock not available
    "57014": StorageBusy,  # cancelled, by a time limit or an administrator
    "25006": StorageReadOnly,
    "42501": StorageReadOnly,  # no permission
    "53100": StorageFull,
}


class PostgresSession(SqlRecords):
    """One connection. Control statements wait for the next statement that needs an answer."""

    def __init__(self, url: str, *, patience: float = PATIENCE) -> None:
        super().__init__(_DIALECT)
        self._psycopg = optional("psycopg", extra="serve")
        self._url = url
        self._patience = patience
        self._pending: list[str] = []
        self._fresh = False
        self._connection: Any = None
        self._connect()

    def _connect(self) -> None:
        try:
            self._connection = self._psycopg.connect(self._url, autocommit=True)
            self._run(
                "SET synchronous_commit = on; SET client_min_messages = error; "
                f"SET lock_timeout = {int(self._patience * 1000)}"
            )
            durable = self._fetch("SHOW fsync", ())
        except self._psycopg.Error as error:
            raise self._fault(error) from error
        if durable != [("on",)]:
            self._connection.close()
            raise StorageFault(
                "this PostgreSQL runs with fsync = off: it may lose what it confirmed"
            )

    def begin(self) -> None:
        if self._connection.broken or self._connection.closed:
            self._connect()
        self.memory.clear()  # others may have written since
        self._define(f"BEGIN; {_WRITER}; SAVEPOINT command")
        self._fresh = True

    def savepoint(self) -> None:
        if self._fresh:  # `begin` has set the first one on its way
            self._fresh = False
        else:
            self._pending.append("SAVEPOINT command")

    def release(self) -> None:
        self._pending.append("RELEASE command")

    def undo(self) -> None:
        self.memory.clear()
        self._check_connected()
        self._pending += ["ROLLBACK TO command", "RELEASE command"]

    def commit(self) -> None:
        self._check_connected()
        self._pending.append("COMMIT")
        try:
            self._flush()
        except StorageFault as error:
            if self._connection.broken:
                raise OutcomeUnknown(
                    "the connection to PostgreSQL broke while committing: the commands may or may "
                    "not be stored; look before you repeat them"
                ) from error
            raise

    def rollback(self) -> None:
        self.memory.clear()
        self._pending.clear()
        if self._connection.broken or self._connection.closed:
            return  # the server rolls back what a lost connection left open
        if self._connection.info.transaction_status != self._psycopg.pq.TransactionStatus.IDLE:
            self._define("ROLLBACK")

    @contextmanager
    def snapshot(self) -> Iterator[Reader]:
        reader = PostgresSession(self._url, patience=self._patience)
        try:
            reader._define("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            yield reader
        finally:
            reader.close()

    def is_blank(self) -> bool:
        return not self._fetch(f"{_RELATIONS} LIMIT 1", ())

    def is_ours(self) -> bool:
        return bool(self._fetch(f"{_RELATIONS} AND relname = %s", (_MARK,)))

    def claim(self) -> None:
        self._define(f"CREATE TABLE {_MARK} ()")

    def close(self) -> None:
        self._connection.close()

    def _check_connected(self) -> None:
        if self._connection.broken:
            raise StorageFault("PostgreSQL: the connection was lost; nothing was kept")

    def _flush(self) -> None:
        """Send the control statements that wait, in one round trip."""
        if self._pending:
            statements, self._pending = "; ".join(self._pending), []
            self._define(statements)

    def _change(self, statement: str, parameters: Row) -> int:
        self._flush()
        try:
            changed: int = self._connection.execute(statement, parameters).rowcount
            return changed
        except self._psycopg.Error as error:
            raise self._fault(error) from error

    def _change_each(self, statement: str, parameters: list[Row]) -> int:
        self._flush()
        try:
            with self._connection.cursor() as cursor:
                cursor.executemany(statement, parameters)  # in one round trip
                changed: int = cursor.rowcount
            return changed
        except self._psycopg.Error as error:
            raise self._fault(error) from error

    def _fetch(self, statement: str, parameters: Row) -> list[Row]:
        self._flush()
        try:
            rows: list[Row] = self._connection.execute(statement, parameters).fetchall()
            return rows
        except self._psycopg.Error as error:
            raise self._fault(error) from error

    def _define(self, statement: str) -> None:
        self._flush()
        try:
            self._run(statement)
        except self._psycopg.Error as error:
            raise self._fault(error) from error

    def _run(self, statement: str) -> None:
        self._connection.execute(statement)

    def _fault(self, error: Any) -> StorageFault:
        kind = _FAULTS.get(error.sqlstate or "", StorageFault)
        return kind(f"PostgreSQL: {str(error).strip()}")
