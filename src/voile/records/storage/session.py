"""What a database must be able to do to carry voile's storage.

`Reader` and `Transaction` are what commands see; `Session` adds what the group commit needs. Three
classes implement all of it: memory (the readable specification), SQLite and PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from voile.records.storage.tables import Record, Table, Value


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
