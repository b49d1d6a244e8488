"""Arrays and a JSON label in one file: what voile saves, whatever the kind.

Safetensors, with the label in its metadata. The label says the kind of file (`format`), its version
and a checksum over all of it. Nothing is executed when it is read, and what a file can make the
reader allocate is bounded by its own size. Equal content gives equal bytes.

Compatibility promise: a file of version n is read by every later voile.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from json.encoder import encode_basestring as quoted
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voile.core.atomic_file import replace_file
from voile.core.errors import InvalidInput, UnreadableFile
from voile.core.input_file import damaged, read_file

Arrays = dict[str, NDArray[Any]]


class Json(str):
    """A value of a label as JSON already: a service writes the same labels again and again."""

    __slots__ = ()

    @classmethod
    def write(cls, value: Any) -> Json:
        if type(value) is cls:
            return value
        return cls(quoted(value) if type(value) is str else _ENCODER.encode(value))


_MAGIC = b'{"__metadata__"'
_ENCODER = json.JSONEncoder(ensure_ascii=False, sort_keys=True)


def write(
    path: Path, kind: str, arrays: Mapping[str, NDArray[Any]], label: Mapping[str, Any]
) -> Path:
    """Durable when this returns; a crash leaves the old file or the new one, never half of it."""
    return replace_file(path, pack(kind, arrays, label))


def read(path: Path, kind: str) -> tuple[Arrays, dict[str, Any]]:
    """Arrays and label that `write` wrote; anything else is an `UnreadableFile`."""
    return unpack(read_file(path), path, kind)


def pack(
    kind: str, arrays: Mapping[str, NDArray[Any]], label: Mapping[str, Any], version: int = 1
) -> bytes:
    """The bytes of such a file."""
    from safetensors.numpy import save

    stored = {name: _as_numbers(array) for name, array in arrays.items()}
    texts = sorted(name for name, array in arrays.items() if array.dtype.kind == "U")
    head = {**label, "format": kind, "version": version} | ({"texts": texts} if texts else {})
    head = {name: Json.write(value) for name, value in head.items()}
    try:
        head["checksum"] = Json(_checksum(head, stored))
    except UnicodeEncodeError as error:
        raise InvalidInput(f"names must be text that UTF-8 can hold: {error}") from None
    content: bytes = save(stored, metadata={"voile": _text(head)})
    return content


def unpack(content: bytes, path: Path, kind: str, newest: int = 1) -> tuple[Arrays, dict[str, Any]]:
    """The inverse of `pack`, up to the newest version; `path` names the content in errors."""
    from safetensors.numpy import load

    with damaged(path):
        arrays: Arrays = load(content)
        # The loader drops the metadata. Header: its length in 8 bytes, then JSON.
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        label = label_from(header.get("__metadata__", {}).get("voile", ""))
    check_kind(path, label, kind, newest)
    with damaged(path):
        found = label.pop("checksum", None)  # absent in files of earlier versions
        if found is not None and found != _checksum(label, arrays):
            raise ValueError("its checksum is another one")
        return arrays | {name: _as_text(arrays[name]) for name in label.pop("texts", ())}, label


def is_saved(content: bytes) -> bool:
    """Whether `pack` may have given these bytes."""
    return content[8 : 8 + len(_MAGIC)] == _MAGIC


def label_from(text: str | bytes) -> dict[str, Any]:
    """The label behind a text; an empty one if the text is none."""
    try:
        label = json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        label = None
    return label if isinstance(label, dict) else {}


def check_kind(path: Path, label: object, kind: str, newest: int) -> None:
    """Refuse a file of another kind, or of a version that is not known yet."""
    said = label if isinstance(label, dict) else {}
    if said.get("format") != kind:
        raise UnreadableFile(
            f"{path}: not a {kind.removeprefix('voile ')}, but {said.get('format')!r:.60}; it "
            "belongs to another program or to a newer voile"
        )
    version = said.get("version")
    if type(version) is not int or not 1 <= version <= newest:  # true is no version
        raise UnreadableFile(
            f"{path}: saved in version {version!r:.20} of the format, this voile reads up to "
            f"{newest}; update voile"
        )


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A key that stands twice reads differently in another program."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice")
    return found


def _text(label: Mapping[str, Any]) -> str:
    """The label as JSON with sorted keys."""
    return f"{{{', '.join([f'{quoted(n)}: {Json.write(v)}' for n, v in sorted(label.items())])}}}"


def _checksum(label: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> int:
    """Against damage, as a zip has it; nobody is kept from writing another file."""
    found = zlib.crc32(_text(label).encode())
    for name, array in sorted(arrays.items()):
        found = zlib.crc32(f"\n{name} {array.dtype.str} {array.shape}\n".encode(), found)
        found = zlib.crc32((array if array.flags.c_contiguous else array.copy()).data, found)
    return found


def _as_numbers(array: NDArray[Any]) -> NDArray[Any]:
    """Little-endian; text as the numbers of its characters, which safetensors can hold."""
    if array.dtype.str[0] in "<|" and array.dtype.kind != "U" and array.flags.c_contiguous:
        return array
    plain = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(array.shape)
    return plain if plain.dtype.kind != "U" else plain[..., np.newaxis].view("<u4")


def _as_text(numbers: NDArray[Any]) -> NDArray[Any]:
    if numbers.dtype != np.uint32:
        raise ValueError("a text of other numbers than its characters")
    return numbers.view(f"<U{numbers.shape[-1]}")[..., 0]
