"""The file an `Explanation` is saved in: a plain zip of one JSON text and one .npy file an array.

Nothing in it is executed when it is read. Members are stored uncompressed and side by side, so that
what a file can make the reader allocate is bounded by its own size. Equal explanations give equal
bytes.

Compatibility promise: a file of version n is read by every later voile.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voile.core.atomic_file import replace_file
from voile.core.errors import InvalidInput, UnreadableFile
from voile.core.input_file import damaged, read_file

FORMAT = "voile explanation"
VERSION = 1
_LABELS = "explanation.json"
_LISTS = ("arrays", "feature_names", "output_names", "guarantees", "notes")
_EPOCH = (1980, 1, 1, 0, 0, 0)  # zip's own origin of time: the bytes must not depend on the clock


def write(path: Path, labels: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Path:
    """Write labels and arrays; the file appears whole or not at all.

    With the values of rows (`data`) it is for its owner only.
    """
    try:
        content = pack(labels, arrays)
    except UnicodeEncodeError as error:
        raise InvalidInput(f"{path}: names must be text that UTF-8 can hold: {error}") from None
    return replace_file(path, content, mode=0o600 if "data" in arrays else 0o644)


def pack(labels: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """The bytes of such a file."""
    head = {"format": FORMAT, "version": VERSION, "arrays": sorted(arrays), **labels}
    text = json.dumps(head, ensure_ascii=False, allow_nan=False, sort_keys=True).encode("utf-8")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo(_LABELS, _EPOCH), text)
        for name, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, _little_endian(array), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", _EPOCH), member.getvalue())
    return buffer.getvalue()


def read(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read what `write` wrote; `UnreadableFile` says what is wrong with anything else."""
    return unpack(read_file(path), path)


def unpack(content: bytes, path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read what `pack` gave; `path` names it in errors."""
    if not zipfile.is_zipfile(io.BytesIO(content)):
        raise UnreadableFile(f"{path}: not a saved explanation, or cut short")
    with damaged(path), zipfile.ZipFile(io.BytesIO(content)) as archive:
        if sum(info.file_size for info in archive.infolist()) > len(content):
            raise ValueError("its members overlap")
        members = {info.filename: _stored(archive, info) for info in archive.infolist()}
    labels = _labels(path, members.pop(_LABELS, b""))
    with damaged(path):
        # The list is under a checksum, the directory of the zip is not: an entry could get lost.
        if sorted(members) != [f"{name}.npy" for name in labels["arrays"]]:
            raise ValueError(f"it should hold {labels['arrays']}, found {sorted(members)}")
        return labels, {name: _array(members[f"{name}.npy"]) for name in labels["arrays"]}


def _labels(path: Path, text: bytes) -> dict[str, Any]:
    try:
        labels = json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        labels = None
    if not isinstance(labels, dict) or labels.get("format") != FORMAT:
        raise UnreadableFile(f"{path}: a zip file, but not a saved explanation")
    version = labels.get("version")
    if type(version) is not int or not 1 <= version <= VERSION:  # true is no version
        raise UnreadableFile(
            f"{path}: saved in version {version!r} of the format, this voile reads up to "
            f"{VERSION}; update voile"
        )
    if unknown := sorted(set(labels) - {"format", "version", *_LISTS}):
        raise UnreadableFile(f"{path}: holds what no saved explanation does: {unknown!r:.100}")
    for name in _LISTS:
        if not isinstance(labels.get(name), list):
            raise UnreadableFile(f"{path}: {name} must be a list, found {labels.get(name)!r:.100}")
    return labels


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A key that stands twice reads differently in another program."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice")
    return found


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


def _little_endian(array: NDArray[Any]) -> NDArray[Any]:
    return array.astype(array.dtype.newbyteorder("<"), copy=False)
