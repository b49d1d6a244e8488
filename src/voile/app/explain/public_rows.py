"""Rows that are not protected: missing values are filled in and named, anything else is told.

Training takes rows with missing values, so people who have some can be explained: with the schema's
defaults, as in training. Whoever reads the explanation is told which cells were nobody's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from voile.core.errors import InvalidInput
from voile.core.row_note import RowNote, filled_note
from voile.core.schema import ColumnTable, Feature, Problem, Rows, Schema, SchemaReport
from voile.core.schema.cells import raw_column
from voile.core.schema.report import MISSING_ADVICE

_SHOWN: Final = 5


@dataclass(frozen=True, eq=False)
class PublicRows:
    """Rows inside a schema.

    Args:
        rows: shape (n, d).
        notes: for each column with cells that were filled in, in which rows.
        hints: for each column with more than 20 % missing, what to do about it.
    """

    rows: Rows
    notes: tuple[RowNote, ...]
    hints: tuple[str, ...] = ()


def public_rows(table: ColumnTable, schema: Schema, *, source: str = "") -> PublicRows:
    """Read rows that anybody may see; `InvalidInput` names `source`, row, column and value."""
    report = schema.check(table)
    _check(report, schema, source)
    incomplete = {column.name for column in report.features if column.count(Problem.MISSING)}
    notes = tuple(
        filled_note(each.name, each.default, _missing(each, table[each.name]))
        for each in schema.features
        if each.name in incomplete
    )
    hints = tuple(
        f"{source or 'rows'}: column {column.name!r} is missing in "
        f"{column.count(Problem.MISSING) / report.rows:.0%} of rows; {MISSING_ADVICE}"
        for column in report.mostly_empty
    )
    return PublicRows(schema.rows(table), notes, hints)


def _check(report: SchemaReport, schema: Schema, source: str) -> None:
    place = f"{source}: " if source else ""
    if report.missing_columns:
        raise InvalidInput(
            f"{place}the schema {schema.name!r} needs columns that are not there: "
            + ", ".join(map(repr, report.missing_columns))
        )
    wrong = [
        f"row {example.row}, column {column.name!r}: {example.value} ({finding.problem})"
        for column in report.features
        for finding in column.findings
        if finding.problem is not Problem.MISSING
        for example in finding.examples
    ]
    if wrong:
        more = "; and more" if len(wrong) > _SHOWN else ""
        raise InvalidInput(
            f"{place}values outside the schema {schema.name!r}: {'; '.join(wrong[:_SHOWN])}{more}; "
            "correct them, or leave them empty for the schema's default"
        )


def _missing(feature: Feature, column: Any) -> list[int]:
    """The rows in which nothing stands, in order."""
    cells = raw_column(column, feature.name)
    missing = feature.domain.problems(feature.domain.read(cells))[Problem.MISSING]
    return [int(row) for row in np.flatnonzero(missing)]
