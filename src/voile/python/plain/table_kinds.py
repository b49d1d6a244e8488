"""Tables as a model was fitted on them: of which kind, and of which types their columns are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from voile.core.optional import optional
from voile.datasets.frames import ColumnArrays, is_missing

Codes: TypeAlias = NDArray[np.intp]
"""Shape (n,): places in a list of distinct cells."""


class TableKind(Protocol):
    """How tables of one library are built, with the types that the example has."""

    @property
    def name(self) -> str:
        """For people."""

    def is_number(self, column: str, cells: NDArray[Any]) -> bool:
        """Whether the example holds plain numbers here, which need no list of distinct cells."""

    def cells(self, column: str, cells: Sequence[Any]) -> Any:
        """Cells in the type of the example's column; `take` picks of them."""

    def take(self, cells: Any, codes: Codes) -> Any:
        """A column from places in a list of distinct cells."""

    def table(self, columns: Mapping[str, Any]) -> Any:
        """The table a model is given."""


def kind_of(example: Any) -> TableKind:
    """The kind of somebody's table; arrays and lists are NumPy's."""
    home = type(example).__module__.partition(".")[0]
    if home == "pandas":
        return PandasTables(dict(zip(map(str, example.columns), example.dtypes, strict=True)))
    if home == "polars":
        frame = example.collect() if hasattr(example, "collect") else example
        return PolarsTables(dict(frame.schema), nulls=_nulls(frame))
    if home == "pyarrow":
        fields = {each.name: each.type for each in example.schema}
        return ArrowTables(fields, nulls=tuple(n for n in fields if example[n].null_count))
    if isinstance(example, Mapping):
        return DictTables()
    return array_kind(example)


def array_kind(example: Any) -> NumpyTables:
    """As an array; other libraries have types of their own for numbers."""
    dtype = getattr(example, "dtype", None)
    return NumpyTables(dtype if isinstance(dtype, np.dtype) else None)


def _nulls(frame: Any) -> tuple[str, ...]:
    return tuple(name for name in frame.columns if frame[name].null_count())


def _plain_numbers(cells: NDArray[Any]) -> bool:
    """Numbers that a float holds without loss."""
    if cells.dtype.kind in "iu" and cells.itemsize == 8 and len(cells):
        return bool(np.abs(cells.astype(np.float64)).max() <= 2.0**53)
    return cells.dtype.kind in "iufb" and cells.itemsize <= 8


@dataclass(frozen=True, eq=False)
class PandasTables:
    """DataFrames.

    Args:
        dtypes: by column; the usual one where there is none.
        missing: by column of objects, what stands for nothing there.
    """

    dtypes: Mapping[str, Any] = field(default_factory=dict)
    missing: Mapping[str, Any] = field(default_factory=dict)
    name: str = "pandas"

    def is_number(self, column: str, cells: NDArray[Any]) -> bool:
        return isinstance(self._dtype(column, cells), np.dtype) and _plain_numbers(cells)

    def cells(self, column: str, cells: Sequence[Any]) -> Any:
        pandas = optional("pandas", extra="explain")
        array = _object_array(cells)
        dtype = self.dtypes.get(column)
        if dtype is None or _is_object(dtype):
            nothing = self.missing.get(column, np.nan)
            plain = _object_array([nothing if is_missing(cell) else cell for cell in cells])
            return pandas.Series(plain).array if dtype is None else plain
        zone = getattr(dtype, "tz", None)
        if zone is not None:
            return pandas.array(pandas.to_datetime(array, utc=True).tz_convert(zone).astype(dtype))
        return pandas.array(array, dtype=dtype)

    def take(self, cells: Any, codes: Codes) -> Any:
        if isinstance(cells, np.ndarray):  # else pandas would take objects for text
            series: Any = optional("pandas", extra="explain").Series
            return series(cells.take(codes), dtype=object)
        return cells.take(codes)

    def table(self, columns: Mapping[str, Any]) -> Any:
        return optional("pandas", extra="explain").DataFrame(dict(columns), copy=False)

    def _dtype(self, column: str, cells: NDArray[Any]) -> Any:
        return self.dtypes.get(column, cells.dtype)


