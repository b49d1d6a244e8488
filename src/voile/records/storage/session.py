"""What a database must be able to do to carry voile's storage; writes of many, grouped.

`Reader` and `Transaction` are what commands see; `Session` adds what the group commit needs. Three
classes implement all of it: memory (the readable specification), SQLite and PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from voile.core.errors import DuplicateRecord, MissingRecord
from voile.records.storage.tables import Key, Record, Table, Value


class Reader(Protocol):
    """Reading records."""

    memory: dict[str, Any]
    """What somebody makes of the records of a table, under its name, from one transaction to the
    next. Gone whenever records may have become others: the table was written (whoever keeps what
    it wrote keeps it again), another session has written, something was undone."""

    def get(self, table: Table[Record], *key: Value) -> Record | None:
        """The record with this key, or None."""

    def scan(
        self,
        table: Table[Record],
        *prefix: Value,
        after: Value = None,
        limit: int | None = None,
        descending: bool = False,
    ) -> list[Record]:
        """Records whose key begins with `prefix`, in the order of the key (text by code point).

        `after` continues a scan: only records whose next key column lies beyond it (before it, if
        descending) are returned.
        """


class Transaction(Reader, Protocol):
    """Reading and writing records; everything a command does happens together or not at all."""

    def insert(self, table: Table[Record], record: Record) -> None:
        """Add a record; `DuplicateRecord` if its key is taken."""

    def insert_all(self, table: Table[Record], records: Sequence[Record]) -> None:
        """Add several records; `DuplicateRecord` if the key of one is taken."""

    def replace(self, table: Table[Record], record: Record) -> None:
        """Overwrite the record with the same key; `MissingRecord` if there is none."""

    def replace_all(self, table: Table[Record], records: Sequence[Record]) -> None:
        """Overwrite each of several records; `MissingRecord` if one is not there."""


class Migrator(Transaction, Protocol):
    """What a migration may do besides."""

    def create(self, table: Table[Any]) -> None:
        """Create an empty table."""

    def drop(self, table: Table[Any]) -> None:
        """Remove a table and what is in it."""

    def rename(self, table: Table[Any], name: str) -> None:
        """Give a table another name."""


class Session(Migrator, Protocol):
    """One connection: transactions and, inside one, a savepoint for each command."""

    def begin(self) -> None:
        """Start a transaction as the only writer of the database; `StorageBusy` after a while."""

    def savepoint(self) -> None:
        """Remember this state."""

    def release(self) -> None:
        """Keep what happened since the savepoint."""

    def undo(self) -> None:
        """Go back to the savepoint."""

    def commit(self) -> None:
        """Make everything durable, or raise and keep nothing."""

    def rollback(self) -> None:
        """Keep nothing of the transaction; harmless where there is none."""

    def snapshot(self) -> AbstractContextManager[Reader]:
        """What was committed up to one moment, while others go on writing; for any thread."""

    def is_blank(self) -> bool:
        """Whether the database holds nothing at all."""

    def is_ours(self) -> bool:
        """Whether voile made this database."""

    def claim(self) -> None:
        """Mark a blank database as voile's."""

    def close(self) -> None:
        """Let go of the database."""


# --- Writes of many, grouped by table: for commands that read and write records one by one -------
# A database takes a hundred records of one table in little more time than one. So a command that
# serves many callers keeps what it writes until its end, and hands it over table by table; what it
# reads it sees as if it had been written. Nobody else writes meanwhile, so nothing is read twice.


@contextmanager
def grouped_writes(transaction: Transaction) -> Iterator[Transaction]:
    """A transaction whose writes reach the database at the end, if nothing was raised."""
    grouped = GroupedWrites(transaction)
    yield grouped
    grouped.flush()


class GroupedWrites:
    """Reads through what is to be written.

    A key that turns out to be taken, or missing, is told at once if it was read or written here,
    else at the end.
    """

    def __init__(self, transaction: Transaction) -> None:
        self._inner = transaction
        self.memory = transaction.memory
        self._new: dict[Table[Any], dict[Key, Any]] = {}
        self._changed: dict[Table[Any], dict[Key, Any]] = {}
        self._got: dict[tuple[Table[Any], Key], Any] = {}
        self._scanned: dict[tuple[Any, ...], list[Any]] = {}

    def insert(self, table: Table[Record], record: Record) -> None:
        self.memory.pop(table.name, None)
        key = table.key_of(table.row(record))
        if self._written(table, key) is not None or self._got.get((table, key)) is not None:
            raise DuplicateRecord(table.name, key)
        self._new.setdefault(table, {})[key] = record

    def insert_all(self, table: Table[Record], records: Sequence[Record]) -> None:
        for record in records:
            self.insert(table, record)

    def replace(self, table: Table[Record], record: Record) -> None:
        self.memory.pop(table.name, None)
        key = table.key_of(table.row(record))
        if key in self._new.get(table, ()):
            self._new[table][key] = record
            return
        if self._got.get((table, key), record) is None:
            raise MissingRecord(table.name, key)
        self._changed.setdefault(table, {})[key] = record

    def replace_all(self, table: Table[Record], records: Sequence[Record]) -> None:
        for record in records:
            self.replace(table, record)

    def get(self, table: Table[Record], *key: Value) -> Record | None:
        written: Record | None = self._written(table, table.checked_key(key))
        if written is not None:
            return written
        if (table, key) not in self._got:
            self._got[table, key] = self._inner.get(table, *key)
        found: Record | None = self._got[table, key]
        return found

    def scan(
        self,
        table: Table[Record],
        *prefix: Value,
        after: Value = None,
        limit: int | None = None,
        descending: bool = False,
    ) -> list[Record]:
        asked = (table, prefix, after, limit, descending)
        if asked not in self._scanned:
            self._scanned[asked] = self._inner.scan(
                table, *prefix, after=after, limit=limit, descending=descending
            )
        written = self._new.get(table, {}) | self._changed.get(table, {})
        if not written:
            return list(self._scanned[asked])
        found = {table.key_of(table.row(each)): each for each in self._scanned[asked]}
        depth = len(prefix)
        for key, record in written.items():
            if key[:depth] == prefix and (after is None or _beyond(key[depth], after, descending)):
                found[key] = record
        keys = sorted(found, reverse=descending)
        return [found[key] for key in keys[:limit]]

    def flush(self) -> None:
        """Hand over what is kept."""
        for table, records in self._new.items():
            self._inner.insert_all(table, list(records.values()))
        for table, records in self._changed.items():
            self._inner.replace_all(table, list(records.values()))
        self._new, self._changed, self._got, self._scanned = {}, {}, {}, {}

    def _written(self, table: Table[Any], key: Key) -> Any:
        new = self._new.get(table)
        if new is not None and key in new:
            return new[key]
        changed = self._changed.get(table)
        return None if changed is None else changed.get(key)


def _beyond(value: Any, after: Any, descending: bool) -> bool:
    return bool(value < after if descending else value > after)
