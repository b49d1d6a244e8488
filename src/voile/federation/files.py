"""The arrays of a federation on disk, each file of a kind."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from voile.core import array_file
from voile.federation.arrays import Arrays


def write_arrays(path: Path, kind: str, arrays: Arrays, label: Mapping[str, Any]) -> Path:
    """Durable when this returns; makes the folder where there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return array_file.write(path, kind, arrays, label)


def file_stem(name: str) -> str:
    """A file name for a stage: letters and digits kept, everything else escaped."""
    return "".join(c if c.isascii() and c.isalnum() else f"-{ord(c):x}-" for c in name)
