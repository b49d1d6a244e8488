"""Files that are either the old one or the new one, whatever happens in between."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import stat
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from voile.core.errors import (
    InvalidInput,
    StorageBusy,
    StorageFault,
    StorageFull,
    StorageReadOnly,
    UnreadableFile,
)

_FULL = {"ENOSPC", "EDQUOT", "EFBIG"}
_READ_ONLY = {"EROFS", "EACCES", "EPERM"}
_LEFT_OVER: Final = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{16}")
"""What `_beside` calls a neighbour."""


def replace_file(path: Path, content: bytes, *, mode: int = 0o644) -> Path:
    """Put `content` at `path`: durable when this returns, untouched if it raises.

    The bytes go to a neighbour first, are forced to the disk, and take the name in one step; then
    the folder is forced too, because a rename lives in the folder. Only if the disk breaks in this
    last step is the new file there, whole, and an error raised as well.

    Args:
        path: the file.
        content: all of its bytes.
        mode: its permissions at most; the umask takes away from them as usual.
    """
    with _in_folder(path):
        _write_beside(path, content, mode)
    return path


def create_file(path: Path, content: bytes, *, mode: int = 0o644) -> bool:
    """Put `content` at `path` unless something is there; False if so. Durable when this returns.

    A link fails where a file is, so of two creators exactly one is told that the file is its own.
    """
    neighbour = _beside(path)
    with _in_folder(path):
        try:
            _write_new(neighbour, content, mode)
            os.link(neighbour, path)
        except FileExistsError:
            return False
        finally:
            neighbour.unlink(missing_ok=True)
    return True


def create_folder(path: Path) -> None:
    """Make a folder, with those above it; each is durable when this returns."""
    if path.is_dir():
        return
    create_folder(path.parent)
    with _in_folder(path):
        path.mkdir(exist_ok=True)


@contextmanager
def _in_folder(path: Path) -> Iterator[None]:
    """What changes a name in the folder of `path`: forced to the disk, its errors in our words."""
    try:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            yield
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise disk_fault(path, error) from error


def create_key_file(path: Path, content: bytes) -> Path:
    """Make a new file for its owner only (0600), whole or not at all; never over another file."""
    if not create_file(path, content, mode=0o600):
        raise InvalidInput(f"{path}: exists already; a key is never overwritten")
    return path


def check_output(path: Path) -> None:
    """Refuse a place where nothing could be written, before there is anything to write.

    For whatever costs something: what was paid for must have somewhere to go.
    """
    if path.is_dir():
        raise InvalidInput(f"{path}: a folder; give the name of a file in it")
    if not path.parent.is_dir():
        raise InvalidInput(f"{path}: there is no folder {path.parent}; make it, or choose another")
    _try_beside(path)


def check_output_folder(path: Path) -> None:
    """The same for a folder, which may be there already or is made, with those above it."""
    if os.path.lexists(path) and not path.is_dir():
        raise InvalidInput(f"{path}: expected a folder, found a file or a link to nowhere")
    nearest = path
    while not nearest.exists():
        nearest = nearest.parent
    _try_beside(nearest / path.name)


def _try_beside(path: Path) -> None:
    """Only making a file shows whether a disk is read-only, whatever the permissions say."""
    neighbour = _beside(path)
    try:
        os.close(os.open(neighbour, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        neighbour.unlink()
    except OSError as error:
        raise disk_fault(path, error) from error


def is_left_over(path: Path, names: Collection[str]) -> bool:
    """Whether somebody who was killed while writing a file of one of these names left it there."""
    found = _LEFT_OVER.fullmatch(path.name)
    return found is not None and found["name"] in {name[:40] for name in names}


def _beside(path: Path) -> Path:
    return path.parent / f".{path.name[:40]}.{secrets.token_hex(8)}"


def _write_beside(path: Path, content: bytes, mode: int) -> None:
    neighbour = _beside(path)
    try:
        _write_new(neighbour, content, mode)
        neighbour.replace(path)
    except BaseException:
        neighbour.unlink(missing_ok=True)
        raise


def _write_new(path: Path, content: bytes, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())


def disk_fault(path: Path, error: OSError) -> StorageFault:
    """What the disk's refusal means, in our own terms."""
    name = os.strerror(error.errno or 0)
    symbol = errno.errorcode.get(error.errno or 0, "")
    if symbol in _FULL:
        return StorageFull(f"{path}: no room left to write it ({name}); nothing was changed")
    if symbol in _READ_ONLY:
        return StorageReadOnly(f"{path}: cannot be written ({name}); choose another folder")
    return StorageFault(f"{path}: could not be written ({name})")


# -------------------------------------------------------------------------------------------------
# One process or thread at a time, by a file that is locked; the lock ends with whoever held it.


@contextmanager
def locked(lock: Path, *, patience: float, busy: str) -> Iterator[None]:
    """Hold this lock; `StorageBusy` with these words if somebody else holds it for that long.

    Args:
        lock: a file of nobody else's use, which is made.
        patience: seconds.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(lock, flags, 0o600)
    except OSError as error:
        raise disk_fault(lock, error) from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise UnreadableFile(f"{lock}: expected a plain file to lock; remove what is there")
        _take(descriptor, lock, patience, busy)
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int, lock: Path, patience: float, busy: str) -> None:
    deadline = time.monotonic() + patience
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise StorageBusy(f"{lock}: {busy}") from None
            time.sleep(0.01)
        except OSError as error:
            raise disk_fault(lock, error) from error
