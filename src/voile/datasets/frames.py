"""Tables as people have them: pandas, polars, pyarrow, NumPy, dicts, and one person by itself.

Everything becomes columns by name, and stays what it is cell by cell: no column is given a common
type, so what a cell becomes depends on no other cell. Missing values have one form each: NaN among
numbers, NaT among times, None among everything else (also for NaN, `pd.NA` and NaT there).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from difflib import get_close_matches
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput
from voile.core.schema.cells import raw_column

ColumnArrays: TypeAlias = dict[str, NDArray[Any]]
"""By column name its values, shape (n,); all of the same length."""

_MISSING_TYPES: Final = frozenset({"NoneType", "NAType", "NaTType"})
_ALIKE: Final = ({bool}, {int}, {float})
_SHOWN: Final = 8


def columns_of(given: Any, names: Sequence[str] | None = None) -> ColumnArrays:
    """The columns of a table, or of one person, by name.

    Assumes nothing about the values. Promises one order of columns, one form of missing values,
    and that a cell is read by itself.

    Args:
        given: a table of pandas, polars or pyarrow; a NumPy array (rows, features) or (features,);
            a dict of columns, a list of dicts; a Series or a dict of scalars for one person.
        names: for a table, which columns, in this order, others are left out; for an array, what
            its columns are called.

    >>> columns_of({"age": 41, "sex": "f"})["age"].tolist()
    [41]
    >>> columns_of(np.array([[1.0, 2.0], [3.0, np.nan]]), ["a", "b"])["b"].tolist()
    [2.0, nan]
    >>> columns_of({"age": [41, None], "sex": ["f", "m"]}, ["sex", "age"])
    {'sex': array(['f', 'm'], dtype=object), 'age': array([41, None], dtype=object)}
    """
    found = _named(given)
    if found is None:
        return _of_array(given, names)
    if names is not None:
        check_names(found, names, extra=False)
    columns = {name: _tidy(found[name]) for name in (found if names is None else names)}
    _check_lengths(columns)
    return columns


def is_frame(given: Any) -> bool:
    """Whether there are names of columns: a table, a dict, a pandas row; arrays have none.

    >>> is_frame({"age": [41, 42]}), is_frame(np.zeros((2, 2)))
    (True, False)
    """
    return (
        isinstance(given, Mapping)
        or _is_records(given)
        or _is_pandas_row(given)
        or _is_table(given)
    )


def is_one_row(given: Any) -> bool:
    """Whether this is one person by itself: a Series, a dict of scalars, an array of one dimension.

    >>> is_one_row({"age": 41}), is_one_row({"age": [41]}), is_one_row(np.zeros(3))
    (True, False, True)
    """
    if isinstance(given, Mapping):
        return bool(given) and all(map(_is_scalar, given.values()))
    if _is_table(given) or _is_records(given):
        return False
    if isinstance(given, list | tuple):  # by its first entry: what is in cells is not looked at
        return not given or _is_scalar(given[0])
    return _is_pandas_row(given) or np.ndim(given) == 1


def row_count(given: Any) -> int:
    """How many rows there are; one person by itself is one.

    >>> row_count(np.zeros((3, 2))), row_count({"age": 41})
    (3, 1)
    """
    if is_one_row(given):
        return 1
    if isinstance(getattr(given, "shape", None), tuple) and _is_table(given):
        return int(given.shape[0])
    columns = columns_of(given)
    return len(next(iter(columns.values()), ()))


def take_rows(given: Any, places: Sequence[int]) -> Any:
    """Some rows of a table, in this order, as a table of the same kind.

    >>> take_rows({"age": [41, 52, 63]}, [2, 0])
    {'age': array([63, 41])}
    """
    if _is_table(given):
        return _narwhal(given)[list(places)].to_native()
    if isinstance(given, Mapping):
        return {name: column[list(places)] for name, column in columns_of(given).items()}
    if isinstance(given, list | tuple):
        return [given[place] for place in places]
    return given[list(places)]


def share_rows(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether columns of two tables lie in the same memory: a table and a slice of it.

    By addresses, never by values. Columns of objects are not compared, and a copy is not noticed.

    >>> ages = np.array([41.0, 52.0, 63.0])
    >>> [share_rows({"age": ages}, {"age": each}) for each in (ages[:1], ages[:1].copy())]
    [True, False]
    """
    pairs = [(one[name], other[name]) for name in one if name in other]
    plain = [pair for pair in pairs if all(map(_is_plain_column, pair))]
    return bool(plain) and all(np.shares_memory(*pair) for pair in plain)


