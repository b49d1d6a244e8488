"""Rows to explain or to learn from: read, counted, chosen and told apart.

Public rows are checked against the schema: missing values are filled in and named, anything else is
told. Training takes rows with missing values, so people who have some can be explained: with the
schema's defaults, as in training. Readers of an explanation learn which cells were filled in.

Protected rows never raise: what stands in them is for the release or the training to read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput
from voile.core.explanation import Explanation
from voile.core.guarantee import Relation
from voile.core.row_note import Note, RowNote, filled_note
from voile.core.schema import ColumnTable, Feature, Problem, Rows, Schema, SchemaReport, is_table
from voile.core.schema.cells import raw_column
from voile.core.schema.report import MISSING_ADVICE
from voile.datasets.tables import read_protected_table, read_table
from voile.pipelines.tables import TableRecords
from voile.records.audit_log import array_digest

_SHOWN: Final = 5
Identifier: TypeAlias = str | int | float | None
"""As files and tables hold them; `voile.core.identifiers` says what they mean."""


@dataclass(frozen=True)
class RowsToExplain:
    """Rows, and what is said about them.

    Args:
        rows: what the release takes.
        identifiers: names of the rows: integers or text. Of protected records: each pays for
            itself, and asking again is free; a row without a name may be anybody's, so everybody
            pays for it. Of a population: for the watch against reconstruction.
        notes: what is to be said with the explanation.
        population: its name; by default the label of the data set.
        hints: what a preview says about public rows; no part of a question or its answer.
    """

    rows: Any = field(repr=False)
    identifiers: Sequence[Identifier] | None = None
    notes: tuple[Note, ...] = ()
    population: str | None = None
    hints: tuple[str, ...] = ()

    @classmethod
    def from_rows(cls, rows: Any) -> RowsToExplain:
        """Rows with nothing said about them, unless they are such already."""
        return rows if isinstance(rows, cls) else cls(rows)

    @cached_property
    def count(self) -> int:
        """How many there are; public."""
        return row_count(self.rows)

    def check(self) -> None:
        """There is something to explain."""
        if self.count == 0:
            raise InvalidInput("expected at least one row, found none")


# --- reading ---


def read_rows(
    source: str, schema: Schema, id_column: str | None, *, protected: bool
) -> RowsToExplain:
    """Rows of a file: public ones are checked, of protected ones nothing is told."""
    # Who pays must not depend on what stands in a protected line, damaged or not.
    table = read_protected_table(source, naming=id_column) if protected else read_table(source)
    return rows_of_table(table, schema, id_column, source, protected=protected)


def rows_of_table(
    table: Any, schema: Schema, id_column: str | None, source: str = "rows", *, protected: bool
) -> RowsToExplain:
    """The same of a table."""
    check_columns(table, schema, source)
    features = {name: table[name] for name in schema.feature_names}
    identifiers = _identifiers(table, id_column, source)
    if protected:
        return RowsToExplain(features, identifiers)
    read = public_rows(features, schema, source=source)
    return RowsToExplain(read.rows, identifiers, read.notes, hints=read.hints)


def _identifiers(table: Any, column: str | None, source: str) -> list[Any] | None:
    if column is None:
        return None
    if column not in table:
        raise InvalidInput(f"{source}: there is no identifier column {column!r}")
    return list(table[column])


def read_records(schema: Schema, path: Path) -> TableRecords:
    """Protected rows of a file, with labels; only a missing column raises."""
    table = read_protected_table(path)
    check_columns(table, schema, path, labelled=True)
    return TableRecords.read(schema, table)


def check_columns(
    table: ColumnTable, schema: Schema, source: object, *, labelled: bool = False
) -> None:
    """Refuse a table without a column of the schema; which columns there are is public."""
    label = [schema.label.name] if labelled and schema.label is not None else []
    there = set(table.keys())
    missing = [n for n in (*schema.feature_names, *label) if n not in there]
    _refuse_missing(missing, schema, source, there)


def _refuse_missing(
    missing: Sequence[str], schema: Schema, source: object, there: Collection[str] = ()
) -> None:
    if missing:
        place = f"{source}: " if source else ""
        spare = [str(name) for name in there if name not in schema.feature_names]
        raise InvalidInput(
            f"{place}the schema {schema.name!r} needs columns that are not there: "
            + ", ".join(f"{name!r}{_suggestion(name, spare)}" for name in missing)
        )


def _suggestion(name: str, there: Sequence[str]) -> str:
    """What may be meant, in another spelling."""
    plain = {each.strip().lower().replace(" ", "_").replace("-", "_"): each for each in there}
    near = get_close_matches(name.lower(), list(plain), n=1)
    return f" (is it {plain[near[0]]!r}?)" if near else ""


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
    _refuse_missing(report.missing_columns, schema, source)
    place = f"{source}: " if source else ""
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


# --- counting, choosing, telling apart ---


Size: TypeAlias = int | list[tuple[str, int]] | None
"""How many records there are, in all or in each part; None where that is private."""


def public_size(records: Any, relation: Relation) -> Size:
    """How many records there are, or nothing where their number is protected as well.

    Whether something is charged again is visible: a private number in the question would show that
    it has changed.
    """
    if relation is Relation.ADD_OR_REMOVE_ONE:
        return None
    return part_sizes(records) or row_count(records)


def part_sizes(rows: Any) -> list[tuple[str, int]]:
    """Of a population that is given in parts, name and size of each in order; else nothing."""
    return sorted((str(name), row_count(part)) for name, part in _parts(rows).items())


def row_count(rows: Any) -> int:
    """How many rows were handed in, in all parts together; public."""
    parts = _parts(rows)
    if parts:
        return sum(map(row_count, parts.values()))
    columns = _columns(rows)
    if columns is not None:
        lengths = {len(column) for column in columns.values()}
        if len(lengths) != 1:
            raise InvalidInput(f"the columns have different lengths: {sorted(lengths)}")
        return lengths.pop()
    if not hasattr(rows, "__len__") or isinstance(rows, str | bytes):
        raise InvalidInput(
            f"expected an array or a table of rows, found {type(rows).__name__}; a single row is "
            "given as rows[np.newaxis]"
        )
    return len(rows)


def chosen(rows: Any, places: Sequence[int]) -> Any:
    """Some of the rows, in this order; the same object if all are wanted.

    No column or row is given a common type: what one record is read as depends on no other.
    """
    if list(places) == list(range(row_count(rows))):
        return rows
    if isinstance(rows, Explanation):
        return rows[list(places)]
    columns = _columns(rows)
    if columns is None:
        array = hasattr(rows, "__array__")
        return np.asarray(rows)[list(places)] if array else [rows[place] for place in places]
    return {name: column[list(places)] for name, column in columns.items()}


def stacked(parts: Sequence[Any]) -> Any:
    """Rows of several tables or arrays, one below the other; no cell changes its type."""
    if all(isinstance(part, np.ndarray) for part in parts):
        if len({(part.dtype, part.shape[1:]) for part in parts}) > 1:
            raise InvalidInput("cannot stack rows of different types or widths")
        return np.concatenate(parts)
    tables = [_columns(part) for part in parts]
    names = {None if table is None else tuple(table) for table in tables}
    if None in names or len(names) > 1:
        raise InvalidInput("cannot stack rows with different columns")
    return {name: _stacked_column([t[name] for t in tables if t]) for name in tables[0] or ()}


def _stacked_column(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Of one type if all of them are; else cells as they are."""
    same = len({part.dtype for part in parts}) == 1
    return np.concatenate(parts if same else [part.astype(object) for part in parts])


