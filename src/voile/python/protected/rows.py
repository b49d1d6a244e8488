"""Tables of protected rows, by column: only their structure can be wrong, never what they hold.

Types, names and lengths of columns are public. A cell is handed on as it is, each by itself, and
the schema reads it; whatever a cell does when it is looked at, it becomes one unreadable cell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from voile.core.errors import InvalidInput
from voile.core.schema import RawColumn
from voile.core.schema.cells import raw_column
from voile.datasets.frames import check_names, is_frame
from voile.release.silence import call_suppressed, silenced


def protected_columns(
    given: Any, names: Sequence[str] | None, *, what: str, more: Sequence[str] = ()
) -> dict[str, RawColumn]:
    """The columns of a protected table, cell by cell as they are.

    Args:
        given: a table of pandas, polars or pyarrow, a dict of columns, or an array.
        names: of the columns that are needed; what an array's columns are called.
        what: how the table is called in messages.
        more: further columns that are read if they are there, such as identifiers.

    >>> protected_columns({"age": [41, "old"], "sex": ["f", None]}, ["age"], what="rows")
    {'age': array([41, 'old'], dtype=object)}
    """
    with silenced():
        return _columns(given, names, what, more)


def _columns(
    given: Any, names: Sequence[str] | None, what: str, more: Sequence[str]
) -> dict[str, RawColumn]:
    if isinstance(given, list | tuple) or not is_frame(given):
        return _of_array(given, names, what)
    if isinstance(given, Mapping) and given and all(map(_is_one_cell, given.values())):
        return _columns({name: [cell] for name, cell in given.items()}, names, what, more)
    there = _names(given, what)
    wanted = list(there if names is None else names)
    if names is not None:
        check_names(there, names, extra=False, what=what)
    wanted += [name for name in more if name in there and name not in wanted]
    columns = {name: _column(given, name, what) for name in wanted}
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise InvalidInput(f"{what}: the columns have different lengths: {lengths}")
    return columns


def _is_one_cell(value: Any) -> bool:
    """By its type alone: what a list holds is not looked at."""
    return isinstance(value, str | bytes) or not hasattr(value, "__iter__")


def _of_array(given: Any, names: Sequence[str] | None, what: str) -> dict[str, RawColumn]:
    """By place; an array has the schema's columns, in its order."""
    array = np.asarray(given) if hasattr(given, "__array__") else None
    if array is None or array.ndim not in (1, 2) or names is None:
        raise InvalidInput(
            f"{what}: expected a table (pandas, polars, pyarrow, a dict of columns) or an array "
            f"with two axes (rows, features), found a {type(given).__name__}"
        )
    rows = array[np.newaxis] if array.ndim == 1 else array
    if rows.shape[1] != len(names):
        raise InvalidInput(
            f"{what}: expected {len(names)} columns, {', '.join(map(repr, names))}, found an array "
            f"with {rows.shape[1]}"
        )
    return {name: rows[:, place] for place, name in enumerate(names)}


def _names(given: Any, what: str) -> list[str]:
    names = [str(name) for name in _name_list(given)]
    if len(set(names)) < len(names):
        raise InvalidInput(f"{what}: column names must differ; rename those that come twice")
    return names


def _name_list(given: Any) -> Iterable[Any]:
    if isinstance(given, Mapping):
        return given
    for each in ("column_names", "columns", "index"):  # pyarrow; others; one person of pandas
        found = getattr(given, each, None)
        if found is not None:
            return list(found)
    return ()


def _column(given: Any, name: str, what: str) -> RawColumn:
    column = given[name]
    if hasattr(column, "to_list") and not hasattr(column, "array"):  # polars
        cells = column.to_numpy if column.dtype.is_numeric() else column.to_list
        return _cells(cells, column, what)
    if hasattr(column, "to_pylist"):  # pyarrow
        return _cells(column.to_pylist, column, what)
    if isinstance(given, Mapping) or hasattr(given, "columns"):
        return _cells(lambda: column, column, what)
    return raw_column([column], name)  # one person: a pandas row


def _cells(read: Callable[[], Iterable[Any]], column: Any, what: str) -> RawColumn:
    """All at once, or cell by cell where one of them stands in the way."""
    whole = call_suppressed(lambda: raw_column(read(), "given"))
    if whole is not None:
        return whole
    if not hasattr(column, "__len__") or isinstance(column, str | bytes) or _axes(column) > 1:
        raise InvalidInput(f"{what}: expected a list or an array with one axis for each column")
    cells = np.empty(len(column), dtype=object)
    for row in range(len(column)):
        cells[row] = call_suppressed(partial(_cell, column, row))
    return cells


def _axes(column: Any) -> int:
    return int(getattr(column, "ndim", 1))


def _cell(column: Any, row: int) -> Any:
    found = column.iloc[row] if hasattr(column, "iloc") else column[row]
    return found.as_py() if hasattr(found, "as_py") else found