def _is_plain_column(column: Any) -> bool:
    return isinstance(column, np.ndarray) and column.dtype.kind in "buif"


def check_names(
    found: Iterable[str], expected: Sequence[str], *, extra: bool = True, what: str = "the table"
) -> None:
    """Refuse a table whose columns are not the expected ones; their order does not matter.

    Args:
        extra: whether columns beyond the expected ones are refused as well.
        what: how the table is called in the message.

    >>> check_names(["sex", "Age"], ["age", "sex"])
    Traceback (most recent call last):
    voile.core.errors.InvalidInput: the table lacks the column 'age' (is it 'Age'?)...
    """
    there = [str(name) for name in found]
    missing = [name for name in expected if name not in set(there)]
    spare = [name for name in there if name not in set(expected)]
    problems = [f"lacks {_listed(missing, spare)}"] if missing else []
    if spare and extra:
        problems.append(f"has {_listed(spare)} that {'is' if len(spare) == 1 else 'are'} not known")
    if problems:
        raise InvalidInput(
            f"{what} {' and '.join(problems)}; expected {len(expected)} columns: "
            f"{_shortened(expected)}"
        )


# --- kinds of tables ------------------------------------------------------------------------------


def _is_table(given: Any) -> bool:
    """A table of pandas, polars, pyarrow or whatever narwhals or Arrow know; no Series."""
    if isinstance(given, np.ndarray | list | tuple | str | bytes):
        return False
    if hasattr(given, "__arrow_c_stream__") or hasattr(given, "__dataframe__"):
        return not _is_series(given)
    return any(hasattr(given, each) for each in ("__narwhals_dataframe__", "collect_schema"))


def _is_series(given: Any) -> bool:
    return getattr(given, "ndim", 2) == 1 or type(given).__name__ in ("Series", "ChunkedArray")


def _is_pandas_row(given: Any) -> bool:
    """A Series with names: one row of a pandas table."""
    return _is_series(given) and hasattr(given, "index") and hasattr(given, "items")


def _is_records(given: Any) -> bool:
    return (
        isinstance(given, list | tuple)
        and bool(given)
        and all(isinstance(row, Mapping) for row in given)
    )


def _is_scalar(value: Any) -> bool:
    """By its type alone: what a list holds is not looked at."""
    return isinstance(value, str | bytes) or not hasattr(value, "__iter__")


def _has_axes(value: Any) -> bool:
    return hasattr(value, "__iter__") or hasattr(value, "__array__")


def _named(given: Any) -> dict[str, Any] | None:
    """Columns by name as they are; None for what has no names."""
    if isinstance(given, Mapping):
        return _of_mapping(given)
    if _is_records(given):
        return _of_records(given)
    if _is_table(given):
        return _of_table(given)
    if _is_pandas_row(given):
        return _distinct(((name, [value]) for name, value in given.items()))
    return None


def _of_mapping(given: Mapping[Any, Any]) -> dict[str, Any]:
    scalar = [str(name) for name, value in given.items() if _is_scalar(value)]
    if not scalar:
        return _distinct(given.items())
    if len(scalar) < len(given):
        raise InvalidInput(
            f"expected a list for each column or one value for each, found single values in "
            f"{_shortened(scalar)} only"
        )
    return _distinct((name, [value]) for name, value in given.items())


