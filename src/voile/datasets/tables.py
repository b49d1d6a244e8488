"""Tables of raw values from CSV and Parquet files.

Values are handed on as they stand in the file; `voile.core.schema.Schema` decides what they mean.
Only the form of a file can be wrong here: errors name lines and columns, never values.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from os import PathLike, fspath
from pathlib import Path
from shlex import quote
from typing import Any, Final

import numpy as np

from voile.core.errors import InvalidInput, UnreadableFile, VoileError
from voile.core.input_file import read_at_most, read_file, size_in_words
from voile.core.optional import optional
from voile.core.schema import RawColumn
from voile.datasets.csv_files import check_names, csv_columns, protected_csv_columns

# --- Parquet files. What a cell becomes follows from the cell and the type of its column alone ---
# Numbers and truth values stay what they are, also beside missing ones (no integer becomes a float
# because another row lacks one); text is text; times, lists and records are nothing a schema reads.
#
# A small file can decode to any size: few bytes say "a billion zeros". Sizes are checked as they
# are declared, before anything is decoded, and measured after each group of rows.


LARGEST_DECODED: Final = 4 * 2**30
"""Bytes that all cells of a file may take, each counted with at least eight."""
_CELL: Final = 8


def parquet_columns(data: bytes, source: str, *, protected: bool = False) -> dict[str, RawColumn]:
    """The columns of a Parquet file from its bytes; `source` names it in errors.

    Of a protected file no more is told than that it cannot be read, and text that is not UTF-8 is
    missing; elsewhere it stays as bytes, for whoever reads it to say so.
    """
    parquet = optional("pyarrow.parquet", extra="explain")
    try:
        return _decoded(parquet, data, source, protected)
    except VoileError:
        raise
    except Exception as error:  # Arrow's errors have no common base; all of them mean the file
        why = "" if protected else f": {error}"
        raise UnreadableFile(f"{source}: not a Parquet file that can be read{why}") from error


def _decoded(parquet: Any, data: bytes, source: str, protected: bool) -> dict[str, RawColumn]:
    fields = list(parquet.ParquetFile(io.BytesIO(data)).schema_arrow)
    check_names([field.name for field in fields], source)
    # As dictionaries, a text that is repeated takes the room of one.
    texts = [field.name for field in fields if _is_text(field.type)]
    file = parquet.ParquetFile(io.BytesIO(data), read_dictionary=texts)
    _check_declared(file.metadata, source)
    flat = [field.name for field in fields if _is_flat(field.type)]
    table = optional("pyarrow", extra="explain").concat_tables(_groups(file, flat, source))
    nothing = np.zeros(file.metadata.num_rows, dtype="V1")  # something is there, but no value
    return {
        field.name: _column(table.column(field.name), protected) if field.name in flat else nothing
        for field in fields
    }


def _check_declared(metadata: Any, source: str) -> None:
    # Not column by column: asked for a damaged one, pyarrow ends the process.
    groups = [metadata.row_group(place) for place in range(metadata.num_row_groups)]
    cells = metadata.num_rows * metadata.num_columns
    _check_size(max(_CELL * cells, sum(group.total_byte_size for group in groups)), source)


def _check_size(size: int, source: str) -> None:
    if size > LARGEST_DECODED:
        raise InvalidInput(
            f"{source}: decodes to more than the {size_in_words(LARGEST_DECODED)} that are read; "
            "split it, or leave out columns"
        )


def _groups(file: Any, names: list[str], source: str) -> Iterator[Any]:
    size = 0
    for place in range(file.metadata.num_row_groups):
        group = file.read_row_group(place, columns=names)
        size += group.nbytes
        _check_size(size, source)
        yield group
    yield file.read_row_groups([], columns=names)


def _is_flat(kind: Any) -> bool:
    types = optional("pyarrow.types", extra="explain")
    if types.is_dictionary(kind):
        return _is_flat(kind.value_type)
    # A time of day is no number and, out of its range, not even a value of Python.
    primitive = types.is_primitive(kind) and not types.is_time(kind)
    return primitive or types.is_decimal(kind) or types.is_null(kind) or _is_text(kind)


def _is_text(kind: Any) -> bool:
    types = optional("pyarrow.types", extra="explain")
    return any(
        is_one(kind)
        for is_one in (
            types.is_string, types.is_large_string, types.is_string_view,
            types.is_binary, types.is_large_binary, types.is_binary_view,
            types.is_fixed_size_binary,
        )
    )  # fmt: skip


def _column(column: Any, protected: bool) -> RawColumn:
    parts = [_cells(chunk, protected) for chunk in column.chunks if len(chunk)]
    if len({part.dtype for part in parts}) > 1:  # integers, in some parts beside missing ones
        parts = [part.astype(object) for part in parts]
    return np.concatenate(parts) if parts else np.empty(0, dtype=object)


def _cells(array: Any, protected: bool) -> RawColumn:
    types = optional("pyarrow.types", extra="explain")
    kind = array.type
    if types.is_dictionary(kind):
        known = _objects([*_cells(array.dictionary, protected).tolist(), None])
        places = array.indices.cast("int64")
        if places.null_count:
            places = places.fill_null(len(known) - 1)
        found: RawColumn = known[np.from_dlpack(places)]
        return found
    if _is_text(kind):
        return _texts(array, protected)
    if types.is_integer(kind) and array.null_count:
        return _objects(array.to_pylist())
    if (types.is_integer(kind) or types.is_floating(kind)) and not array.null_count:
        return np.from_dlpack(array)  # `to_numpy` would import pandas
    cells: RawColumn = array.to_numpy(zero_copy_only=False)
    return cells


def _texts(array: Any, protected: bool) -> RawColumn:
    pyarrow = optional("pyarrow", extra="explain")
    return _objects(
        [_text(cell, protected) for cell in array.cast(pyarrow.large_binary()).to_pylist()]
    )


def _text(cell: bytes | None, protected: bool) -> str | bytes | None:
    try:
        return None if cell is None else cell.decode()
    except UnicodeDecodeError:
        return None if protected else cell


def _objects(cells: list[Any]) -> RawColumn:
    return np.fromiter(cells, dtype=object, count=len(cells))


# --------------------------------------------------------------------------------------------------


STDIN = "-"
PARQUET_SUFFIXES = frozenset({".parquet", ".pq"})


def read_table(path: str | PathLike[str]) -> dict[str, RawColumn]:
    """Read a CSV file with a header, a Parquet file (`.parquet`, `.pq`), or CSV from stdin (`-`).

    For rows that are not protected: whatever is wrong is told, with its line. CSV is UTF-8 with
    commas; its columns are arrays of text (dtype object). Blank lines are skipped.
    """
    data, source = _content(path)
    return parquet_columns(data, source) if is_parquet(path) else csv_columns(data, source)


def read_protected_table(
    path: str | PathLike[str], *, naming: str | None = None
) -> dict[str, RawColumn]:
    """Read such a file of protected records: nothing that a record holds is ever told.

    In CSV each line after the first is one record, and a damaged one is the null record; how it is
    read depends on no other (`voile.datasets.csv_files`). Only the container can be wrong.

    Args:
        naming: the column that says whose line it is, where several lines are one record: it is
            kept of damaged lines, too.
    """
    data, source = _content(path)
    if is_parquet(path):
        return parquet_columns(data, source, protected=True)
    return protected_csv_columns(data, source, naming=naming)


def check_cells_separate(path: str | PathLike[str]) -> None:
    """`InvalidInput` for a file in which one cell may change another: all but Parquet.

    For data in which some columns of a record are protected and the others are public. A comma or
    a quote in a private CSV cell makes its whole line unreadable, and the public cells with it; a
    line break adds a record. Refusing such a line would tell as much. The name of a file is public,
    so this refusal tells nothing.
    """
    if is_parquet(path):
        return
    convert = (
        "import pyarrow as a, pyarrow.parquet as p; from voile.datasets import read_table; "
        f"p.write_table(a.table(read_table({json.dumps(str(path))})), "
        f"{json.dumps(str(Path(path).with_suffix('.parquet')))})"
    )
    raise InvalidInput(
        f"{path}: must be a Parquet file, because single columns are protected here. In CSV a "
        "comma, a quote or a line break in a private cell changes the public cells of its row. "
        "Convert the file, and name the new one in node.toml (`data`). Repair every line that this "
        f"reports: python -c {quote(convert)}"
    )


def _content(path: str | PathLike[str]) -> tuple[bytes, str]:
    if fspath(path) == STDIN:
        return read_at_most(sys.stdin.buffer, "standard input"), "standard input"
    return read_file(Path(path)), str(path)


def is_parquet(path: str | PathLike[str]) -> bool:
    """By its name, which is public."""
    return Path(path).suffix.lower() in PARQUET_SUFFIXES
