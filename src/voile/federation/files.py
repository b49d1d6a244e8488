"""The arrays of a federation on disk, each file of a kind.

Compatibility promise: a file of version n is read by every later voile.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from voile.core.array_file import read_labelled, write_labelled
from voile.core.errors import UnreadableFile
from voile.federation.arrays import Array, Arrays

VERSION: Final = 1


def write_arrays(path: Path, kind: str, arrays: Arrays, label: Mapping[str, Any]) -> Path:
    """Durable when this returns; a crash leaves the old file or the new one, never half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_labelled(path, arrays, {**label, "format": kind, "version": VERSION})


def read_arrays(path: Path, kind: str) -> tuple[dict[str, Array], dict[str, Any]]:
    """The inverse of `write_arrays`; anything else is an `UnreadableFile`."""
    arrays, label = read_labelled(path)
    found = (label.get("format"), label.get("version"))
    if found != (kind, VERSION):
        raise UnreadableFile(
            f"{path}: expected a {kind} of version {VERSION}, found {found}; it belongs to "
            "another program or to a newer voile"
        )
    return arrays, label


def file_stem(name: str) -> str:
    """A file name for a stage: letters and digits kept, everything else escaped."""
    return "".join(c if c.isascii() and c.isalnum() else f"-{ord(c):x}-" for c in name)