def _of_records(rows: Sequence[Mapping[Any, Any]]) -> dict[str, Any]:
    names = dict.fromkeys(name for row in rows for name in row)
    return _distinct((name, [row.get(name) for row in rows]) for name in names)


def _of_table(given: Any) -> dict[str, Any]:
    _distinct((name, None) for name in _table_names(given))
    frame = _narwhal(given)
    return {str(name): _of_narwhal(frame.get_column(name)) for name in frame.columns}


def _table_names(given: Any) -> Iterable[Any]:
    """Before narwhals sees them: its words for a name that comes twice are not ours."""
    if hasattr(given, "collect_schema"):
        return list(given.collect_schema())
    columns = getattr(given, "column_names", None)
    return list(getattr(given, "columns", ()) if columns is None else columns)


def _narwhal(given: Any) -> Any:
    import narwhals as nw

    found = nw.from_native(given, pass_through=True)
    if isinstance(found, nw.LazyFrame):
        return found.collect()
    if isinstance(found, nw.DataFrame):
        return found
    return nw.from_native(_arrow(given))


def _arrow(given: Any) -> Any:
    """Of a table that narwhals does not know, by Arrow's own protocol."""
    try:
        import pyarrow

        return pyarrow.table(given)
    except (ImportError, TypeError, ValueError) as error:
        raise InvalidInput(
            f"cannot read a table of type {type(given).__name__}; pass a table of pandas, polars "
            "or pyarrow, a NumPy array, or a dict of columns"
        ) from error


# --- columns --------------------------------------------------------------------------------------


def _of_narwhal(series: Any) -> NDArray[Any]:
    """Times without a zone, in UTC; whole numbers beside missing ones stay whole."""
    import narwhals as nw

    kind = series.dtype
    if kind == nw.Object:  # what a foreign value does when looked at is nobody's business here
        return raw_column(series.to_list(), series.name)
    if kind == nw.Datetime and getattr(kind, "time_zone", None) is not None:
        series = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    if kind == nw.Date:
        series = series.cast(nw.Datetime("us"))
    plain = kind.is_float() or kind.is_temporal() or not series.is_null().any()
    array = series.to_numpy() if plain and kind != nw.Categorical else None
    if array is None or (array.dtype.kind == "O" and kind.is_numeric()):
        return raw_column(series.to_list(), series.name)
    return np.asarray(array)


def _of_array(given: Any, names: Sequence[str] | None) -> ColumnArrays:
    array = _array(given)
    width = array.shape[1]
    if names is None:
        names = [f"feature {place}" for place in range(width)]
    if len(names) != width:
        raise InvalidInput(
            f"expected {len(names)} columns ({_shortened(names)}), found an array with {width}"
        )
    return {str(name): _tidy(array[:, place]) for place, name in enumerate(names)}


def _array(given: Any) -> NDArray[Any]:
    """Two axes: (rows, features)."""
    array = np.asarray(_dense(given)) if _has_axes(given) else np.empty(())
    if array.dtype.kind in "US" and not hasattr(given, "__array__"):
        array = np.array(given, dtype=object)  # a list of texts and numbers is no list of texts
    if array.ndim == 1:
        array = array[np.newaxis]
    if array.ndim != 2 or isinstance(given, str | bytes):
        raise InvalidInput(
            "expected a table (pandas, polars, pyarrow, a dict of columns) or an array with two "
            f"axes (rows, features), found {_described(given)}"
        )
    return array


def _dense(given: Any) -> Any:
    if isinstance(given, list | tuple) and given:
        try:
            return np.asarray(given)
        except ValueError as error:
            raise InvalidInput("expected rows of one length, found rows that differ") from error
    return given.toarray() if hasattr(given, "toarray") else given


