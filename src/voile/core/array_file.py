"""Arrays on disk: safetensors with a JSON label inside. Nothing in it is executed when read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import numpy as safetensors

from voile.core.atomic_file import replace_file
from voile.core.input_file import damaged, read_file


def write_labelled(
    path: Path, arrays: Mapping[str, NDArray[Any]], label: Mapping[str, Any]
) -> Path:
    """Durable when this returns; a crash leaves the old file or the new one, never half of it."""
    content: bytes = safetensors.save(
        {name: np.ascontiguousarray(array) for name, array in arrays.items()},
        metadata={"voile": json.dumps(label, sort_keys=True)},
    )
    return replace_file(path, content)


def read_labelled(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Arrays and label of any safetensors file, which has none if voile did not write it."""
    content = read_file(path)
    with damaged(path):
        arrays: dict[str, NDArray[Any]] = safetensors.load(content)
        # The loader drops the metadata. Header: its length in 8 bytes, then JSON.
        head = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    try:
        label = json.loads(head["__metadata__"]["voile"])
    except (ValueError, KeyError, TypeError, RecursionError):
        label = None
    return arrays, label if isinstance(label, dict) else {}
