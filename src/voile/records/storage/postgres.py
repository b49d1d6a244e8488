"""Storage in a PostgreSQL database, in the first schema of the connection's search path."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from voile.core.errors import (
    InvalidInput,
    OutcomeUnknown,
    StorageBusy,
    StorageFault,
    StorageFull,
    StorageReadOnly,
)
from voile.core.optional import optional
from voile.records.storage.session import Reader
from voile.records.storage.sql import Dialect, Readers, SqlRecords
from voile.records.storage.tables import Row

PATIENCE: Final = 10.0
"""Seconds to wait for another writer before giving up."""

# Text is compared by code point, as everywhere else, whatever language the server speaks.
_DIALECT = Dialect(
    "%s", {int: "bigint", str: 'text COLLATE "C"', bytes: "bytea", float: "double precision"}
)
_MARK = "voile_storage"
# Whatever the server's or the database's defaults are: commits are forced to the disk, numbers come
# back with all their digits (fewer would change the promise of an account), text is Unicode.
_SETTINGS = (
    "SET synchronous_commit = on; SET client_min_messages = error; SET extra_float_digits = 3; "
    "SET client_encoding = 'UTF8'"
)
# One writer at a time, in the order of asking; the lock ends with the transaction. Each statement
# sees what was committed before it, whatever the server's default is: under a stricter level the
# transaction would see what was there before it waited, and fail.
_BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"
_WRITER = "SELECT pg_advisory_xact_lock(hashtextextended('voile ' || current_schema(), 0))"
_RELATIONS = (
    "SELECT 1 FROM pg_class WHERE relnamespace = "
    "(SELECT oid FROM pg_namespace WHERE nspname = current_schema())"
)
# A connection to a machine that is gone is given up after about half a minute. An address may say
# otherwise.
_CONNECTION: dict[str, str | int] = {
    "connect_timeout": 10,
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 4,
    "tcp_user_timeout": 30_000,
}
_FAULTS: dict[str, type[StorageFault]] = {
    "55P03": StorageBusy,  # lock not available
    "57014": StorageBusy,  # cancelled, by a time limit or an administrator
    "25006": StorageReadOnly,
    "42501": StorageReadOnly,  # no permission
    "53100": StorageFull,
}


class PostgresSession(SqlRecords):
    """One connection. Control statements wait for the next statement that needs an answer."""

    def __init__(self, url: str, *, patience: float = PATIENCE, read_only: bool = False) -> None:
        super().__init__(_DIALECT)
        self._psycopg = optional("psycopg", extra="postgres")
        self._idle = self._psycopg.pq.TransactionStatus.IDLE
        self._url = url
        self._patience = patience
        self._pending: list[str] = []
        self._fresh = False
        self._connection: Any = None
        self._readers = Readers(lambda: _PostgresReader(url))
        self._connect(read_only)

    def _connect(self, read_only: bool = False) -> None:
        address = _address(self._url, self._psycopg)
        try:
            self._connection = self._psycopg.connect(address, autocommit=True)
            self._connection.execute(_SETTINGS if read_only else _SETTINGS + self._time_limits())
            durable = self._ask("SHOW fsync", ())
        except self._psycopg.Error as error:
            raise self._fault(error) from error
        if durable != [("on",)]:
            self._connection.close()
            raise StorageFault(
                "this PostgreSQL runs with fsync = off: it may lose what it confirmed"
            )

    def _time_limits(self) -> str:
        """Of a writer: others wait for it. A process that stopped in the middle is cut off."""
        patience = int(self._patience * 1000)
        return (
            f"; SET lock_timeout = {patience}; SET statement_timeout = {6 * patience}; "
            f"SET idle_in_transaction_session_timeout = {3 * patience}"
        )

    def begin(self) -> None:
        if self._connection.broken or self._connection.closed:
            self._connect()
        self.memory.clear()  # others may have written since
        self._control(f"{_BEGIN}; {_WRITER}; SAVEPOINT command")
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
        self._check_inside()
        statements, self._pending = "; ".join([*self._pending, "COMMIT"]), []
        try:
            said = self._connection.execute(statements)
            while said.nextset():
                pass
        except self._psycopg.Error as error:
            if self._connection.broken:
                raise OutcomeUnknown(
                    "the connection to PostgreSQL broke while committing: the commands may or may "
                    "not be stored; look before you repeat them"
                ) from error
            raise self._fault(error) from error
        # Where a command went on after an error, PostgreSQL undoes everything and says "ROLLBACK".
        if said.statusmessage != "COMMIT":
            raise StorageFault("PostgreSQL: the transaction had failed; nothing was kept")

    def rollback(self) -> None:
        self.memory.clear()
        self._pending.clear()
        if self._connection.broken or self._connection.closed:
            return  # the server rolls back what a lost connection left open
        if not self._is_idle():
            self._control("ROLLBACK")

    @contextmanager
    def snapshot(self) -> Iterator[Reader]:
        with self._readers.one() as reader:
            yield reader

    def is_blank(self) -> bool:
        return not self._fetch(f"{_RELATIONS} LIMIT 1", ())

    def is_ours(self) -> bool:
        return bool(self._fetch(f"{_RELATIONS} AND relname = %s", (_MARK,)))

    def claim(self) -> None:
        self._define(f"CREATE TABLE {_MARK} ()")

    def close(self) -> None:
        self._readers.close()
        self._connection.close()

    def _check_connected(self) -> None:
        if self._connection.broken:
            raise StorageFault("PostgreSQL: the connection was lost; nothing was kept")

    def _is_idle(self) -> bool:
        return bool(self._connection.pgconn.transaction_status == self._idle)

    def _flush(self) -> None:
        """Send the control statements that wait, in one round trip."""
        if self._pending:
            statements, self._pending = "; ".join(self._pending), []
            self._control(statements)

    def _check_inside(self) -> None:
        if self._is_idle():
            raise StorageFault("PostgreSQL: outside a transaction, or it was undone; try again")

    def _run(self, statement: str, parameters: Row | None = None) -> Any:
        """Inside the transaction, after the control statements that wait; errors in our words."""
        if self._pending:
            self._flush()
        self._check_inside()
        try:
            return self._connection.execute(statement, parameters)
        except self._psycopg.Error as error:
            raise self._fault(error) from error

    def _change(self, statement: str, parameters: Row) -> int:
        changed: int = self._run(statement, parameters).rowcount
        return changed

    def _change_each(self, statement: str, parameters: list[Row]) -> int:
        self._flush()
        self._check_inside()
        try:
            with self._connection.cursor() as cursor:
                cursor.executemany(statement, parameters)  # in one round trip
                changed: int = cursor.rowcount
        except self._psycopg.Error as error:
            raise self._fault(error) from error
        return changed

    def _fetch(self, statement: str, parameters: Row) -> list[Row]:
        rows: list[Row] = self._run(statement, parameters).fetchall()
        return rows

    def _define(self, statement: str) -> None:
        self._run(statement)

    def _control(self, statements: str) -> None:
        """Run statements, in a transaction or not."""
        try:
            self._connection.execute(statements)
        except self._psycopg.Error as error:
            raise self._fault(error) from error

    def _ask(self, statement: str, parameters: Row) -> list[Row]:
        rows: list[Row] = self._connection.execute(statement, parameters).fetchall()
        return rows

    def _fault(self, error: Any) -> StorageFault:
        kind = _FAULTS.get(error.sqlstate or "", StorageFault)
        return kind(f"PostgreSQL: {str(error).strip()}")


class _PostgresReader(PostgresSession):
    """A connection that is kept to read snapshots, for as long as they take."""

    def __init__(self, url: str) -> None:
        super().__init__(url, read_only=True)

    def start(self) -> None:
        self.memory.clear()
        self._control("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def stop(self) -> None:
        self._control("ROLLBACK")


def _address(url: str, psycopg: Any) -> str:
    """The address with our settings where it has none.

    The driver's own messages about an address it cannot read quote parts of it: a password with an
    unescaped sign in it is taken for a host or a port.
    """
    user, at, _ = url.partition("://")[2].rpartition("@")
    try:
        given = psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.Error:
        given = None
    ports = str((given or {}).get("port", "")).split(",")
    if given is None or (at and set("/@") & set(user)) or not _are_numbers(ports):
        raise InvalidInput(
            "expected postgresql://USER:PASSWORD@HOST:PORT/NAME, found an address that cannot be "
            "read; a / @ : or % in a name or password is written %2F %40 %3A or %25"
        )
    address: str = psycopg.conninfo.make_conninfo(**(_CONNECTION | given))
    return address


def _are_numbers(ports: list[str]) -> bool:
    return all(port.isdecimal() or not port for port in ports)
