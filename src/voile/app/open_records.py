"""Records that stay open in a process: one opening for each database, shared by all who ask.

On first use log, keys and policy are made beside the database. A notebook cell that runs again gets
the opening that is there; another notebook has its own, and the database orders both. What is open
at the end of the process is signed then.
"""

from __future__ import annotations

import atexit
import os
import re
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from voile.app.calls import handle
from voile.app.commands.audit import StartLog
from voile.app.explain import ReleaseService
from voile.app.starting import one_start_at_a_time
from voile.core.errors import InvalidInput, VoileError
from voile.records.audit_log import SigningKey
from voile.records.checkpoints import relative_path
from voile.records.ledger import Alert
from voile.records.storage.opening import file_of
from voile.records.storage.sqlite import FileIdentity
from voile.records.vault import (
    Place,
    SigningSchedule,
    Vault,
    open_passing_vault,
    open_vault_at,
)

SCHEDULE: Final = SigningSchedule(records=20, seconds=5.0)
"""Somebody watches the answers come, one by one: what is on record is signed soon."""
IN_MEMORY: Final = "memory:"
_Say: TypeAlias = Callable[[str], None]


@dataclass(eq=False)
class OpenRecords:
    """Ledger, log and keys, open.

    Args:
        service: answers from them.
        is_new: they were made just now.
    """

    service: ReleaseService
    is_new: bool
    _stack: ExitStack
    _file: FileIdentity | None
    _holders: int = 0
    _process: int = field(default_factory=os.getpid)
    is_closed: bool = False

    @property
    def vault(self) -> Vault:
        """What is open; `InvalidInput` where it is not any more."""
        if self.is_closed:
            raise InvalidInput("these records were closed: open the budget again")
        if self._process != os.getpid():
            raise InvalidInput(
                "these records were opened before this process was forked: open the budget in the "
                "new process, and start processes with 'spawn'"
            )
        return self.service.vault

    @property
    def still_there(self) -> bool:
        """Whether the database is the file that was opened."""
        path = file_of(self.service.vault.place.database)
        return not self.is_closed and (path is None or FileIdentity.from_path(path) == self._file)

    def release(self) -> None:
        """One of those who asked needs them no more; the last one signs and closes them."""
        with _LOCK:
            self._holders -= 1
            if self._holders <= 0:
                self._close()

    def _close(self) -> None:
        if not self.is_closed and self._process == os.getpid():
            self.is_closed = True
            for key in [key for key, each in _OPEN.items() if each is self]:
                del _OPEN[key]
            self._stack.close()

    def _hold(self) -> OpenRecords:
        self._holders += 1
        return self


_LOCK = threading.RLock()
_OPEN: dict[object, OpenRecords] = {}


def open_records(place: Place, origin: str, say: _Say) -> OpenRecords:
    """What lies at this place; made on first use.

    Args:
        origin: name of the log, if it is made.
        say: is told of thresholds that are reached.
    """
    key = _key(place)
    with _LOCK:
        found = _OPEN.get(key)
        if found is not None and not found.still_there:
            with suppress(VoileError):
                found._close()
            found = None
        if found is None:
            found = _OPEN[key] = _opened(place, origin, say)
        return found._hold()


def open_passing_records(origin: str, say: _Say) -> OpenRecords:
    """Records for a trial, of which nothing is kept."""
    stack = ExitStack()
    vault = stack.enter_context(open_passing_vault(origin, SCHEDULE))
    found = OpenRecords(_service(vault, say), True, stack, None)
    with _LOCK:
        _OPEN[id(found)] = found
    return found._hold()


def made_up_origin(name: str) -> str:
    """A name for a log that nobody has named."""
    return f"voile.invalid/{re.sub(r'[^A-Za-z0-9._-]+', '-', name)}"


def _key(place: Place) -> object:
    path = file_of(place.database)
    where = place.database if path is None else os.path.realpath(path)
    return where, os.path.realpath(place.policy)


def _opened(place: Place, origin: str, say: _Say) -> OpenRecords:
    """One process at a time makes what is missing."""
    if _is_complete(place):
        return _open(place, say, is_new=False)
    with one_start_at_a_time(place.policy.parent):
        is_new = not place.policy.exists()
        if is_new:
            start_log(place, origin)
        return _open(place, say, is_new=is_new)


def _open(place: Place, say: _Say, *, is_new: bool) -> OpenRecords:
    path = file_of(place.database)
    with ExitStack() as opening:
        vault = opening.enter_context(open_vault_at(place, SCHEDULE))
        _ = vault.key  # made with the rest
        identity = None if path is None else FileIdentity.from_path(path)
        return OpenRecords(_service(vault, say), is_new, opening.pop_all(), identity)


def _is_complete(place: Place) -> bool:
    """Whether policy and keys are there; `InvalidInput` where their database is not."""
    path = file_of(place.database)
    if place.policy.exists() and path is not None and not path.exists():
        raise InvalidInput(_without_database(place, path))
    return place.policy.exists() and place.replay_key.exists()


def _without_database(place: Place, path: Path) -> str:
    others = sorted({*path.parent.glob("*.db")} - {path})
    named = f", such as database={str(relative_path(others[0]))!r}" if others else ""
    return (
        f"{relative_path(path)}: there is no such database, but {relative_path(place.policy)} "
        "belongs to one, and a folder holds the keys of one database. Name the database that is "
        f"there{named}; or restore it; or choose another folder for a new one"
    )


def start_log(place: Place, origin: str) -> None:
    """Go on with a start that was broken off, under the name that it has."""
    if place.signing_key.exists():
        origin = SigningKey.load(place.signing_key).name
    handle(
        StartLog(
            database=place.database,
            signing_key=place.signing_key,
            policy=place.policy,
            origin=origin,
        )
    )


def _service(vault: Vault, say: _Say) -> ReleaseService:
    def tell(alert: Alert) -> None:
        say(str(alert))

    return ReleaseService(vault, tell)


@atexit.register
def close_all() -> None:
    """Sign what is left, and let go."""
    with _LOCK:
        for each in list(_OPEN.values()):
            with suppress(VoileError):
                each._close()


def _forget_in_child() -> None:
    """A forked process must not touch what its parent has open."""
    global _LOCK
    _LOCK = threading.RLock()
    _OPEN.clear()


os.register_at_fork(after_in_child=_forget_in_child)
