"""Rows of any table as numbers, and back as the table that a model was fitted on.

Attribution works on arrays of numbers: it mixes cells of two rows, and never computes with them. So
a cell of text, a category, a time or a missing value is written as a number, and read back before
the model sees it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from threading import Lock
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput
from voile.core.schema import FeatureValues, Rows
from voile.datasets.frames import ColumnArrays, check_names, columns_of, is_frame, is_missing
from voile.python.plain.table_kinds import (
    NumpyTables,
    PandasTables,
    TableKind,
    kind_of,
    missing_forms,
)

MISSING: Final = float(np.finfo(np.float64).min)
"""A missing number: it equals itself, which NaN does not, and no measurement is so low."""
_LOWEST: Final = float(np.nextafter(MISSING, 0.0))
_HIGHEST: Final = -_LOWEST


def as_finite(numbers: FeatureValues) -> FeatureValues:
    """Numbers that can be compared and put into a list; `as_measured` is the inverse."""
    if np.isfinite(numbers).all():
        return numbers
    return np.nan_to_num(numbers, nan=MISSING, posinf=_HIGHEST, neginf=_LOWEST)


def as_measured(codes: FeatureValues) -> FeatureValues:
    """NaN where nothing stands, and infinities; the same array if there are none."""
    extreme = np.abs(codes) >= _HIGHEST
    if not extreme.any():
        return codes
    numbers = np.where(codes == MISSING, np.nan, codes)
    numbers[codes == _LOWEST], numbers[codes == _HIGHEST] = -np.inf, np.inf
    return numbers


@dataclass(frozen=True)
class NumberColumn:
    """Numbers as they are; truth values as 0 and 1.

    Args:
        name: of the column.
        dtype: what the model gets.
    """

    name: str
    dtype: np.dtype[Any]

    def encode(self, cells: NDArray[Any], what: str) -> FeatureValues:
        """NaN becomes `MISSING`."""
        return as_finite(self.numbers(cells, what))

    def decode(self, codes: FeatureValues, kind: TableKind) -> NDArray[Any]:  # noqa: ARG002
        """A column with missing values cannot be of whole numbers."""
        numbers = as_measured(codes)
        whole = self.dtype.kind != "f"
        return numbers if whole and numbers is not codes else numbers.astype(self.dtype)

    def numbers(self, cells: NDArray[Any], what: str) -> FeatureValues:
        """For plots; NaN where nothing stands."""
        if cells.dtype.kind in "iufb":
            return cells.astype(np.float64)
        if cells.dtype.kind in "OU":
            found = [_number(cell) for cell in cells.tolist()]
            if None not in found:
                return np.array(found, dtype=np.float64)
            place = found.index(None)
            raise _other_kind(self.name, "numbers", cells[place], place, what)
        raise _other_kind(self.name, "numbers", cells[0], 0, what)


def _number(cell: Any) -> float | None:
    if is_missing(cell):
        return np.nan
    try:
        return None if isinstance(cell, str | bytes) else float(cell)
    except (TypeError, ValueError):
        return None


@dataclass(frozen=True, eq=False)
class CellColumn:
    """Anything else: a cell is written as its place in a list of distinct cells, which grows.

    Args:
        name: of the column.
        cells: the distinct ones.
        places: of each cell, by its key.
        allowed: the only cells that a category may hold, where they are known.
    """

    name: str
    cells: list[Any]
    places: dict[Any, int]
    allowed: frozenset[Any] | None = None
    _built: dict[TableKind, tuple[int, Any]] = field(default_factory=dict, repr=False)
    _lock: Any = field(default_factory=Lock, repr=False)

    @classmethod
    def from_cells(
        cls, name: str, cells: NDArray[Any], categories: Sequence[Any] | None
    ) -> CellColumn:
        """Categories in their own order, other cells sorted, so that plots can use the places."""
        found = {_key(cell): _plain(cell) for cell in cells}
        listed = [] if categories is None else [_plain(each) for each in categories]
        there = [cell for cell in found.values() if cell is not None]
        column = cls(name, [], {}, None if categories is None else frozenset(map(_key, listed)))
        for cell in [*listed, *sorted(there, key=_order)]:
            column._add(cell)
        return column

    def encode(self, cells: NDArray[Any], what: str) -> FeatureValues:
        """New cells are added to the list."""
        codes = np.empty(len(cells))
        for row, cell in enumerate(cells):
            place = self.places.get(_key(cell))
            codes[row] = self._new(_plain(cell), row, what) if place is None else place
        return codes

    def decode(self, codes: FeatureValues, kind: TableKind) -> Any:
        return kind.take(self._in_kind(kind), codes.astype(np.intp))

    def numbers(self, cells: NDArray[Any], what: str) -> FeatureValues:
        """Numbers and times as they are; else places in the list."""
        found = [_number_for_plots(cell) for cell in cells]
        if None not in found:
            return np.array(found, dtype=np.float64)
        codes = self.encode(cells, what)
        return np.where([is_missing(cell) for cell in cells], np.nan, codes)

    def _new(self, cell: Any, row: int, what: str) -> int:
        if cell is not None and self.allowed is not None and _key(cell) not in self.allowed:
            raise InvalidInput(
                f"{what}, row {row}: {cell!r} is no category of the column {self.name!r}; "
                f"expected one of {_listed([each for each in self.cells if each is not None])}"
            )
        kinds = {_family(each) for each in self.cells if each is not None}
        if cell is not None and kinds and _family(cell) not in kinds:
            raise _other_kind(self.name, " or ".join(sorted(kinds)), cell, row, what)
        with self._lock:
            return self._add(cell)

    def _add(self, cell: Any) -> int:
        place = self.places.setdefault(_key(cell), len(self.cells))
        if place == len(self.cells):
            self.cells.append(cell)
        return place

    def _in_kind(self, kind: TableKind) -> Any:
        count, built = self._built.get(kind, (-1, None))
        if count != len(self.cells):
            count, built = len(self.cells), kind.cells(self.name, self.cells)
            self._built[kind] = count, built
        return built


def _key(cell: Any) -> Any:
    """One for equal cells: 1 and 1.0 are equal, 1 and True are not, though Python says so."""
    if is_missing(cell):
        return None
    if isinstance(
        cell, np.datetime64 | np.timedelta64
    ):  # equal times of two units hash differently
        whole = cell.astype(f"{cell.dtype.kind}8[us]")
        return cell.dtype.kind, int(whole.astype(np.int64)), int((cell - whole).astype(np.int64))
    try:
        hash(cell)
    except TypeError:
        return type(cell).__name__, repr(cell)
    return _family(cell), cell


def _plain(cell: Any) -> Any:
    if is_missing(cell):
        return None
    is_number = isinstance(cell, np.number | np.bool_) and not isinstance(cell, np.timedelta64)
    return cell.item() if is_number else cell


def _order(cell: Any) -> tuple[str, Any]:
    if isinstance(cell, int | float):
        return "", float(cell)
    return type(cell).__name__, str(cell)


def _family(cell: Any) -> str:
    if isinstance(cell, bool | np.bool_):
        return "truth values"
    if isinstance(cell, np.datetime64 | np.timedelta64):
        return "times"
    if isinstance(cell, str):
        return "text"
    return "numbers" if isinstance(cell, int | float | np.number | Decimal) else type(cell).__name__


def _number_for_plots(cell: Any) -> float | None:
    if isinstance(cell, np.datetime64):
        return float(cell.astype("datetime64[us]").astype(np.int64)) if cell == cell else np.nan
    if isinstance(cell, np.timedelta64):
        return float(cell.astype("timedelta64[us]").astype(np.int64)) if cell == cell else np.nan
    return _number(cell)


def _other_kind(name: str, expected: str, cell: Any, row: int, what: str) -> InvalidInput:
    return InvalidInput(
        f"{what}: the column {name!r} must hold {expected}, found {cell!r} in row {row}; convert "
        "it as it was when the model was fitted"
    )


def _listed(cells: Sequence[Any], most: int = 8) -> str:
    return ", ".join(map(repr, cells[:most])) + (", …" if len(cells) > most else "")


Column: TypeAlias = NumberColumn | CellColumn


@dataclass(frozen=True, eq=False)
class TableCodec:
    """Rows as numbers and back.

    Args:
        columns: in the model's order.
        kind: of the tables that the model gets.
        named: whether the names are somebody's, or numbers of ours.

    >>> import pandas as pd
    >>> table = pd.DataFrame({"age": [41, 52], "sex": pd.Categorical(["m", "f"])})
    >>> codec = TableCodec.from_table(table)
    >>> codec.encode(table).tolist()
    [[41.0, 1.0], [52.0, 0.0]]
    >>> codec.decode(codec.encode(table)).equals(table)
    True
    """

    columns: tuple[Column, ...]
    kind: TableKind
    named: bool = True

    @classmethod
    def from_table(cls, example: Any, names: Sequence[str] | None = None) -> TableCodec:
        """From rows of the kind that the model was fitted on.

        Args:
            names: what columns are called, and in which order, if the model knows.
        """
        cells = columns_of(example, names)
        kind = kind_of(example)
        if isinstance(kind, PandasTables):
            kind = replace(kind, missing=missing_forms(example, columns_of(example)))
        columns = tuple(_column(name, column, kind) for name, column in cells.items())
        return cls(columns, kind, is_frame(example) or names is not None)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @cached_property
    def is_numeric(self) -> bool:
        """Whether rows are numbers as they are; NaN may be among them."""
        return all(isinstance(column, NumberColumn) for column in self.columns)

    def in_kind(self, kind: TableKind) -> TableCodec:
        """The same for a model that takes tables of another kind."""
        return replace(self, kind=kind)

    def read(self, given: Any, what: str = "rows") -> ColumnArrays:
        """The cells of somebody's rows, in the order of the columns; names are checked."""
        with told_of(what):
            found = columns_of(given, None if is_frame(given) else self.names)
        if not is_frame(given):
            return found
        if not self.named and len(found) == len(self.columns):
            return found
        check_names(found, self.names, what=what)
        return {name: found[name] for name in self.names}

    def encode(self, given: Any, what: str = "rows") -> Rows:
        """Rows as numbers, shape (n, d)."""
        return self.encode_cells(self.read(given, what), what)

    def encode_cells(self, cells: ColumnArrays, what: str = "rows") -> Rows:
        """The same of cells that were read."""
        pairs = zip(self.columns, cells.values(), strict=True)
        return np.column_stack([column.encode(found, what) for column, found in pairs])

    def decode(self, rows: Rows) -> Any:
        """The table that a model gets."""
        if self.is_numeric and isinstance(self.kind, NumpyTables):
            return self._matrix(rows)
        return self.kind.table(
            {each.name: each.decode(rows[:, p], self.kind) for p, each in enumerate(self.columns)}
        )

    def numbers(self, cells: ColumnArrays, what: str = "rows") -> Rows:
        """Cells for plots: numbers as they are, NaN where nothing stands, places of the others."""
        pairs = zip(self.columns, cells.values(), strict=True)
        return np.column_stack([column.numbers(found, what) for column, found in pairs])

    def _matrix(self, rows: Rows) -> NDArray[Any]:
        """One array, in one step; whole numbers are for tables with columns of their own types."""
        dtype = getattr(self.kind, "dtype", None)
        matrix = as_measured(rows)
        return (
            matrix.astype(dtype, copy=False) if dtype is not None and dtype.kind == "f" else matrix
        )


@contextmanager
def told_of(what: str) -> Iterator[None]:
    """Errors say which table they are about."""
    try:
        yield
    except InvalidInput as error:
        raise InvalidInput(f"{what}: {error}") from None


def _column(name: str, cells: NDArray[Any], kind: TableKind) -> Column:
    if kind.is_number(name, cells):
        return NumberColumn(name, cells.dtype)
    dtype = getattr(kind, "dtypes", {}).get(name)
    return CellColumn.from_cells(name, cells, _categories(dtype))


def _categories(dtype: Any) -> list[Any] | None:
    """Those that a type lists; polars' `Categorical` grows by itself and lists none."""
    found = getattr(dtype, "categories", None)
    if found is None or getattr(dtype, "categories", None) is None:
        return None
    try:
        return list(found.to_list() if hasattr(found, "to_list") else found)
    except TypeError:
        return None