@dataclass(frozen=True, eq=False)
class PolarsTables:
    """DataFrames of polars, which tell a missing value from NaN.

    Args:
        dtypes: by column.
        nulls: columns with missing values.
    """

    dtypes: Mapping[str, Any]
    nulls: tuple[str, ...] = ()
    name: str = "polars"

    def is_number(self, column: str, cells: NDArray[Any]) -> bool:
        return column not in self.nulls and _plain_numbers(cells)

    def cells(self, column: str, cells: Sequence[Any]) -> Any:
        polars, dtype = optional("polars", extra="explain"), self.dtypes[column]
        plain = [None if is_missing(c) else c.item() if hasattr(c, "item") else c for c in cells]
        if not any(isinstance(cell, date) for cell in plain):
            return polars.Series(column, plain, dtype=dtype, strict=False)
        times = polars.Series(column, plain, dtype=polars.Datetime("us"))
        zone = getattr(dtype, "time_zone", None)
        if zone is not None:
            times = times.dt.replace_time_zone("UTC").dt.convert_time_zone(zone)
        return times.cast(dtype)

    def take(self, cells: Any, codes: Codes) -> Any:
        return cells.gather(codes)

    def table(self, columns: Mapping[str, Any]) -> Any:
        return optional("polars", extra="explain").DataFrame(dict(columns))


@dataclass(frozen=True, eq=False)
class ArrowTables:
    """Tables of pyarrow.

    Args:
        types: by column.
        nulls: columns with missing values.
    """

    types: Mapping[str, Any]
    nulls: tuple[str, ...] = ()
    name: str = "pyarrow"

    def is_number(self, column: str, cells: NDArray[Any]) -> bool:
        return column not in self.nulls and _plain_numbers(cells)

    def cells(self, column: str, cells: Sequence[Any]) -> Any:
        plain = [c.item() if isinstance(c, np.generic) else c for c in cells]
        return optional("pyarrow", extra="demo").array(plain, type=self.types[column])

    def take(self, cells: Any, codes: Codes) -> Any:
        return cells.take(optional("pyarrow", extra="demo").array(codes))

    def table(self, columns: Mapping[str, Any]) -> Any:
        return optional("pyarrow", extra="demo").table(dict(columns))


@dataclass(frozen=True, eq=False)
class DictTables:
    """Columns by name."""

    name: str = "dict of columns"

    def is_number(self, column: str, cells: NDArray[Any]) -> bool:  # noqa: ARG002
        return _plain_numbers(cells)

    def cells(self, column: str, cells: Sequence[Any]) -> Any:  # noqa: ARG002
        return _object_array(cells)

    def take(self, cells: Any, codes: Codes) -> Any:
        return cells.take(codes)

    def table(self, columns: Mapping[str, Any]) -> Any:
        return dict(columns)


@dataclass(frozen=True, eq=False)
class NumpyTables:
    """Arrays of two axes: numbers of one type, or objects.

    Args:
        dtype: of the array; None for lists.
    """

    dtype: Any = None
    name: str = "NumPy"

    def is_number(self, column: str, cells: NDArray[Any]) -> bool:  # noqa: ARG002
        return _plain_numbers(cells)

    def cells(self, column: str, cells: Sequence[Any]) -> Any:  # noqa: ARG002
        return _object_array(cells)

    def take(self, cells: Any, codes: Codes) -> Any:
        return cells.take(codes)

    def table(self, columns: Mapping[str, Any]) -> Any:
        found = list(columns.values())
        kinds = {column.dtype.kind for column in found}
        if "O" not in kinds:
            matrix = np.column_stack(found)
            fits = self.dtype is not None and self.dtype.kind == "f"
            return matrix.astype(self.dtype, copy=False) if fits else matrix
        matrix = np.empty((len(found[0]), len(found)), dtype=object)
        for place, column in enumerate(found):
            matrix[:, place] = column
        return matrix


def missing_forms(example: Any, columns: ColumnArrays) -> dict[str, Any]:
    """By column of objects of a DataFrame, what stands for nothing: None or NaN."""
    found: dict[str, Any] = {}
    for place, (name, cells) in enumerate(columns.items()):
        if cells.dtype.kind == "O" and _is_object(example.dtypes.iloc[place]):
            own = example.iloc[:, place]
            found[name] = next((cell for cell in own[own.isna()]), np.nan)
    return found


def _is_object(dtype: Any) -> bool:
    return isinstance(dtype, np.dtype) and dtype.kind == "O"


def _object_array(cells: Sequence[Any]) -> NDArray[Any]:
    array = np.empty(len(cells), dtype=object)
    array[:] = cells
    return array
