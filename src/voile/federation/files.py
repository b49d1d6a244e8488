"""Arrays on disk: safetensors with a JSON label inside. Nothing in it is executed when read.

Compatibility promise: a file of version n is read by every later voile.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from safetensors import numpy as safetensors

from voile.core.atomic_file import replace_file
from voile.core.errors import UnreadableFile
from voile.core.input_file import damaged, read_file
from voile.federation.arrays import Array, Arrays

VERSION: Final = 1


def write_arrays(path: Path, kind: str, arrays: Arrays, label: Mapping[str, Any]) -> Path:
    """Durable when this returns; a crash leaves the old file or the new one, never half of it."""
    text = json.dumps({**label, "format": kind, "version": VERSION}, sort_keys=True)
    content: bytes = safetensors.save(
        {name: np.ascontiguousarray(array) for name, array in arrays.items()},
        metadata={"voile": text},
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    return replace_file(path, content)


def read_arrays(path: Path, kind: str) -> tuple[dict[str, Array], dict[str, Any]]:
    """The inverse of `write_arrays`; anything else is an `UnreadableFile`."""
    content = read_file(path)
    with damaged(path):
        arrays: dict[str, Array] = safetensors.load(content)
        # The loader drops the metadata. Header: its length in 8 bytes, then JSON.
        head = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        label = json.loads(head["__metadata__"]["voile"])
    found = (label.get("format"), label.get("version")) if isinstance(label, dict) else None
    if found != (kind, VERSION):
        raise UnreadableFile(
            f"{path}: expected a {kind} of version {VERSION}, found {found}; it belongs to "
            "another program or to a newer voile"
        )
    return arrays, label


def file_stem(name: str) -> str:
    """A file name for a stage: letters and digits kept, everything else escaped."""
    return "".join(c if c.isascii() and c.isalnum() else f"-{ord(c):x}-" for c in name)
