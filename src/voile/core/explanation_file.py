"""The file an `Explanation` is saved in: arrays and labels, see `array_file`.

Version 1 was a plain zip of one JSON text and one .npy file an array. It is still read: members are
stored uncompressed and side by side, so that a file allocates no more than its own size.
"""

from __future__ import annotations

import io
import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voile.core import array_file
from voile.core.errors import UnreadableFile
from voile.core.input_file import damaged

FORMAT = "voile explanation"
VERSION = 2
_ZIP = b"PK"
_LABELS = "explanation.json"
_LISTS = ("feature_names", "output_names", "guarantees", "notes")


def unpack(content: bytes, path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Labels and arrays of any version; `path` names the content in errors."""
    if content.startswith(_ZIP):
        arrays, labels = _unzipped(content, path)
    else:
        arrays, labels = array_file.unpack(content, path, FORMAT, VERSION)
    if unknown := sorted(set(labels) - {"format", "version", *_LISTS}):
        raise UnreadableFile(f"{path}: holds what no saved explanation does: {unknown!r:.100}")
    for name in _LISTS:
        if not isinstance(labels.get(name), list):
            raise UnreadableFile(f"{path}: {name} must be a list, found {labels.get(name)!r:.100}")
    return labels, arrays


def is_saved(content: bytes) -> bool:
    """Whether these may be the bytes of a saved explanation."""
    return content.startswith(_ZIP) or array_file.is_saved(content)


# --- version 1 ------------------------------------------------------------------------------------


def _unzipped(content: bytes, path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    with damaged(path), zipfile.ZipFile(io.BytesIO(content)) as archive:
        if sum(info.file_size for info in archive.infolist()) > len(content):
            raise ValueError("its members overlap")
        members = {info.filename: _stored(archive, info) for info in archive.infolist()}
    labels = array_file.label_from(members.pop(_LABELS, b""))
    array_file.check_kind(path, labels, FORMAT, 1)
    with damaged(path):
        names = labels.pop("arrays")
        # The list is under a checksum, the directory of the zip is not: an entry could get lost.
        if sorted(members) != [f"{name}.npy" for name in names]:
            raise ValueError(f"it should hold {names}, found {sorted(members)}")
        return {name: _array(members[f"{name}.npy"]) for name in names}, labels


def _stored(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    if info.compress_type != zipfile.ZIP_STORED:
        raise ValueError("a saved explanation holds uncompressed members only")
    return archive.read(info)


def _array(member: bytes) -> NDArray[Any]:
    stream = io.BytesIO(member)
    if np.lib.format.read_magic(stream) != (1, 0):
        raise ValueError("an array has a header of another version")
    shape, by_columns, dtype = np.lib.format.read_array_header_1_0(stream)
    # Over the bytes that are there: a header may declare any size, and numpy makes room for it.
    flat: NDArray[Any] = np.frombuffer(member, dtype, offset=stream.tell())
    if len(flat) != math.prod(shape):
        raise ValueError(f"an array of shape {shape} has {len(flat)} values")
    return flat.reshape(shape, order="F" if by_columns else "C").copy()
