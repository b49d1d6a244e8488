"""Outputs overwrite nothing that anybody needs: checked before anything is read or charged.

An output takes the place of a file of that name. So it must not be a file that the same command
reads or keeps, nor another of its outputs, under whatever name or link; and whatever the command, a
database, a key, code and settings never give way to an output. Which modules a model is made of is
known only once they were imported, and a workspace names files that this command does not need.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from voile.core.atomic_file import check_output, check_output_folder
from voile.core.errors import InvalidInput
from voile.core.input_file import open_regular
from voile.records.audit_log import SigningKey
from voile.records.audit_log.kept import lock_of
from voile.records.checkpoints import kept_checkpoint
from voile.records.ledger import ReplayKey
from voile.records.storage.opening import file_of
from voile.records.vault import Place

_PRECIOUS: Final = {
    b"SQLite format 3\0": "a database",
    SigningKey.FILE_STARTS_WITH: "a signing key",
    ReplayKey.FILE_STARTS_WITH: "a replay key",
}
_WRITTEN_BY_PEOPLE: Final = frozenset({".py", ".pyw", ".pyc", ".pyx", ".so", ".ipynb", ".toml"})
"""Endings of code and settings; no output has one of them."""
_BESIDE_DATABASE: Final = ("", "-wal", "-shm", "-journal", ".turn")


def check_outputs(
    outputs: Sequence[Path], needed: Iterable[Path], folders: Sequence[Path] = ()
) -> None:
    """Refuse outputs that could not be written, or would overwrite what is needed.

    Args:
        outputs: files to write.
        needed: what the command reads or keeps; whether it is there yet or not.
        folders: where numbered files are written, `1.voile` and so on.
    """
    taken = {_identity(path): path for path in needed}
    for path in outputs:
        check_output(path)
        _take(path, taken)  # first: what this process has open as a database is not read as a file
        _check_precious(path)
    for folder in folders:
        check_output_folder(folder)
        _check_numbered(folder, taken.values())
        _take(folder, taken)


def files_of(place: Place) -> list[Path]:
    """Everything that a party keeps: database, keys, policy, the copy of the checkpoint, locks."""
    copy = kept_checkpoint(place.signing_key)
    return [
        *files_of_database(place.database),
        place.signing_key,
        place.replay_key,
        place.policy,
        copy,
        lock_of(copy),
    ]


def files_of_database(database: str) -> list[Path]:
    """The file and what SQLite and voile keep beside it; nothing of a server's database."""
    path = file_of(database)
    if path is None:
        return []
    names = (path.resolve(), path)  # what lies beside it is beside the file, not beside a link
    return [Path(f"{name}{ending}") for name in names for ending in _BESIDE_DATABASE]


def _take(path: Path, taken: dict[object, Path]) -> None:
    which = _identity(path)
    if (other := taken.get(which)) is not None:
        raise InvalidInput(
            f"{path}: would overwrite {other}, which this command also uses; choose another name"
        )
    taken[which] = path


def _check_numbered(folder: Path, taken: Iterable[Path]) -> None:
    own = folder.resolve()
    for path in taken:
        at = path.resolve()
        if at in own.parents and not at.is_dir():
            raise InvalidInput(f"{folder}: cannot be a folder below the file {path}")
        if at.parent == own and at.stem.isdigit():
            raise InvalidInput(
                f"{path}: would be overwritten by a numbered file in {folder}; choose another name"
            )
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.stem.isdigit():
            _check_precious(path)


def _check_precious(path: Path) -> None:
    if not path.is_file():
        return
    if path.suffix.lower() in _WRITTEN_BY_PEOPLE:
        raise InvalidInput(
            f"{path}: holds code or settings, and cannot be overwritten; choose another name"
        )
    try:
        with open_regular(path) as stream:
            start = stream.read(max(map(len, _PRECIOUS)))
    except OSError:
        return  # may be replaced although it cannot be read
    for beginning, what in _PRECIOUS.items():
        if start.startswith(beginning):
            raise InvalidInput(
                f"{path}: holds {what}, and is never overwritten; choose another name"
            )


def _identity(path: Path) -> object:
    """Which file it is, by whatever link; of one that is not there yet, where it will be."""
    try:
        found = path.stat()
    except OSError:
        return path.resolve()
    return found.st_dev, found.st_ino