def rows_digest(rows: Any) -> bytes:
    """SHA-256 over all values of rows: equal rows, and only they, have equal digests."""
    columns = _columns(rows)
    found = {"": np.asarray(rows)} if columns is None else columns
    parts = [[name, _column_digest(_plain(column)).hex()] for name, column in found.items()]
    return hashlib.sha256(b"voile rows v1\n" + json.dumps(parts).encode()).digest()


def _parts(rows: Any) -> dict[Any, Any]:
    """Of a population that is given by the names of its parts, the rows of each.

    Tables and arrays with two dimensions are parts, whatever stands in them.
    """
    if not is_table(rows):
        return {}
    found = {name: rows[name] for name in rows.keys()}  # noqa: SIM118
    return found if all(map(_is_part, found.values())) else {}


def _is_part(given: Any) -> bool:
    return is_table(given) or getattr(given, "ndim", 1) == 2


def _columns(rows: Any) -> dict[str, NDArray[Any]] | None:
    if not is_table(rows):
        return None
    return {str(name): raw_column(rows[name], str(name)) for name in rows.keys()}  # noqa: SIM118


def _plain(column: NDArray[Any]) -> NDArray[Any]:
    """A list of numbers of one type as the array it is equal to; public rows only."""
    if column.dtype.kind != "O" or column.ndim != 1:
        return column
    cells = column.tolist()
    alike = set(map(type, cells)) in ({bool}, {int}, {float})
    return np.asarray(cells) if alike else column


def _column_digest(column: NDArray[Any]) -> bytes:
    if column.dtype.kind in "biuf" and column.dtype.itemsize <= 8:
        return array_digest(column)
    cells = [column.shape, [[type(cell).__name__, str(cell)] for cell in column.ravel().tolist()]]
    return hashlib.sha256(b"cells\n" + json.dumps(cells).encode()).digest()
