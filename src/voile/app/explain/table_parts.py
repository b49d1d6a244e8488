"""An explanation of a large table as files: a Parquet file for each block, and a list of them.

A file of a block holds a line for each row: its number, counted from 1, base values, contributions
(`value.AGE`), half widths and the explained values (`data.AGE`). It holds every bit of the
explanation, so what the log committed to can be computed again from it.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from voile.core.atomic_file import replace_file
from voile.core.errors import UnreadableFile
from voile.core.explanation import Explanation
from voile.core.guarantee import Guarantee
from voile.core.input_file import damaged, read_json
from voile.core.optional import optional
from voile.core.row_note import note_from_plain, note_to_plain
from voile.records.audit_log import BlockRoots, explanation_bytes
from voile.records.audit_log.canonical import encode

PART: Final = ".parquet"
LIST: Final = "explanation.json"
_FORMAT: Final = "voile explanation in blocks"
_PRIVATE: Final = 0o600
_METADATA: Final = b"voile"
_COLUMNS: Final = {
    "values": "value",
    "base_values": "base_value",
    "standard_errors": "standard_error",
    "half_widths": "half_width",
    "data": "data",
}
"""What the columns of an array are called, before the names of feature and output."""


def write_part(explanation: Explanation, path: Path, first: int) -> Path:
    """One block; the same explanation gives the same bytes."""
    pyarrow, parquet = (optional(f"pyarrow{end}", extra="explain") for end in ("", ".parquet"))
    columns = {"row": np.arange(first + 1, first + 1 + len(explanation))}
    for name, array in explanation.arrays.items():
        cells = array.reshape(len(explanation), -1)
        columns |= dict(zip(_titles(explanation, name), cells.T, strict=True))
    label = {
        "feature_names": list(explanation.feature_names),
        "output_names": list(explanation.output_names),
        "guarantees": [guarantee.to_dict() for guarantee in explanation.guarantees],
        "notes": [note_to_plain(note) for note in explanation.notes],
        "arrays": list(explanation.arrays),
    }
    table = pyarrow.table({name: _as_column(column) for name, column in columns.items()})
    buffer = pyarrow.BufferOutputStream()
    parquet.write_table(
        table.replace_schema_metadata({_METADATA: json.dumps(label)}), buffer, compression="zstd"
    )
    return replace_file(path, bytes(buffer.getvalue().to_pybytes()), mode=_PRIVATE)


def read_part(path: Path) -> Explanation:
    """The block that `write_part` wrote."""
    parquet = optional("pyarrow.parquet", extra="explain")
    with damaged(path):
        table = parquet.read_table(path)
        label = json.loads(table.schema.metadata[_METADATA])
        named = {name: tuple(label[name]) for name in ("feature_names", "output_names")}
        shape = table.num_rows, len(named["feature_names"]), len(named["output_names"])
        arrays: dict[str, Any] = {
            name: _array(table, name, named, shape) for name in label["arrays"]
        }
        return Explanation(
            **arrays,
            feature_names=named["feature_names"],
            output_names=named["output_names"],
            guarantees=tuple(map(Guarantee.from_dict, label["guarantees"])),
            notes=tuple(map(note_from_plain, label["notes"])),
        )


def _array(
    table: Any, name: str, named: dict[str, tuple[str, ...]], shape: tuple[int, int, int]
) -> NDArray[Any]:
    cells = [table.column(title).to_numpy() for title in _titles_of(name, **named)]
    array = np.column_stack([each.astype(str) if each.dtype == object else each for each in cells])
    rows, features, outputs = shape
    wanted = {"base_values": (rows, outputs), "data": (rows, features)}
    return np.ascontiguousarray(array).reshape(wanted.get(name, shape))


def _titles(explanation: Explanation, name: str) -> list[str]:
    return _titles_of(name, explanation.feature_names, explanation.output_names)


def _titles_of(
    name: str, feature_names: tuple[str, ...], output_names: tuple[str, ...]
) -> list[str]:
    """The columns of an array: one for each feature, and for each of several outputs."""
    title = _COLUMNS[name]
    if name == "data":
        return [f"{title}.{feature}" for feature in feature_names]
    outputs = [f".{output}" for output in output_names] if len(output_names) > 1 else [""]
    if name == "base_values":
        return [f"{title}{output}" for output in outputs]
    return [f"{title}.{feature}{output}" for feature in feature_names for output in outputs]


def _as_column(column: NDArray[Any]) -> Any:
    return column if column.dtype.kind in "fi" else column.tolist()


def digest_of_block(explanation: Explanation) -> bytes:
    """What a block adds to the commitment of the call."""
    return hashlib.sha256(explanation_bytes(explanation)).digest()


@dataclass(frozen=True)
class BlockList:
    """What was explained in blocks.

    Args:
        record: number of the call's record in the log.
        roots: over the rows of each block.
    """

    record: int
    roots: BlockRoots

    @property
    def files(self) -> list[str]:
        """Of the blocks, in order."""
        return [f"{number}{PART}" for number in range(1, len(self.roots.roots) + 1)]

    def write(self, folder: Path) -> Path:
        content = {
            "format": _FORMAT,
            "version": 1,
            "record": self.record,
            "rows": self.roots.rows,
            "block": self.roots.block,
            "roots": [root.hex() for root in self.roots.roots],
        }
        return replace_file(folder / LIST, f"{json.dumps(content, indent=2)}\n".encode())

    @classmethod
    def read(cls, folder: Path) -> Self:
        """What `write` wrote; an `UnreadableFile` if it is anything else."""
        path = folder / LIST
        found = read_json(path)
        with damaged(path):
            if found["format"] != _FORMAT or found["version"] != 1:
                raise UnreadableFile(f"{path}: no list of blocks that this version of voile reads")
            roots = tuple(bytes.fromhex(root) for root in found["roots"])
            return cls(int(found["record"]), BlockRoots(found["rows"], found["block"], roots))

    @classmethod
    def is_in(cls, folder: Path) -> bool:
        return (folder / LIST).is_file()


def answer_in_blocks(roots: BlockRoots, digests: list[bytes]) -> bytes:
    """Canonical bytes of an explanation in blocks: what its record commits to."""
    return encode(
        {
            "format": "voile explanation in blocks v1",
            "rows": roots.rows,
            "block": roots.block,
            "answers": [digest.hex() for digest in digests],
        }
    )


def answer_in_folder(folder: Path) -> bytes:
    """The same, computed again from the files of a folder."""
    listed = BlockList.read(folder)
    digests = [digest_of_block(read_part(folder / name)) for name in listed.files]
    return answer_in_blocks(listed.roots, digests)
