"""What the commands of `voile audit` share: where a log lies, opening it, its keys and policy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from voile.app.custody import Place
    from voile.audit_log import AuditLog, Policy, SigningKey
    from voile.core.storage import Storage


@contextmanager
def as_invalid_input(what: str) -> Iterator[None]:
    """What the pure modules call malformed is, on a command line, bad input."""
    from voile.audit_log.canonical import Malformed
    from voile.core.errors import InvalidInput

    try:
        yield
    except Malformed as error:
        raise InvalidInput(f"{what}: {error}") from error


def open_database(database: str) -> Storage:
    from voile.audit_log import PART
    from voile.core.storage.opening import open_existing

    return open_existing(database, [PART])


def log_in(storage: Storage) -> AuditLog:
    from voile.audit_log import AuditLog

    return storage.submit(AuditLog.open)


def known_log(storage: Storage, place: Place) -> AuditLog:
    """The log, compared with the copies of its last checkpoint that are here."""
    from voile.app.custody import find_keeper, open_known_log

    keeper = find_keeper(place)
    return storage.submit(lambda t: open_known_log(t, place, keeper))


def key_in(path: Path, name: str, kind: Any) -> SigningKey:
    """The key in this file, made if there is none; it must bear the name that is asked for."""
    key = found_or_new_key(path, name, kind)
    if not path.exists():
        key.save(path)
    return key


def found_or_new_key(path: Path, name: str, kind: Any) -> SigningKey:
    """The same, not saved yet."""
    from voile.audit_log import SigningKey
    from voile.core.errors import InvalidInput

    key = SigningKey.load(path) if path.exists() else SigningKey.generate(name, kind)
    if (key.name, key.kind) != (name, kind):
        raise InvalidInput(f"{path}: holds a key of {key.name!r}, expected one of {name!r}")
    return key


def policy_in(path: Path) -> Policy:
    from voile.app.checkpoints import read_policy

    return read_policy(path)
