"""Opening a database: whose it is, which version it has, and bringing it up to date."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from voile.core.errors import ForeignDatabase, InvalidInput, NewerDatabase
from voile.core.storage.group_commit import Storage
from voile.core.storage.memory import MemoryDatabase, MemorySession
from voile.core.storage.parts import Part
from voile.core.storage.postgres import PostgresSession
from voile.core.storage.session import Session
from voile.core.storage.sqlite import SqliteSession
from voile.core.storage.tables import Table


@dataclass(frozen=True)
class PartVersion:
    """Which version of a part's tables the database holds."""

    name: str
    version: int


PARTS = Table("voile_parts", PartVersion, key=("name",))


def open_storage(place: str | Path, parts: Sequence[Part]) -> Storage:
    """Open a database, creating or migrating the tables of `parts` in one transaction.

    Args:
        place: a path or `sqlite:PATH` for a file, `postgresql://...` for a server, `memory:` for
            one that is gone when it is closed.
        parts: the components whose tables are used; one database can hold several, so that they
            commit together.

    Raises:
        ForeignDatabase: it belongs to another program.
        NewerDatabase: a newer voile wrote it.
        StorageFault: it cannot be opened, read or written.
    """
    return storage_on(_session(place), parts)


def storage_on(session: Session, parts: Sequence[Part]) -> Storage:
    """The same on a session that is open already."""
    try:
        session.begin()
        _claim(session)
        for part in parts:
            _bring_up_to_date(session, part)
        session.commit()
    except BaseException:
        session.close()
        raise
    return Storage(session)


def _session(place: str | Path) -> Session:
    text = str(place)
    if isinstance(place, Path):
        return SqliteSession(place)
    if text == "memory:":
        return MemorySession(MemoryDatabase())
    if text.startswith(("postgresql://", "postgres://")):
        return PostgresSession(text)
    if text.startswith("sqlite:"):
        return SqliteSession(Path(text.removeprefix("sqlite:")))
    if "://" in text or not text:
        raise InvalidInput(
            f"expected a path, sqlite:PATH, postgresql://... or memory:, found {text!r}"
        )
    return SqliteSession(Path(text))


def _claim(session: Session) -> None:
    if session.is_ours():
        return
    if not session.is_blank():
        raise ForeignDatabase(
            "this database holds tables of another program; give voile an empty one, or a schema "
            "of its own in the search path"
        )
    session.claim()
    session.create(PARTS)


def _bring_up_to_date(session: Session, part: Part) -> None:
    found = session.get(PARTS, part.name)
    if found is None:
        for table in part.tables:
            session.create(table)
        session.insert(PARTS, PartVersion(part.name, part.version))
        return
    if found.version > part.version:
        raise NewerDatabase(
            f"this database holds version {found.version} of {part.name!r}, this voile knows up to "
            f"{part.version}; update voile"
        )
    for version in range(found.version, part.version):
        part.migrations[version](session)
    if found.version < part.version:
        session.replace(PARTS, PartVersion(part.name, part.version))