def _described(given: Any) -> str:
    axes = np.ndim(given) if hasattr(given, "__array__") else None
    kind = type(given).__name__
    return kind if axes is None else f"{kind} with {axes} axes"


def _tidy(column: Any) -> NDArray[Any]:
    """One form of missing values; lists of one plain type become an array of it."""
    array = column if isinstance(column, np.ndarray) else raw_column(column, "given")
    if array.dtype.kind not in "OT":
        return array
    cells = [_plain(cell) for cell in array.tolist()]
    kinds = set(map(type, cells))
    if kinds in _ALIKE:
        return np.asarray(cells)
    for kind, dtype in ((np.datetime64, "datetime64[us]"), (np.timedelta64, "timedelta64[us]")):
        if kind in kinds <= {kind, type(None)}:
            return np.array(cells, dtype=dtype)
    return np.fromiter(cells, dtype=object, count=len(cells))


def _plain(cell: Any) -> Any:
    """Python's own value for one of NumPy's, None for a missing one, UTC for a time with a zone."""
    try:
        if is_missing(cell):
            return None
    except Exception:  # a number of somebody's own class, which raises when it is compared
        return cell
    if isinstance(cell, date | timedelta):
        return _plain_time(cell)
    times = np.datetime64 | np.timedelta64
    return cell.item() if isinstance(cell, np.generic) and not isinstance(cell, times) else cell


def _plain_time(cell: date | timedelta) -> Any:
    """In UTC; the cell itself where it would lead out of the calendar."""
    try:
        if isinstance(cell, datetime) and cell.tzinfo is not None:
            cell = cell.astimezone(UTC).replace(tzinfo=None)
        return (
            np.timedelta64(cell, "us") if isinstance(cell, timedelta) else np.datetime64(cell, "us")
        )
    except (OverflowError, ValueError):
        return cell


def is_missing(cell: Any) -> bool:
    """None, NaN, `pd.NA`, NaT, and what else stands for nothing.

    >>> [is_missing(cell) for cell in (None, float("nan"), "", 0)]
    [True, True, False, False]
    """
    if isinstance(cell, float | np.floating):
        return bool(cell != cell)
    if isinstance(cell, np.datetime64 | np.timedelta64):
        return bool(np.isnat(cell))
    return type(cell).__name__ in _MISSING_TYPES or (isinstance(cell, Decimal) and cell.is_nan())


# --- names and lengths ----------------------------------------------------------------------------


def _distinct(items: Iterable[tuple[Any, Any]]) -> dict[str, Any]:
    pairs = [(str(name), value) for name, value in items]
    columns = dict(pairs)
    if len(columns) < len(pairs):
        seen = [name for name, _ in pairs]
        twice = sorted({name for name in seen if seen.count(name) > 1})
        raise InvalidInput(
            f"column names must differ, found {_shortened(twice)} more than once; rename them"
        )
    if not columns:
        raise InvalidInput("expected a table with at least one column, found none")
    return columns


def _check_lengths(columns: ColumnArrays) -> None:
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name!r}: {count}" for name, count in list(lengths.items())[:_SHOWN])
        raise InvalidInput(f"columns must have one length, found {shown}")


def _listed(names: Sequence[str], candidates: Collection[str] = ()) -> str:
    shown = ", ".join(f"{name!r}{_meant(name, candidates)}" for name in names[:_SHOWN])
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"the column{'s' if len(names) > 1 else ''} {shown}{more}"


def _shortened(names: Sequence[str]) -> str:
    more = ", …" if len(names) > _SHOWN else ""
    return ", ".join(repr(name) for name in names[:_SHOWN]) + more


def _meant(name: str, candidates: Collection[str]) -> str:
    """What may be meant, in another spelling."""
    plain = {each.strip().lower().replace(" ", "_").replace("-", "_"): each for each in candidates}
    near = get_close_matches(name.lower(), list(plain), n=1)
    return f" (is it {plain[near[0]]!r}?)" if near else ""
