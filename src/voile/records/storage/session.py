"""What a database must be able to do to carry voile's storage; writes of many, grouped.

`Reader` and `Transaction` are what commands see; `Session` adds what the group commit needs. Three
classes implement all of it: memory (the readable specification), SQLite and PostgreSQL.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, Protocol

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

    def get_all(self, wanted: Sequence[tuple[Table[Any], Key]]) -> list[Any]:
        """The records with these keys, or None for each; of several tables in one statement."""

    def last_all(self, table: Table[Any], firsts: Sequence[Value]) -> list[Any]:
        """For each value of the first of two key columns the record that comes last, or None."""

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

    def put_all(self, table: Table[Record], records: Sequence[Record]) -> None:
        """Add each of several records with different keys, or overwrite the one that is there."""

    def delete_all(self, table: Table[Any], keys: Sequence[Key]) -> int:
        """Remove the records with these keys; how many of them there were."""


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


# --- Reads and writes in few statements: for commands that read and write records one by one -----
# A statement costs more than what it is about: a database finds or takes a hundred records in
# little more time than one. So a command says what it will need before it reads (`get_all`,
# `last_all`), and what it writes is kept until its end and handed over table by table; what it
# reads it sees as if it had been written. Nobody else writes meanwhile, so nothing is read twice.


class ReadOnce:
    """A reader that remembers what was read, for as long as nobody else can write."""

    def __init__(self, reader: Reader) -> None:
        self.memory = reader.memory
        self._reader = reader
        self._seen: dict[tuple[Table[Any], Key], Any] = {}
        """Each record as it is now; None for a key that has none."""
        self._last: dict[tuple[Table[Any], Value], Any] = {}
        self._scanned: dict[tuple[Any, ...], list[Any]] = {}

    def get(self, table: Table[Record], *key: Value) -> Record | None:
        place = table, key
        if place not in self._seen:
            self._seen[place] = self._reader.get(table, *key)
        found: Record | None = self._seen[place]
        return found

    def get_all(self, wanted: Sequence[tuple[Table[Any], Key]]) -> list[Any]:
        missing = list(dict.fromkeys(place for place in wanted if place not in self._seen))
        if missing:
            self._seen.update(zip(missing, self._reader.get_all(missing), strict=True))
        return [self._seen[place] for place in wanted]

    def last_all(self, table: Table[Any], firsts: Sequence[Value]) -> list[Any]:
        missing = list(dict.fromkeys(f for f in firsts if (table, f) not in self._last))
        if missing:
            for first, found in zip(missing, self._reader.last_all(table, missing), strict=True):
                self._last[table, first] = self._later(table, first, found)
        return [self._last[table, first] for first in firsts]

    def _later(self, table: Table[Any], first: Value, found: Any) -> Any:  # noqa: ARG002
        return found

    def scan(
        self,
        table: Table[Record],
        *prefix: Value,
        after: Value = None,
        limit: int | None = None,
        descending: bool = False,
    ) -> list[Record]:
        return list(self._scan(table, prefix, after, limit, descending))

    def _scan(self, *asked: Any) -> list[Any]:
        if asked not in self._scanned:
            table, prefix, after, limit, descending = asked
            self._scanned[asked] = self._reader.scan(
                table, *prefix, after=after, limit=limit, descending=descending
            )
        return self._scanned[asked]


@contextmanager
def grouped_writes(transaction: Transaction) -> Iterator[GroupedWrites]:
    """A transaction whose writes reach the database at the end, if nothing was raised."""
    grouped = GroupedWrites(transaction)
    try:
        yield grouped
    except BaseException:
        transaction.memory.clear()  # it may speak of what is not written
        raise
    grouped.flush()


class GroupedWrites(ReadOnce):
    """Reads through what is to be written.

    A key that turns out to be taken, or missing, is told at once if it was read or written here,
    else at the end. So are values that no database takes.
    """

    def __init__(self, transaction: Transaction) -> None:
        super().__init__(transaction)
        self._inner = transaction
        self._written: defaultdict[Table[Any], dict[Key, Any]] = defaultdict(dict)
        self._added: set[tuple[Table[Any], Key]] = set()
        self._unseen: set[tuple[Table[Any], Key]] = set()
        """What was written before it was read: that it was there, or not, is not known."""

    def insert(self, table: Table[Record], record: Record) -> None:
        key = table.key_in(record)
        place = table, key
        seen = self._seen.get(place, _UNKNOWN)
        if seen is _UNKNOWN:
            self._unseen.add(place)
        elif seen is not None:
            raise DuplicateRecord(table.name, key)
        self._added.add(place)
        self._write(place, record)

    def insert_all(self, table: Table[Record], records: Sequence[Record]) -> None:
        for record in records:
            self.insert(table, record)

    def replace(self, table: Table[Record], record: Record) -> None:
        key = table.key_in(record)
        place = table, key
        seen = self._seen.get(place, _UNKNOWN)
        if seen is _UNKNOWN:
            self._unseen.add(place)
        elif seen is None:
            raise MissingRecord(table.name, key)
        self._write(place, record)

    def replace_all(self, table: Table[Record], records: Sequence[Record]) -> None:
        for record in records:
            self.replace(table, record)

    def put_all(self, table: Table[Record], records: Sequence[Record]) -> None:
        for record in records:
            there = self.get(table, *table.key_in(record)) is not None
            (self.replace if there else self.insert)(table, record)

    def delete_all(self, table: Table[Any], keys: Sequence[Key]) -> int:
        self.flush()
        return self._inner.delete_all(table, keys)

    def _write(self, place: tuple[Table[Any], Key], record: Any) -> None:
        table, key = place
        self.memory.pop(table.name, None)
        self._seen[place] = self._written[table][key] = record
        end = table, key[0]
        if end in self._last:
            self._last[end] = self._later(table, key[0], self._last[end])

    def _later(self, table: Table[Any], first: Value, found: Any) -> Any:
        written = self._written.get(table, {})
        keys = [key for key in written if key[0] == first]
        if found is not None:
            keys.append(table.key_in(found))
        last = max(keys, default=None)
        return found if last is None else written.get(last, found)

    def scan(
        self,
        table: Table[Record],
        *prefix: Value,
        after: Value = None,
        limit: int | None = None,
        descending: bool = False,
    ) -> list[Record]:
        scanned = self._scan(table, prefix, after, limit, descending)
        written = self._written.get(table)
        if not written:
            return list(scanned)
        found = {table.key_in(each): each for each in scanned}
        depth = len(prefix)
        for key, record in written.items():
            if key[:depth] == prefix and (after is None or _beyond(key[depth], after, descending)):
                found[key] = record
        keys = sorted(found, reverse=descending)
        return [found[key] for key in keys[:limit]]

    def flush(self) -> None:
        """Hand over what is kept."""
        # What was kept in memory since speaks of the records as they are after this.
        memory = {t.name: self.memory[t.name] for t in self._written if t.name in self.memory}
        for table, records in self._written.items():
            self._hand_over(table, records)
        self.memory.update(memory)
        for each in (self._written, self._seen, self._last, self._scanned):
            each.clear()
        self._added.clear()
        self._unseen.clear()

    def _hand_over(self, table: Table[Any], records: dict[Key, Any]) -> None:
        """Where it is known which keys are there, one statement adds and overwrites."""
        new = [record for key, record in records.items() if (table, key) in self._added]
        if len(new) == len(records):
            self._inner.insert_all(table, new)
        elif len(records) == 1 or any((table, key) in self._unseen for key in records):
            changed = [record for key, record in records.items() if (table, key) not in self._added]
            self._inner.insert_all(table, new)
            self._inner.replace_all(table, changed)
        else:
            self._inner.put_all(table, list(records.values()))


_UNKNOWN: Final = object()


def _beyond(value: Any, after: Any, descending: bool) -> bool:
    return bool(value < after if descending else value > after)
