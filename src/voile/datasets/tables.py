"""Tables of raw values from CSV and Parquet files.

Values are handed on as they stand in the file; `voile.core.schema.Schema` decides what they mean.
Only the form of a file can be wrong here: errors name lines and columns, never values.
"""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterator
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np

from voile.core.errors import InvalidInput
from voile.core.optional import optional
from voile.core.schema import RawColumn

STDIN = "-"
PARQUET_SUFFIXES = frozenset({".parquet", ".pq"})


def read_table(path: str | PathLike[str]) -> dict[str, RawColumn]:
    """Read a CSV file with a header, a Parquet file (`.parquet`, `.pq`), or CSV from stdin (`-`).

    CSV is UTF-8 with commas; its columns are arrays of text (dtype object). Blank lines are
    skipped.
    """
    if fspath(path) == STDIN:
        return _read_csv(sys.stdin.buffer.read(), "standard input")
    data = _read_bytes(Path(path))
    if Path(path).suffix.lower() in PARQUET_SUFFIXES:
        return parquet_columns(data, str(path))
    return _read_csv(data, str(path))


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"{path}: cannot be read: {error.strerror or error}") from error


def _read_csv(data: bytes, source: str) -> dict[str, RawColumn]:
    records = _records(_decoded(data, source), source)
    line, header = next(records, (0, []))
    if not header:
        raise InvalidInput(f"{source}: empty; expected a header line with the column names")
    _check_names(header, f"{source}: line {line}")
    columns: list[list[str]] = [[] for _ in header]
    for line, record in records:
        if len(record) != len(header):
            raise InvalidInput(
                f"{source}: line {line}: expected {len(header)} values, as in the header, "
                f"found {len(record)}"
            )
        for column, value in zip(columns, record, strict=True):
            column.append(value)
    # Text of fixed width would give every row the room of the longest value.
    return {
        name: np.array(column, dtype=object) for name, column in zip(header, columns, strict=True)
    }


def _decoded(data: bytes, source: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InvalidInput(f"{source}: line {line}: not UTF-8; save the file as UTF-8") from error


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


def _check_names(names: list[str], place: str) -> None:
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InvalidInput(
            f"{place}: column names must differ, found more than once: "
            + ", ".join(repr(name) for name in repeated)
        )


def parquet_columns(data: bytes, source: str) -> dict[str, RawColumn]:
    """The columns of a Parquet file from its bytes; `source` names it in errors."""
    parquet = optional("pyarrow.parquet", extra="explain")
    try:
        file = parquet.ParquetFile(io.BytesIO(data))
        _check_names(file.schema_arrow.names, source)
        table: Any = file.read()
    except InvalidInput:
        raise
    except (ValueError, OSError, NotImplementedError) as error:  # the bases of pyarrow's errors
        raise InvalidInput(f"{source}: not a Parquet file that can be read: {error}") from error
    return {name: table.column(name).to_numpy() for name in table.column_names}
