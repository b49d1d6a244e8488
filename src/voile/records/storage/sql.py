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
from itertools import chain
from typing import Any, Final, Generic, Protocol, TypeVar

from voile.core.errors import DuplicateRecord, MissingRecord, StorageFault
from voile.records.storage.session import Reader
from voile.records.storage.tables import Column, Key, Record, Row, Table, Value


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

    def insert(self, table: Table[Any], rows: int) -> str:
        return f"{self._insert(table, rows)} DO NOTHING"

    def put(self, table: Table[Any], rows: int) -> str:
        others = [name for name in table.column_names if name not in table.key]
        changes = ", ".join(f"{name} = excluded.{name}" for name in others or table.key)
        return f"{self._insert(table, rows)} DO UPDATE SET {changes}"

    def _insert(self, table: Table[Any], rows: int) -> str:
        row = f"({', '.join(self.parameter for _ in table.column_names)})"
        return (
            f"INSERT INTO {table.name} ({', '.join(table.column_names)}) "
            f"VALUES {', '.join([row] * rows)} ON CONFLICT ({', '.join(table.key)})"
        )

    def replace(self, table: Table[Any]) -> str:
        others = [name for name in table.column_names if name not in table.key]
        changes = ", ".join(f"{name} = {self.parameter}" for name in others or table.key)
        return f"UPDATE {table.name} SET {changes} WHERE {self._equal(table.key)}"

    def delete(self, table: Table[Any]) -> str:
        return f"DELETE FROM {table.name} WHERE {self._equal(table.key)}"

    def get(self, table: Table[Any]) -> str:
        columns = ", ".join(table.column_names)
        return f"SELECT {columns} FROM {table.name} WHERE {self._equal(table.key)}"

    def get_all(self, wanted: tuple[tuple[Table[Any], int], ...]) -> str:
        """So many keys of each table; a row begins with the place of its table, and the columns of
        all tables follow, those of the others empty."""
        parts = []
        for place, (table, count) in enumerate(wanted):
            columns = ", ".join(
                name if other is table else f"CAST(NULL AS {self._plain_type(column)})"
                for other, _ in wanted
                for name, column in zip(other.column_names, other.columns, strict=True)
            )
            chosen = " OR ".join([f"({self._equal(table.key)})"] * count)
            if len(table.key) == 1:
                chosen = f"{table.key[0]} IN ({', '.join([self.parameter] * count)})"
            parts.append(f"SELECT {place}, {columns} FROM {table.name} WHERE {chosen}")
        return " UNION ALL ".join(parts)

    def _plain_type(self, column: Column) -> str:
        return self.types[column.kind].partition(" COLLATE")[0] or "REAL"

    def last_all(self, table: Table[Any], count: int) -> str:
        """The last record of each of so many values of the first key column, of two."""
        first, second = table.key
        kind = self._plain_type(table.columns[table.key_positions[0]])
        values = ", ".join([f"(CAST({self.parameter} AS {kind}))"] * count)
        columns = ", ".join(table.column_names)
        last = f"(SELECT max({second}) FROM {table.name} WHERE {first} = wanted)"
        return (
            f"WITH firsts(wanted) AS (VALUES {values}) SELECT {columns} FROM firsts "
            f"JOIN {table.name} ON {first} = wanted AND {second} = {last}"
        )

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


MOST_TOGETHER: Final = 64
"""Rows written by one statement. All counts are powers of two: so there are few statements, and the
drivers keep all of them."""
MOST_READ: Final = 256
"""Keys looked up by one statement."""


def _padded(some: list[Any]) -> list[Any]:
    """The last one repeated, up to a power of two."""
    return some + [some[-1]] * ((1 << (len(some) - 1).bit_length()) - len(some))


