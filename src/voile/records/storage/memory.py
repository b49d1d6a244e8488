"""Storage in memory: the readable specification of the other two, and their test double."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from voile.core.errors import DuplicateRecord, MissingRecord, StorageFault, StorageReadOnly
from voile.records.storage.session import Reader
from voile.records.storage.tables import Key, Record, Row, Table, Value


class MemoryDatabase:
    """What outlives a session: rows by key and the keys in order, for each table."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[Key, Row]] = {}
        self.keys: dict[str, list[Key]] = {}
        self.claimed = False
        self.frozen = False
        self.writer = threading.Lock()

    def frozen_copy(self) -> MemoryDatabase:
        """The same rows, to be read."""
        other = MemoryDatabase()
        other.frozen = True
        with self.writer:
            other.rows = {name: dict(rows) for name, rows in self.rows.items()}
            other.keys = {name: list(keys) for name, keys in self.keys.items()}
        return other


class MemorySession:
    """A transaction is a list of what would undo it."""

    def __init__(self, database: MemoryDatabase) -> None:
        self._database = database
        self._undo: list[Callable[[], object]] = []
        self._mark = 0
        self._writing = False
        self.memory: dict[str, Any] = {}

    # --- transactions ---

    def begin(self) -> None:
        self._database.writer.acquire()
        self._writing = True
        self._undo.clear()
        self.memory.clear()

    def savepoint(self) -> None:
        self._check_inside()
        self._mark = len(self._undo)

    def release(self) -> None:
        pass

    def undo(self) -> None:
        self.memory.clear()
        while len(self._undo) > self._mark:
            self._undo.pop()()

    def commit(self) -> None:
        self._check_inside()
        self._undo.clear()
        self._end()

    def rollback(self) -> None:
        if self._writing:
            self._mark = 0
            self.undo()
            self._end()

    def _end(self) -> None:
        self._writing = False
        self._database.writer.release()

    @contextmanager
    def snapshot(self) -> Iterator[Reader]:
        """A copy; unlike the databases, memory waits for a transaction that is under way."""
        yield MemorySession(self._database.frozen_copy())

    def is_blank(self) -> bool:
        return not self._database.rows and not self._database.claimed

    def is_ours(self) -> bool:
        return self._database.claimed

    def claim(self) -> None:
        self._database.claimed = True

    def close(self) -> None:
        self.rollback()

    # --- records ---

    def insert(self, table: Table[Record], record: Record) -> None:
        self._check_writable()
        self.memory.pop(table.name, None)
        row = table.row(record)
        key = table.key_of(row)
        rows, keys = self._database.rows[table.name], self._database.keys[table.name]
        if key in rows:
            raise DuplicateRecord(table.name, key)
        rows[key] = row
        insort(keys, key)
        self._undo.append(lambda: _withdraw(rows, keys, key))

    def insert_all(self, table: Table[Record], records: Sequence[Record]) -> None:
        for record in records:
            self.insert(table, record)

    def replace(self, table: Table[Record], record: Record) -> None:
        self._check_writable()
        self.memory.pop(table.name, None)
        row = table.row(record)
        key = table.key_of(row)
        rows = self._database.rows[table.name]
        if key not in rows:
            raise MissingRecord(table.name, key)
        before, rows[key] = rows[key], row
        self._undo.append(lambda: rows.__setitem__(key, before))

    def replace_all(self, table: Table[Record], records: Sequence[Record]) -> None:
        for record in records:
            self.replace(table, record)

    def put_all(self, table: Table[Record], records: Sequence[Record]) -> None:
        for record in records:
            there = table.key_of(table.row(record)) in self._database.rows[table.name]
            (self.replace if there else self.insert)(table, record)

    def delete_all(self, table: Table[Any], keys: Sequence[Key]) -> int:
        self._check_writable()
        self.memory.pop(table.name, None)
        rows, order = self._database.rows[table.name], self._database.keys[table.name]
        there = [key for key in dict.fromkeys(map(table.checked_key, keys)) if key in rows]
        for key in there:
            self._undo.append(partial(_put_back, rows, order, key, rows[key]))
            _withdraw(rows, order, key)
        return len(there)

    def get_all(self, wanted: Sequence[tuple[Table[Any], Key]]) -> list[Any]:
        return [self.get(table, *key) for table, key in wanted]

    def last_all(self, table: Table[Any], firsts: Sequence[Value]) -> list[Any]:
        found = [self.scan(table, first, limit=1, descending=True) for first in firsts]
        return [some[0] if some else None for some in found]

    def get(self, table: Table[Record], *key: Value) -> Record | None:
        self._check_inside()
        row = self._database.rows[table.name].get(table.checked_key(key))
        return None if row is None else table.from_row(row)

    def scan(
        self,
        table: Table[Record],
        *prefix: Value,
        after: Value = None,
        limit: int | None = None,
        descending: bool = False,
    ) -> list[Record]:
        self._check_inside()
        rows, keys = self._database.rows[table.name], self._database.keys[table.name]
        depth = len(table.checked_prefix(prefix))
        first = bisect_left(keys, prefix, key=lambda key: key[:depth])
        last = bisect_right(keys, prefix, key=lambda key: key[:depth])
        chosen = keys[first:last]
        if after is not None:
            table.checked_prefix((*prefix, after))
            chosen = [k for k in chosen if (k[depth] < after if descending else k[depth] > after)]  # type: ignore[operator]
        chosen = chosen[::-1] if descending else chosen
        return [table.from_row(rows[key]) for key in chosen[:limit]]

    def _check_writable(self) -> None:
        if self._database.frozen:
            raise StorageReadOnly("a snapshot can only be read")
        self._check_inside()

    def _check_inside(self) -> None:
        if not (self._writing or self._database.frozen):
            raise StorageFault("outside a transaction, or it was undone; try again")

    # --- tables ---

    def create(self, table: Table[Any]) -> None:
        self._check_writable()
        self.memory.clear()
        database = self._database
        database.rows[table.name], database.keys[table.name] = {}, []
        self._undo.append(partial(self._forget, table.name))

    def drop(self, table: Table[Any]) -> None:
        self._check_writable()
        self.memory.clear()
        rows, keys = self._forget(table.name)
        self._undo.append(lambda: self._restore(table.name, rows, keys))

    def rename(self, table: Table[Any], name: str) -> None:
        self._check_writable()
        self.memory.clear()
        self._restore(name, *self._forget(table.name))
        self._undo.append(lambda: self._restore(table.name, *self._forget(name)))

    def _forget(self, name: str) -> tuple[dict[Key, Row], list[Key]]:
        return self._database.rows.pop(name), self._database.keys.pop(name)

    def _restore(self, name: str, rows: dict[Key, Row], keys: list[Key]) -> None:
        self._database.rows[name], self._database.keys[name] = rows, keys


def _put_back(rows: dict[Key, Row], keys: list[Key], key: Key, row: Row) -> None:
    rows[key] = row
    insort(keys, key)


def _withdraw(rows: dict[Key, Row], keys: list[Key], key: Key) -> None:
    del rows[key]
    del keys[bisect_left(keys, key)]
