"""Opening a database: whose it is, which version it has, and bringing it up to date."""

from __future__ import annotations

import os
import re
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from voile.core.errors import ForeignDatabase, InvalidInput, NewerDatabase
from voile.records.storage.memory import MemoryDatabase, MemorySession
from voile.records.storage.postgres import PostgresSession
from voile.records.storage.session import Migrator, Session
from voile.records.storage.sqlite import FileIdentity, SqliteSession
from voile.records.storage.storage import SharedSession, Storage
from voile.records.storage.tables import Table

# --- Tables that belong together, their version, and how an older version becomes the newest -----


@dataclass(frozen=True)
class Part:
    """The tables of one component, with their version.

    Args:
        name: the component, for example "ledger".
        tables: the tables of the newest version.
        version: goes up by one with each change of the tables.
        migrations: `migrations[n]` turns version n into n + 1, inside the opening transaction.
    """

    name: str
    tables: tuple[Table[Any], ...]
    version: int = 1
    migrations: Mapping[int, Callable[[Migrator], None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        missing = [n for n in range(1, self.version) if n not in self.migrations]
        if self.version < 1 or missing:
            raise InvalidInput(
                f"part {self.name!r} of version {self.version} lacks migrations from {missing}"
            )


# --------------------------------------------------------------------------------------------------


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
    return _up_to_date(_opened(place), parts)


def open_existing(place: str, parts: Sequence[Part]) -> Storage:
    """Open a database that is there: a mistyped path must not become an empty one."""
    path = file_of(place)
    if path is not None and not path.exists():
        raise InvalidInput(f"{path}: there is no such database; create one with `voile audit init`")
    return open_storage(place, parts)


def storage_on(session: Session, parts: Sequence[Part]) -> Storage:
    """The same on a session that is open already."""
    return _up_to_date(Storage(SharedSession(session)), parts)


def _up_to_date(storage: Storage, parts: Sequence[Part]) -> Storage:
    def command(session: Session) -> None:
        _claim(session)
        for part in parts:
            _bring_up_to_date(session, part)

    try:
        storage.submit(command)  # type: ignore[arg-type]  # opening may do more than others
    except BaseException:
        storage.close()
        raise
    return storage


def file_of(place: str | Path) -> Path | None:
    """The SQLite file that a place names; None if it names something else."""
    if isinstance(place, Path):
        return place
    if place.startswith("sqlite:"):
        return Path(place.removeprefix("sqlite:"))
    if place == "memory:" or place.startswith(_POSTGRES):
        return None
    if not place or _ADDRESS.match(place):
        scheme, colon, _ = place.partition(":")  # what follows may hold a password
        raise InvalidInput(
            "expected a path, sqlite:PATH, postgresql://... or memory:, found "
            f"{scheme + colon + '...' if place else 'nothing'}"
        )
    return Path(place)


def _opened(place: str | Path) -> Storage:
    path = file_of(place)
    if path is not None:
        return _on_file(path)
    if place == "memory:":
        return Storage(SharedSession(MemorySession(MemoryDatabase())))
    return Storage(SharedSession(PostgresSession(str(place))))


_POSTGRES = ("postgresql://", "postgres://")
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_FILES: weakref.WeakValueDictionary[FileIdentity | None, SharedSession] = (
    weakref.WeakValueDictionary()
)
_OPENING = threading.Lock()


def _on_file(path: Path) -> Storage:
    """One connection for each file of a process, however often and under whatever name it opens."""
    with _OPENING:
        shared = _FILES.get(FileIdentity.from_path(path))
        if shared is not None and not (storage := Storage(shared)).is_closed:
            return storage
        session = SqliteSession(path)
        shared = _FILES[session.file] = SharedSession(session)
        return Storage(shared)


def _forget_in_child() -> None:
    global _OPENING
    _OPENING = threading.Lock()  # another thread may have been opening something
    _FILES.clear()


os.register_at_fork(after_in_child=_forget_in_child)


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
