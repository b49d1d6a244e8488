"""Copies of what a party keeps, and bringing them back without forgetting a charge.

A database that is older than its log as others know it would spend the budget twice. So the newest
checkpoint that is known elsewhere is pinned beside what is restored: voile opens no vault whose log
does not extend its pinned checkpoint.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from voile.app.calls import Context
from voile.app.commands.backup import Backup, Restore
from voile.app.workspace.file import WorkspaceFile
from voile.core.atomic_file import replace_file
from voile.core.errors import InvalidInput, StorageFault, UnreadableFile, VerificationFailed
from voile.core.input_file import read_file, read_json
from voile.records.audit_log.kept import signed_checkpoint
from voile.records.audit_log.notes import LARGEST_NOTE
from voile.records.checkpoints import kept_checkpoint, read_policy
from voile.records.storage.opening import file_of
from voile.records.vault import Place, open_vault_at

FORMAT: Final = "voile backup v1"
_LIST: Final = "backup.json"
_PRIVATE: Final = 0o600
_PRIVATE_FOLDER: Final = 0o700
_CHUNK: Final = 1 << 20
_DATABASE: Final = "log.db"
_NAMES: Final = {"signing_key": "audit.key", "policy": "audit-policy.toml"}
_REPLAY: Final = "replay.key"
_CHECKPOINT: Final = "audit.checkpoint"


@dataclass(frozen=True)
class BackupResult:
    """What was copied or brought back.

    Args:
        missing: records that others know of, and this database does not hold.
    """

    folder: Path
    files: tuple[str, ...]
    missing: int = 0


def back_up(command: Backup, context: Context) -> BackupResult:
    """Copy everything, the checkpoint first: the database that is copied after it extends it."""
    place, folder = WorkspaceFile.read(command.workspace).place, command.folder
    if os.path.lexists(folder):
        raise InvalidInput(f"{folder}: exists already; name a new folder")
    folder.mkdir(mode=_PRIVATE_FOLDER, parents=True)
    for name, path in _files(place):
        if path.exists():
            replace_file(folder / name, path.read_bytes(), mode=_PRIVATE)
    database = file_of(place.database)
    if database is None:
        context.say("the database is on a server: copy it with pg_dump, after this")
    else:
        _copy_database(database, folder / _DATABASE)
    digests = {path.name: _digest(path) for path in sorted(folder.iterdir())}
    listed = {"format": FORMAT, "files": digests}
    replace_file(folder / _LIST, (json.dumps(listed, indent=1) + "\n").encode(), mode=_PRIVATE)
    return BackupResult(folder, tuple(digests))


def restore(command: Restore, _context: Context) -> BackupResult:
    """Bring everything back and pin the newest checkpoint; then open it, as any command would."""
    names, target = _checked(command.folder), Place.within(command.output)
    newest = read_file(command.checkpoint, LARGEST_NOTE)
    policy = read_policy(command.folder / _NAMES["policy"])
    known = signed_checkpoint(newest, policy)
    own = command.folder / _CHECKPOINT
    if own.exists():
        kept = read_file(own, LARGEST_NOTE)
        newest = newest if known.size >= signed_checkpoint(kept, policy).size else kept
    _bring_back(command.folder, command.output, names, newest)
    try:
        with open_vault_at(target.absolute(), signing=None) as vault:
            vault.storage.submit(vault.log.check)
    except VerificationFailed:
        return BackupResult(command.output, names, _missing(command.output, newest))
    return BackupResult(command.output, names)


def _bring_back(folder: Path, output: Path, names: tuple[str, ...], newest: bytes) -> None:
    there = [output / name for name in (*names, _CHECKPOINT) if os.path.lexists(output / name)]
    if there:
        raise InvalidInput(f"{there[0]}: exists already; nothing is overwritten by a backup")
    output.mkdir(parents=True, exist_ok=True)
    # The checkpoint comes first: whatever interrupts this leaves nothing that forgets a charge.
    replace_file(output / _CHECKPOINT, newest, mode=_PRIVATE)
    for name in names:
        if name == _DATABASE:
            _copy_database(folder / name, output / name)
        elif name != _CHECKPOINT:
            mode = 0o644 if name == _NAMES["policy"] else _PRIVATE
            replace_file(output / name, (folder / name).read_bytes(), mode=mode)


def _missing(folder: Path, newest: bytes) -> int:
    """How many records the newest checkpoint covers that the database does not hold."""
    known = signed_checkpoint(newest, read_policy(folder / _NAMES["policy"]))
    with closing(sqlite3.connect(folder / _DATABASE)) as database:
        (held,) = database.execute("SELECT count(*) FROM audit_leaves").fetchone()
    return max(1, known.size - int(held))  # of another history, at least the last one


def _files(place: Place) -> Iterator[tuple[str, Path]]:
    yield _CHECKPOINT, kept_checkpoint(place.signing_key)
    for field, name in _NAMES.items():
        yield name, getattr(place, field)
    yield _REPLAY, place.replay_key


def _copy_database(source: Path, target: Path) -> None:
    """As of one moment, while others write."""
    if not source.exists():
        raise InvalidInput(f"{source}: there is no such database")
    try:
        with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target)) as new:
            old.backup(new)
    except sqlite3.Error as error:
        raise StorageFault(f"{source}: cannot be copied: {error}") from error
    target.chmod(_PRIVATE)


def _checked(folder: Path) -> tuple[str, ...]:
    """Names of the files, if they are those that were copied."""
    listed: Any = read_json(folder / _LIST)
    if not isinstance(listed, dict) or listed.get("format") != FORMAT:
        raise UnreadableFile(f"{folder}: not a backup of voile")
    known = {*_NAMES.values(), _REPLAY, _CHECKPOINT, _DATABASE}
    for name, digest in listed["files"].items():
        if name not in known or not (folder / name).is_file() or _digest(folder / name) != digest:
            raise UnreadableFile(f"{folder / name}: missing, damaged or changed since the backup")
    if not {_DATABASE, _NAMES["policy"]} <= listed["files"].keys():
        raise InvalidInput(f"{folder}: holds no database and policy; restore the server's first")
    return tuple(listed["files"])


def _digest(path: Path) -> str:
    found = hashlib.sha256()
    with path.open("rb") as stream:
        while part := stream.read(_CHUNK):
            found.update(part)
    return found.hexdigest()
