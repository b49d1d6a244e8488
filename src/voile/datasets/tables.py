"""Tables of raw values from CSV and Parquet files.

Values are handed on as they stand in the file; `voile.core.schema.Schema` decides what they mean.
Only the form of a file can be wrong here: errors name lines and columns, never values.
"""

from __future__ import annotations

import json
import sys
from os import PathLike, fspath
from pathlib import Path
from shlex import quote

from voile.core.errors import InvalidInput
from voile.core.input_file import read_at_most, read_file
from voile.core.schema import RawColumn
from voile.datasets.csv_files import csv_columns, protected_csv_columns
from voile.datasets.parquet_files import parquet_columns

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
