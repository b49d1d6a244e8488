"""Tables of raw values from CSV and Parquet files.

Values are handed on as they stand in the file; `voile.core.schema.Schema` decides what they mean.
Only the form of a file can be wrong here: errors name lines and columns, never values.
"""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from collections.abc import Iterator, Sequence
from os import PathLike, fspath
from pathlib import Path
from shlex import quote
from typing import Any, Final

import numpy as np

from voile.core.errors import InvalidInput, UnreadableFile, VoileError
from voile.core.input_file import read_at_most, read_file, size_in_words
from voile.core.optional import optional
from voile.core.schema import RawColumn

# --- CSV in UTF-8 with commas and a header, read in two ways; columns are text (dtype object) ----
# *Open* files are read exactly, and whatever is wrong is told with its line.
#
# *Protected* files are read record by record, and nothing that a record holds is told. Every line
# after the first is one record, whatever stands in it: a line end (LF or CRLF) always ends a
# record, so a stray quote cannot reach its neighbours, and a line break inside a cell is not
# supported. A cell that is not UTF-8 is empty. A line that is blank, that has not one cell for
# each column, or whose quotes do not match is a record of empty cells, the null record. Where
# several lines may belong to one record, a column names it: of a damaged line that is well formed
# up to the name, the name is kept, so that whoever has damaged lines alone is still somebody.
# Hence changing one record, in whatever way, changes one record of what is read, and never how
# many there are. Only the container is told: a file that cannot be read or is too large, a first
# line that is no header, and a file that does not end with a line end.

_BOM: Final = b"\xef\xbb\xbf"
_CSV_CELL: Final = re.compile(r'(?:"[^"]*(?:""[^"]*)*"|(?!")[^,]*)(?:,|\Z)')
"""One well-formed cell, quoted or not, with the comma after it."""
_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")
_SEPARATORS: Final = {b";": "semicolons", b"\t": "tabs", b"|": "vertical bars"}


def csv_columns(data: bytes, source: str) -> dict[str, RawColumn]:
    """The columns of an open file; blank lines are skipped, `InvalidInput` names file and line."""
    check_form(data.partition(b"\n")[0], source)
    records = _records(_csv_text(data, source), source)
    line, header = next(records, (0, []))
    if not header:
        raise InvalidInput(f"{source}: empty; expected a header line with the column names")
    check_names(header, f"{source}: line {line}")
    return _columns(header, _of_one_width(records, len(header), source))


def protected_csv_columns(
    data: bytes, source: str, *, naming: str | None = None
) -> dict[str, RawColumn]:
    """The columns of a protected file: one record for each line after the header.

    Args:
        naming: the column that says whose line it is, where several lines are one record.
    """
    head, *lines = data.removeprefix(_BOM).split(b"\n")
    check_form(head, source)
    header = _header(head, source)
    # If it could be left out after the last record, a blank one could not be told from none.
    if not lines or lines.pop():
        raise InvalidInput(f"{source}: the last line must be ended by LF or CRLF, like all others")
    named = header.index(naming) if naming in header else None
    return _columns(header, (_record(line, len(header), named) for line in lines))


def check_form(head: bytes, source: str) -> None:
    """`InvalidInput` for a file of another program's form, by its first line, which is public."""
    if head.startswith(_UTF_16):
        raise InvalidInput(f'{source}: is in UTF-16 ("Unicode text"); save it as CSV in UTF-8')
    if b"," in head:
        return
    for mark, word in _SEPARATORS.items():
        if mark in head:
            raise InvalidInput(
                f"{source}: its columns are separated by {word}, expected commas; save it as CSV "
                "with commas, and with points in decimal numbers"
            )


def check_names(names: list[str], place: str) -> None:
    """`InvalidInput` if two columns have one name."""
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InvalidInput(
            f"{place}: column names must differ, found more than once: "
            + ", ".join(repr(name) for name in repeated)
        )


def _columns(header: list[str], records: Iterator[list[str]]) -> dict[str, RawColumn]:
    columns: list[list[str]] = [[] for _ in header]
    for record in records:
        for column, value in zip(columns, record, strict=True):
            column.append(value)
    # Text of fixed width would give every row the room of the longest value.
    return {
        name: np.array(column, dtype=object) for name, column in zip(header, columns, strict=True)
    }


# --- open files -----------------------------------------------------------------------------------


