"""How rows come in: DataFrames, dicts of columns and arrays all become one array of numbers.

Errors here may depend on the data: nothing in this package promises privacy.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from voile.core.errors import InvalidInput
from voile.core.schema import Schema, is_table
from voile.models import CoalitionModel, Model, Rows


@dataclass(frozen=True)
class Columns:
    """Which features rows must have, as far as that is known.

    Args:
        names: one per feature, or None if they are not known yet.
        width: how many features, or None if that is not known yet.
        schema: reads raw values, where there is one.
    """

    names: tuple[str, ...] | None = None
    width: int | None = None
    schema: Schema | None = None

    @classmethod
    def from_model(
        cls,
        model: Model | CoalitionModel,
        *,
        given: Sequence[str] | None,
        schema: Schema | None,
        example: Any = None,
    ) -> Columns:
        """From the best source there is: the caller, the schema, the data, the model."""
        model_names, model_width = model.feature_names, getattr(model, "width", None)
        names: tuple[str, ...] | None
        if given is not None:
            names = _distinct(given)
        elif schema is not None:
            names = schema.feature_names
        elif is_table(example) and model_names is not None:
            names = model_names  # the model's order; the table is brought into it by name
        elif is_table(example):
            names = _table_names(example)
        else:
            names = model_names
        width = model_width if names is None else len(names)
        if model_width is not None and width != model_width:
            raise InvalidInput(f"the model takes {model_width} features, found {width} names")
        return cls(names, width, schema)

    def read(self, given: Any, what: str) -> Rows:
        """A new C-ordered float array of shape (n, d): finite, with at least one row."""
        read = self._from_table if is_table(given) else self._from_array
        rows = read(given, what)
        if not len(rows):
            raise InvalidInput(f"{what} must have at least one row, found none")
        finite = np.isfinite(rows)
        if not finite.all():
            columns = np.flatnonzero(~finite.all(axis=0))
            raise InvalidInput(
                f"{what} must be finite; NaN or infinity found in {int((~finite).sum())} cells, "
                f"in {self._described(columns)}; fill or drop them first"
            )
        return rows

    def settled(self, given: Any, rows: Rows) -> Columns:
        """With names and width for sure, now that rows have been seen."""
        width = rows.shape[1]
        if self.names is not None:
            return self
        names = (
            _table_names(given)
            if is_table(given)
            else tuple(f"feature {place}" for place in range(width))
        )
        return replace(self, names=names, width=width)

    def _described(self, places: Any) -> str:
        shown = [
            repr(self.names[p]) if self.names is not None else f"column {p}" for p in places[:5]
        ]
        return ", ".join(shown) + (", …" if len(places) > 5 else "")

    def _from_table(self, table: Any, what: str) -> Rows:
        if self.schema is not None:
            return _by_schema(table, self.schema, what)
        names = _table_names(table)
        wanted = names if self.names is None else self.names
        absent = [name for name in wanted if name not in names]
        if absent:
            raise InvalidInput(
                f"{what} lacks the columns {', '.join(map(repr, absent[:5]))}"
                f"{', …' if len(absent) > 5 else ''}; expected {len(wanted)} columns"
            )
        columns = [_numeric(table[name], name, what) for name in wanted]
        lengths = {len(column) for column in columns}
        if len(lengths) > 1:
            raise InvalidInput(f"the columns of {what} have different lengths: {sorted(lengths)}")
        self._check_width(len(columns), what)
        return np.column_stack(columns)

    def _from_array(self, given: Any, what: str) -> Rows:
        try:
            array = np.asarray(given)
        except ValueError:
            array = np.empty(())
        if array.ndim != 2:
            raise InvalidInput(
                f"{what} must have two axes (rows, features), found {array.ndim}; "
                "a single row is given as X[np.newaxis]"
            )
        if array.dtype.kind not in "fiub":
            raise InvalidInput(
                f"{what} must be numbers, found an array of {array.dtype}; "
                "raw values and category names are read through `schema=`"
            )
        self._check_width(array.shape[1], what)
        rows = np.array(array, dtype=np.float64, order="C")
        return rows if self.schema is None else _inside(rows, self.schema, what)

    def _check_width(self, found: int, what: str) -> None:
        if found == 0 or (self.width is not None and found != self.width):
            raise InvalidInput(
                f"{what} must have {self.width or 'at least one'} features, found {found}"
            )


def _table_names(table: Any) -> tuple[str, ...]:
    return _distinct([str(name) for name in table.keys()])  # noqa: SIM118  # a DataFrame, too


def _distinct(given: Sequence[str]) -> tuple[str, ...]:
    names = tuple(given)
    if not names or len(set(names)) != len(names) or not all(names):
        raise InvalidInput(f"feature names must be different texts, found {list(names)[:10]}")
    return names


def _numeric(column: Any, name: str, what: str) -> Rows:
    array = np.asarray(column)
    if array.dtype.kind == "O":  # pandas' nullable numbers arrive like this
        with suppress(TypeError, ValueError):
            array = array.astype(np.float64)
    if array.ndim != 1 or array.dtype.kind not in "fiub":
        raise InvalidInput(
            f"column {name!r} of {what} must hold numbers, found {array.dtype}; "
            "raw values and category names are read through `schema=`"
        )
    return array.astype(np.float64)


def _by_schema(table: Any, schema: Schema, what: str) -> Rows:
    report = schema.check(table)
    if report.missing_columns:
        raise InvalidInput(
            f"{what} lacks the columns {', '.join(map(repr, report.missing_columns))} "
            f"of the schema {schema.name!r}"
        )
    problems = [
        f"{column.name!r}: {finding.count} × {finding.problem}, "
        f"first {finding.examples[0].value} in row {finding.examples[0].row}"
        for column in report.features
        for finding in column.findings
        if finding.count
    ]
    if problems:
        raise InvalidInput(
            f"{what} holds values outside the schema {schema.name!r} ({'; '.join(problems[:5])}); "
            "bring them inside with `schema.rows(table)` if that is meant"
        )
    return np.ascontiguousarray(schema.rows(table))


def _inside(rows: Rows, schema: Schema, what: str) -> Rows:
    outside = np.flatnonzero(((schema.clamp(rows) != rows) & np.isfinite(rows)).any(axis=0))
    if len(outside):
        names = ", ".join(repr(schema.feature_names[place]) for place in outside[:5])
        raise InvalidInput(
            f"{what} holds values outside the schema {schema.name!r}, in {names}; "
            "bring them inside with `schema.clamp(rows)` if that is meant"
        )
    return rows
