"""Tables in a federation: rows of a party, and rows that nobody protects, checked before a start.

A schema that does not fit makes constants of columns without a word, because protected rows never
raise; the whole budget would be spent on them. Held-out and reference rows may be looked at, and
they are written by the same people: what does not fit there is said, with file, column and
values. Protected rows are never looked at for this.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from voile.core.errors import InvalidInput
from voile.core.randomness import StreamCipher
from voile.core.schema import ColumnFinding, ColumnReport, Problem, RawColumn, Rows, Schema
from voile.core.schema.schema import MISSING_ADVICE, MOSTLY_EMPTY, draw_rows
from voile.datasets.frames import columns_of
from voile.datasets.tables import read_table
from voile.pipelines.tables import TableRecords

_REFERENCE_ROWS: Final = 50

_HARMLESS = (Problem.MISSING, Problem.NOT_WHOLE)
_NO_LABEL = (Problem.UNKNOWN, Problem.UNREADABLE)


@dataclass(frozen=True)
class Remark:
    """What was found about a column; `fatal` if results would mean nothing."""

    column: str
    text: str
    fatal: bool

    def __str__(self) -> str:
        return f"column {self.column!r} {self.text}"


def check_open_rows(
    schema: Schema, table: Mapping[str, RawColumn], path: Path, *, labelled: bool
) -> tuple[str, ...]:
    """Remarks worth telling; an `InvalidInput` if training with this schema would be pointless.

    Args:
        schema: public.
        table: raw values that are not protected.
        path: where they are from.
        labelled: whether there has to be a label.
    """
    if not max(map(len, table.values()), default=0):
        raise InvalidInput(f"{path}: expected at least one row, found none")
    described = schema if labelled else Schema(schema.name, schema.features)
    found = list(_remarks(described, table))
    fatal = [str(remark) for remark in found if remark.fatal]
    if fatal:
        raise InvalidInput(
            f"{path}: does not fit the schema {schema.name!r}, so nothing was trained or charged: "
            + "; ".join(fatal)
        )
    return tuple(f"{path}: {remark}" for remark in found)


def _remarks(schema: Schema, table: Mapping[str, RawColumn]) -> Iterator[Remark]:
    report = schema.check(table)
    missing = list(report.missing_columns)
    if schema.label is not None and report.label is None:
        missing.append(schema.label.name)
    yield from (Remark(name, "is not there", True) for name in missing)
    if missing:
        return
    rows = schema.rows(table)
    for place, column in enumerate(report.features):
        yield from _of_feature(column, report.rows, constant=bool(np.ptp(rows[:, place]) == 0))
    if report.label is not None:
        labels = schema.labels(table)
        known = labels[~np.isnan(labels)]
        yield from _of_label(report.label, report.rows, constant=len(set(known.tolist())) == 1)


def _of_feature(column: ColumnReport, rows: int, *, constant: bool) -> Iterator[Remark]:
    outside = [each for each in column.findings if each.count and each.problem not in _HARMLESS]
    count = sum(each.count for each in outside)
    if outside:
        yield Remark(column.name, _outside(outside, rows), fatal=2 * count > rows)
    elif column.count(Problem.MISSING) == rows:
        yield Remark(
            column.name, f"is empty: the default stands in every row; {MISSING_ADVICE}", False
        )
    elif constant and rows > 1:
        yield Remark(column.name, f"has the same value in all {rows} rows", fatal=False)
    share = column.count(Problem.MISSING) / rows
    if MOSTLY_EMPTY < share < 1:
        yield Remark(
            column.name, f"is missing in {share:.0%} of rows; {MISSING_ADVICE}", fatal=False
        )


def _of_label(column: ColumnReport, rows: int, *, constant: bool) -> Iterator[Remark]:
    """A label that is not in the schema is a slip in one of them: there is no default for it."""
    outside = [each for each in column.findings if each.count and each.problem not in _HARMLESS]
    missing = column.count(Problem.MISSING)
    if outside:
        beside = any(each.problem in _NO_LABEL for each in outside)
        count = sum(each.count for each in outside)
        yield Remark(column.name, _outside(outside, rows), fatal=beside or 2 * count > rows)
    if missing == rows:
        yield Remark(column.name, "is empty, and it is what is to be learned", fatal=True)
    elif missing:
        text = f"is empty in {missing} of {rows} rows, which count for no accuracy"
        yield Remark(column.name, text, fatal=False)
    if constant and rows > 1 and not outside:
        yield Remark(column.name, "has one value only: figures say little", fatal=False)


def _outside(findings: list[ColumnFinding], rows: int) -> str:
    parts = []
    for each in findings:
        examples = ", ".join(f"{e.value} in row {e.row}" for e in each.examples[:3])
        parts.append(f"{each.count} of {rows} values {_WORDS[each.problem]} ({examples})")
    return "has " + " and ".join(parts)


_WORDS = {
    Problem.UNKNOWN: "that are in no list of the schema",
    Problem.UNREADABLE: "that are no numbers",
    Problem.BELOW: "below the lower bound",
    Problem.ABOVE: "above the upper bound",
}


# --- reading --------------------------------------------------------------------------------------


def labelled_schema(path: Path) -> Schema:
    """The public description of a table with a column to predict."""
    schema = Schema.load(path)
    if schema.label is None:
        raise InvalidInput(
            f"{path.name}: the schema declares no label; declare the column to predict"
        )
    return schema


def open_records(schema: Schema, path: Path) -> TableRecords:
    """Rows that nobody protects, with labels."""
    return open_tables(schema, [path])[0]


def open_tables(schema: Schema, given: Sequence[Any]) -> tuple[TableRecords, tuple[str, ...]]:
    """Rows that nobody protects, of several files or tables, and what is to be said about them."""
    tables = [_open_table(each, "held-out rows") for each in given]
    said = [
        text
        for source, table in tables
        for text in check_open_rows(schema, table, source, labelled=True)
    ]
    parts = [TableRecords.read(schema, table) for _, table in tables]
    return TableRecords.joined(schema, parts), tuple(said)


def reference_rows(schema: Schema, given: Any) -> tuple[Rows, tuple[str, ...]]:
    """Public rows: people's own, or drawn from the schema, each feature by itself.

    Args:
        given: a file or a table; None to draw them.
    """
    if given is None:
        return draw_rows(schema, _REFERENCE_ROWS, StreamCipher().generator()), ()
    source, table = _open_table(given, "reference rows")
    remarks = check_open_rows(schema, table, source, labelled=False)
    return schema.rows(table), remarks


def _open_table(given: Any, called: str) -> tuple[Path, Mapping[str, RawColumn]]:
    """What a file or a table is called, and its columns."""
    if isinstance(given, Path):
        return given, read_table(given)
    return Path(called), columns_of(given)


def protected_records(schema: Schema, given: Any, party: str) -> TableRecords:
    """A party's rows with labels, from a table in memory; only public structure raises."""
    called = f"party {party!r}"
    needed = [*schema.feature_names, *([] if schema.label is None else [schema.label.name])]
    try:
        return TableRecords.read(schema, columns_of(given, needed))
    except InvalidInput as error:
        raise InvalidInput(f"{called}: {error}") from None
    except Exception as error:
        # Its own words may quote a protected row.
        raise InvalidInput(
            f"{called}: the table cannot be read ({type(error).__name__}); pass a table of pandas, "
            "polars or pyarrow, or a dict of columns"
        ) from None
