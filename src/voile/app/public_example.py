"""A few rows that anybody may see, to explain first."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from io import StringIO
from pathlib import Path
from typing import Any, Final

from voile.core.atomic_file import replace_file
from voile.core.schema import Rows, Schema

EXAMPLE: Final = "example.csv"


def write_example(schema: Schema, rows: Rows, path: Path, *, id_column: str | None = None) -> Path:
    """Rows in the form that `voile explain` reads, with identifiers where those are asked for."""
    table: dict[str, Iterable[Any]] = {**schema.table(rows)}
    if id_column is not None:
        table[id_column] = [f"example {number}" for number in range(1, len(rows) + 1)]
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table)
    writer.writerows(zip(*table.values(), strict=True))
    return replace_file(path, text.getvalue().encode())
