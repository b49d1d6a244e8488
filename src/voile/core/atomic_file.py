"""Files that are either the old one or the new one, whatever happens in between."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

from voile.core.errors import StorageFault, StorageFull, StorageReadOnly

_FULL = {"ENOSPC", "EDQUOT", "EFBIG"}
_READ_ONLY = {"EROFS", "EACCES", "EPERM"}


def replace_file(path: Path, content: bytes, *, mode: int = 0o644) -> Path:
    """Put `content` at `path`: durable when this returns, untouched if it raises.

    The bytes go to a neighbour first, are forced to the disk, and take the name in one step; then
    the folder is forced too, because a rename lives in the folder.
    """
    try:
        _write_beside(path, content, mode)
    except OSError as error:
        raise disk_fault(path, error) from error
    return path


def _write_beside(path: Path, content: bytes, mode: int) -> None:
    descriptor, neighbour = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            os.fchmod(stream.fileno(), mode)
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        Path(neighbour).replace(path)
    except BaseException:
        Path(neighbour).unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def disk_fault(path: Path, error: OSError) -> StorageFault:
    """What the disk's refusal means, in our own terms."""
    name = os.strerror(error.errno or 0)
    symbol = errno.errorcode.get(error.errno or 0, "")
    if symbol in _FULL:
        return StorageFull(f"{path}: no room left to write it ({name}); nothing was changed")
    if symbol in _READ_ONLY:
        return StorageReadOnly(f"{path}: cannot be written ({name}); choose another folder")
    return StorageFault(f"{path}: could not be written ({name})")