def _csv_text(data: bytes, source: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line, byte = data.count(b"\n", 0, error.start) + 1, data[error.start : error.start + 1]
        likely = byte.decode("cp1252", errors="replace")
        raise InvalidInput(
            f"{source}: line {line}: not UTF-8; save the file as UTF-8 (byte {byte.hex()} is "
            f"{likely!r} in Windows-1252, which it probably is in)"
        ) from error


def _records(text: str, source: str) -> Iterator[tuple[int, list[str]]]:
    """Each record with the line on which it begins."""
    # Strict, because a quote that is never closed would otherwise swallow the rest of the file.
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    while True:
        line = reader.line_num + 1
        try:
            record = next(reader, None)
        except csv.Error as error:
            raise InvalidInput(f"{source}: line {line}: not valid CSV: {error}") from error
        if record is None:
            return
        if record:
            yield line, record


def _of_one_width(
    records: Iterator[tuple[int, list[str]]], width: int, source: str
) -> Iterator[list[str]]:
    for line, record in records:
        if len(record) != width:
            raise InvalidInput(
                f"{source}: line {line}: expected {width} values, as in the header, "
                f"found {len(record)}"
            )
        yield record


# --- protected files ------------------------------------------------------------------------------


def _header(line: bytes, source: str) -> list[str]:
    try:
        (header,) = csv.reader([line.removesuffix(b"\r").decode()], strict=True)
    except (ValueError, csv.Error):
        header = []
    if not header:
        raise InvalidInput(
            f"{source}: expected the column names on the first line, in UTF-8, each line ended by "
            "LF or CRLF"
        )
    check_names(header, f"{source}: line 1")
    return header


def _record(line: bytes, width: int, named: int | None) -> list[str]:
    """One cell for each column, whatever the line holds."""
    line = line.removesuffix(b"\r")
    try:
        return _csv_cells(line.decode(), width, named)
    except UnicodeDecodeError:
        cells = _csv_cells(line.decode(errors="surrogateescape"), width, named)
        return [cell if _is_utf8(cell) else "" for cell in cells]


def _csv_cells(text: str, width: int, named: int | None) -> list[str]:
    try:
        cells = next(csv.reader([text], strict=True)) if '"' in text else text.split(",")
    except csv.Error:
        cells = []
    while len(cells) > width and not cells[-1]:
        cells.pop()  # some programs end every line with a comma
    if len(cells) == width:
        return cells
    null = [""] * width
    if named is not None:
        null[named] = _cell_at(text, named)
    return null


def _cell_at(text: str, place: int) -> str:
    """One cell of a damaged line, if the line is well formed up to its end; else nothing."""
    start = end = 0
    for _ in range(place + 1):
        start, found = end, _CSV_CELL.match(text, end)
        if found is None or found.end() == start:
            return ""
        end = found.end()
    cell = text[start:end].removesuffix(",")
    return cell[1:-1].replace('""', '"') if cell.startswith('"') else cell


def _is_utf8(cell: str) -> bool:
    """Whether every byte of it was UTF-8."""
    return not any("\udc80" <= character <= "\udcff" for character in cell)


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
    return arrow_columns(table, [field.name for field in fields], protected=protected)


def arrow_columns(
    table: Any, names: Sequence[str], *, protected: bool = False
) -> dict[str, RawColumn]:
    """The columns of these names; of one that no schema reads, that something is there."""
    flat = {field.name for field in table.schema if _is_flat(field.type)}
    nothing = np.zeros(len(table), dtype="V1")  # something is there, but no value
    return {
        name: _column(table.column(name), protected) if name in flat else nothing for name in names
    }


def _check_declared(metadata: Any, source: str) -> None:
    # Not column by column: asked for a damaged one, pyarrow ends the process.
    groups = [metadata.row_group(place) for place in range(metadata.num_row_groups)]
    cells = metadata.num_rows * metadata.num_columns
    _check_size(max(_CELL * cells, sum(group.total_byte_size for group in groups)), source)


def check_group(metadata: Any, place: int, source: str) -> None:
    """The same of one group of rows."""
    group = metadata.row_group(place)
    cells = group.num_rows * metadata.num_columns
    _check_size(max(_CELL * cells, group.total_byte_size), source)


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
    read depends on no other (`voile.datasets.tables`). Only the container can be wrong.

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
