"""CSV in UTF-8 with commas and a header, read in two ways; columns are text (dtype object).

*Open* files are read exactly, and whatever is wrong is told with its line.

*Protected* files are read record by record, and nothing that a record holds is told. Every line
after the first is one record, whatever stands in it: a line end (LF or CRLF) always ends a record,
so a stray quote cannot reach its neighbours, and a line break inside a cell is not supported. A
cell that is not UTF-8 is empty. A line that is blank, that has not one cell for each column, or
whose quotes do not match is a record of empty cells, the null record. Where several lines may
belong to one record, a column names it: of a damaged line that is well formed up to the name, the
name is kept, so that whoever has damaged lines alone is still somebody. Hence changing one record,
in whatever way, changes one record of what is read, and never how many there are. Only the
container is told: a file that cannot be read or is too large, a first line that is no header, and a
file that does not end with a line end.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from typing import Final

import numpy as np

from voile.core.errors import InvalidInput
from voile.core.schema import RawColumn

_BOM: Final = b"\xef\xbb\xbf"
_CELL: Final = re.compile(r'(?:"[^"]*(?:""[^"]*)*"|(?!")[^,]*)(?:,|\Z)')
"""One well-formed cell, quoted or not, with the comma after it."""
_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")
_SEPARATORS: Final = {b";": "semicolons", b"\t": "tabs", b"|": "vertical bars"}


def csv_columns(data: bytes, source: str) -> dict[str, RawColumn]:
    """The columns of an open file; blank lines are skipped, `InvalidInput` names file and line."""
    check_form(data.partition(b"\n")[0], source)
    records = _records(_decoded(data, source), source)
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


def _decoded(data: bytes, source: str) -> str:
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
        return _cells(line.decode(), width, named)
    except UnicodeDecodeError:
        cells = _cells(line.decode(errors="surrogateescape"), width, named)
        return [cell if _is_text(cell) else "" for cell in cells]


def _cells(text: str, width: int, named: int | None) -> list[str]:
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
        start, found = end, _CELL.match(text, end)
        if found is None or found.end() == start:
            return ""
        end = found.end()
    cell = text[start:end].removesuffix(",")
    return cell[1:-1].replace('""', '"') if cell.startswith('"') else cell


def _is_text(cell: str) -> bool:
    """Whether every byte of it was UTF-8."""
    return not any("\udc80" <= character <= "\udcff" for character in cell)
