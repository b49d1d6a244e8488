"""Records as SQL, for any database whose driver takes positional parameters.

A statement is written once for each table and kept; the drivers keep the prepared form.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Generic, Protocol, TypeVar

from voile.core.errors import DuplicateRecord, MissingRecord, StorageFault
from voile.records.storage.session import Reader
from voile.records.storage.tables import Key, Record, Row, Table, Value


@dataclass(frozen=True)
class Dialect:
    """Where two databases differ: the sign of a parameter and the names of the types."""

    parameter: str
    types: Mapping[type[Any], str]

    def create(self, table: Table[Any]) -> str:
        columns = ", ".join(
            f"{c.name} {self.types[c.kind]}{'' if c.optional else ' NOT NULL'}"
            for c in table.columns
        )
        key = ", ".join(table.key)
        return f"CREATE TABLE {table.name} ({columns}, PRIMARY KEY ({key}))"

    def insert(self, table: Table[Any]) -> str:
        columns = ", ".join(table.column_names)
        values = ", ".join(self.parameter for _ in table.column_names)
        return (
            f"INSERT INTO {table.name} ({columns}) VALUES ({values}) "
            f"ON CONFLICT ({', '.join(table.key)}) DO NOTHING"
        )

    def replace(self, table: Table[Any]) -> str:
        others = [name for name in table.column_names if name not in table.key]
        changes = ", ".join(f"{name} = {self.parameter}" for name in others or table.key)
        return f"UPDATE {table.name} SET {changes} WHERE {self._equal(table.key)}"

    def get(self, table: Table[Any]) -> str:
        columns = ", ".join(table.column_names)
        return f"SELECT {columns} FROM {table.name} WHERE {self._equal(table.key)}"

    def scan(
        self, table: Table[Any], depth: int, after: bool, limit: bool, descending: bool
    ) -> str:
        conditions = [f"{name} = {self.parameter}" for name in table.key[:depth]]
        if after:
            beyond = "<" if descending else ">"
            conditions.append(f"{table.key[depth]} {beyond} {self.parameter}")
        direction = " DESC" if descending else ""
        order = ", ".join(f"{name}{direction}" for name in table.key)
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        end = f" LIMIT {self.parameter}" if limit else ""
        columns = ", ".join(table.column_names)
        return f"SELECT {columns} FROM {table.name}{where} ORDER BY {order}{end}"

    def _equal(self, names: Sequence[str]) -> str:
        return " AND ".join(f"{name} = {self.parameter}" for name in names)


class SqlRecords:
    """`Migrator` over a driver: a subclass says how to run one statement."""

    def __init__(self, dialect: Dialect) -> None:
        self.memory: dict[str, Any] = {}
        self._dialect = dialect
        self._insert = cache(dialect.insert)
        self._replace = cache(dialect.replace)
        self._get = cache(dialect.get)
        self._scan = cache(dialect.scan)

    def _change(self, statement: str, parameters: Row) -> int:
        """Run a statement that changes rows; how many it changed."""
        raise NotImplementedError

    def _change_each(self, statement: str, parameters: list[Row]) -> int:
        """Run one statement for each row of parameters; how many rows they changed together."""
        raise NotImplementedError

    def _fetch(self, statement: str, parameters: Row) -> list[Row]:
        """Run a statement that returns rows."""
        raise NotImplementedError

    def _define(self, statement: str) -> None:
        """Run a statement that changes tables."""
        raise NotImplementedError

    def insert(self, table: Table[Record], record: Record) -> None:
        self.memory.pop(table.name, None)
        row = table.row(record)
        if not self._change(self._insert(table), row):
            raise DuplicateRecord(table.name, table.key_of(row))

    def insert_all(self, table: Table[Record], records: Sequence[Record]) -> None:
        self.memory.pop(table.name, None)
        rows = list(map(table.row, records))
        if rows and self._change_each(self._insert(table), rows) != len(rows):
            keys = list(map(table.key_of, rows))
            stored = [tuple(self._fetch(self._get(table), key)[0]) for key in keys]
            pairs = zip(keys, rows, stored, strict=True)
            taken = next((key for key, row, found in pairs if row != found), keys[0])
            raise DuplicateRecord(table.name, taken)

    def replace(self, table: Table[Record], record: Record) -> None:
        self.memory.pop(table.name, None)
        row = table.row(record)
        if not self._change(self._replace(table), table.replacement(row)):
            raise MissingRecord(table.name, table.key_of(row))

    def replace_all(self, table: Table[Record], records: Sequence[Record]) -> None:
        self.memory.pop(table.name, None)
        rows = list(map(table.row, records))
        changes = list(map(table.replacement, rows))
        if self._change_each(self._replace(table), changes) != len(rows):
            missing = next(key for key in map(table.key_of, rows) if not self._is_there(table, key))
            raise MissingRecord(table.name, missing)

    def _is_there(self, table: Table[Any], key: Key) -> bool:
        return bool(self._fetch(self._get(table), key))

    def get(self, table: Table[Record], *key: Value) -> Record | None:
        rows = self._fetch(self._get(table), table.checked_key(key))
        return table.from_row(rows[0]) if rows else None

    def scan(
        self,
        table: Table[Record],
        *prefix: Value,
        after: Value = None,
        limit: int | None = None,
        descending: bool = False,
    ) -> list[Record]:
        values = prefix if after is None else (*prefix, after)
        table.checked_prefix(values)
        statement = self._scan(table, len(prefix), after is not None, limit is not None, descending)
        parameters = values if limit is None else (*values, limit)
        return list(map(table.from_row, self._fetch(statement, parameters)))

    def create(self, table: Table[Any]) -> None:
        self.memory.clear()
        self._define(self._dialect.create(table))

    def drop(self, table: Table[Any]) -> None:
        self.memory.clear()
        self._define(f"DROP TABLE {table.name}")

    def rename(self, table: Table[Any], name: str) -> None:
        self.memory.clear()
        self._define(f"ALTER TABLE {table.name} RENAME TO {name}")


# --- Connections that only read, kept from one snapshot to the next ------------------------------
# Opening one takes longer than most reads: 0.3 ms for a file, 15 ms for a server. One that is kept
# is in no transaction: it holds up no writer, and each snapshot looks at a new moment.


MOST_IDLE: Final = 4
"""How many are kept while nobody reads."""


class ReadingSession(Reader, Protocol):
    """One connection."""

    def start(self) -> None:
        """Look at what is committed now, with nothing remembered."""

    def stop(self) -> None:
        """Look at it no longer."""

    def close(self) -> None:
        """Let go of the database."""


Connected = TypeVar("Connected", bound=ReadingSession)


class Readers(Generic[Connected]):
    """The reading connections of one session, for any thread; each is used by one at a time."""

    def __init__(self, connect: Callable[[], Connected]) -> None:
        self._connect = connect
        self._idle: list[Connected] = []
        self._gate = threading.Lock()
        self._closed = False
        self._lent = 0
        self.open: weakref.WeakSet[Connected] = weakref.WeakSet()

    @contextmanager
    def one(self) -> Iterator[Connected]:
        """A reader that looks at this moment; closed if anything goes wrong with it."""
        self._count(1)
        try:
            with self._lending() as reader:
                yield reader
        finally:
            self._count(-1)

    @property
    def in_use(self) -> bool:
        """Whether anybody looks through one of them, or is about to."""
        return self._lent > 0

    def close(self) -> None:
        """Close those that nobody uses; the others, when they are given back."""
        with self._gate:
            self._closed = True
            idle, self._idle = self._idle, []
        for reader in idle:
            reader.close()

    def _count(self, change: int) -> None:
        with self._gate:
            self._lent += change

    @contextmanager
    def _lending(self) -> Iterator[Connected]:
        reader = self._started()
        try:
            yield reader
            reader.stop()
        except BaseException:
            reader.close()
            raise
        self._keep(reader)

    def _started(self) -> Connected:
        """One that was kept, if its connection still works (a server may have been restarted)."""
        while (kept := self._taken()) is not None:
            try:
                kept.start()
            except StorageFault:
                kept.close()
            else:
                return kept
        reader = self._connect()
        self.open.add(reader)
        try:
            reader.start()
        except BaseException:
            reader.close()
            raise
        return reader

    def _taken(self) -> Connected | None:
        with self._gate:
            return self._idle.pop() if self._idle else None

    def _keep(self, reader: Connected) -> None:
        with self._gate:
            keep = not self._closed and len(self._idle) < MOST_IDLE
            if keep:
                self._idle.append(reader)
        if not keep:
            reader.close()