class SqlRecords:
    """`Migrator` over a driver: a subclass says how to run one statement."""

    def __init__(self, dialect: Dialect) -> None:
        self.memory: dict[str, Any] = {}
        self._dialect = dialect
        self._insert = cache(dialect.insert)
        self._put = cache(dialect.put)
        self._replace = cache(dialect.replace)
        self._delete = cache(dialect.delete)
        self._get = cache(dialect.get)
        self._together = cache(self._get_together)
        self._last_all = cache(dialect.last_all)
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
        if not self._change(self._insert(table, 1), row):
            raise DuplicateRecord(table.name, table.key_of(row))

    def insert_all(self, table: Table[Record], records: Sequence[Record]) -> None:
        self.memory.pop(table.name, None)
        rows = list(map(table.row, records))
        if self._change_together(self._insert, table, rows) != len(rows):
            keys = list(map(table.key_of, rows))
            stored = [tuple(self._fetch(self._get(table), key)[0]) for key in keys]
            pairs = zip(keys, rows, stored, strict=True)
            taken = next((key for key, row, found in pairs if row != found), keys[0])
            raise DuplicateRecord(table.name, taken)

    def _change_together(
        self, write: Callable[[Table[Any], int], str], table: Table[Any], rows: list[Row]
    ) -> int:
        """Many rows in few statements, of which there are few."""
        changed = start = 0
        while (left := len(rows) - start) > 0:
            count = min(MOST_TOGETHER, 1 << left.bit_length() - 1)
            values = tuple(chain.from_iterable(rows[start : start + count]))
            changed += self._change(write(table, count), values)
            start += count
        return changed

    def put_all(self, table: Table[Record], records: Sequence[Record]) -> None:
        self.memory.pop(table.name, None)
        self._change_together(self._put, table, list(map(table.row, records)))

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

    def delete_all(self, table: Table[Any], keys: Sequence[Key]) -> int:
        self.memory.pop(table.name, None)
        checked = list(map(table.checked_key, keys))
        return self._change_each(self._delete(table), checked) if checked else 0

    def _is_there(self, table: Table[Any], key: Key) -> bool:
        return bool(self._fetch(self._get(table), key))

    def get(self, table: Table[Record], *key: Value) -> Record | None:
        rows = self._fetch(self._get(table), table.checked_key(key))
        return table.from_row(rows[0]) if rows else None

    def get_all(self, wanted: Sequence[tuple[Table[Any], Key]]) -> list[Any]:
        starts = range(0, len(wanted), MOST_READ)
        some = [self._get_some(wanted[start : start + MOST_READ]) for start in starts]
        return list(chain.from_iterable(some))

    def _get_some(self, wanted: Sequence[tuple[Table[Any], Key]]) -> list[Any]:
        keys: dict[Table[Any], list[Key]] = {}
        for table, key in wanted:
            keys.setdefault(table, []).append(table.checked_key(key))
        padded = {table: _padded(some) for table, some in keys.items()}
        statement, own = self._together(tuple((t, len(some)) for t, some in padded.items()))
        values = chain.from_iterable(chain.from_iterable(padded.values()))
        found: dict[tuple[Table[Any], Key], Any] = {}
        for row in self._fetch(statement, tuple(values)):
            table, columns = own[row[0]]  # type: ignore[index]
            record = table.from_row(row[columns])
            found[table, table.key_in(record)] = record
        return [found.get(place) for place in wanted]

    def _get_together(
        self, wanted: tuple[tuple[Table[Any], int], ...]
    ) -> tuple[str, list[tuple[Table[Any], slice]]]:
        """The statement, and which columns of a row belong to which table."""
        own, start = [], 1
        for table, _ in wanted:
            end = start + len(table.column_names)
            own.append((table, slice(start, end)))
            start = end
        return self._dialect.get_all(wanted), own

    def last_all(self, table: Table[Any], firsts: Sequence[Value]) -> list[Any]:
        for first in firsts:
            table.checked_prefix((first,))
        wanted = list(dict.fromkeys(firsts))
        found: dict[Value, Any] = {}
        for start in range(0, len(wanted), MOST_READ):
            padded = _padded(wanted[start : start + MOST_READ])
            for row in self._fetch(self._last_all(table, len(padded)), tuple(padded)):
                found[row[table.key_positions[0]]] = table.from_row(row)
        return [found.get(first) for first in firsts]

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
            reader = self._started()
            try:
                yield reader
                reader.stop()
            except BaseException:
                reader.close()
                raise
            self._keep(reader)
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
