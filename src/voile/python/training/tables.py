"""Tables that an estimator is fitted on and asked about, as scikit-learn's people have them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput
from voile.core.optional import optional
from voile.core.schema import Categories, Schema
from voile.core.schema.cells import raw_column
from voile.datasets.frames import check_names, columns_of, is_frame, is_one_row
from voile.release.silence import call_suppressed

optional("sklearn.base", extra="explain")
from sklearn.exceptions import DataConversionWarning  # noqa: E402

Columns: TypeAlias = dict[str, NDArray[Any]]


def names_of(given: Any) -> tuple[str, ...] | None:
    """What a table calls its columns; None for an array, and for a table that numbers them."""
    if not is_frame(given) or _is_numbered(given):
        return None
    found = given.keys() if isinstance(given, Mapping) else getattr(given, "column_names", None)
    found = getattr(given, "columns", None) if found is None else found
    return tuple(columns_of(given) if found is None else map(str, found))


def fitted_columns(given: Any, schema_names: Sequence[str] | None) -> Columns:
    """The columns to learn from, in the order of the table."""
    given = _by_column(_as_known(given))
    if is_one_row(given):
        raise InvalidInput(_reshape(1))
    names = names_of(given)
    if names is None:
        return _of_array(given, schema_names)
    if schema_names is not None:
        check_names(names, schema_names)
    columns = columns_of(given)
    _check_rows(columns)
    return columns


def asked_columns(given: Any, names: Sequence[str], estimator: str) -> Columns:
    """The same columns of a table that is asked about: by name, or by place in an array."""
    given = _as_known(given)
    if names_of(given) is not None:
        check_names(columns_of(given), names)
        columns = columns_of(given, names)
    else:
        array = _plain(given)
        width = array.shape[-1] if array.ndim in (1, 2) else 0
        if array.ndim in (1, 2) and width != len(names):
            raise InvalidInput(
                f"X has {width} features, but {estimator} is expecting {len(names)} features as "
                "input"
            )
        columns = columns_of(array, names)
    _check_rows(columns)
    return columns


def _by_column(given: Any) -> Any:
    """Of records, one column for each name of the first one: no other record decides anything."""
    if not (isinstance(given, list | tuple) and given and isinstance(given[0], Mapping)):
        return given
    return {name: [_entry(row, name) for row in given] for name in given[0]}


def _entry(row: Any, name: Any) -> Any:
    return call_suppressed(lambda: row.get(name) if isinstance(row, Mapping) else None)


def _of_array(given: Any, names: Sequence[str] | None) -> Columns:
    array = _plain(given)
    if array.ndim != 2:
        raise InvalidInput(_reshape(array.ndim))
    rows, width = array.shape
    if not rows or not width:
        what = "sample" if not rows else "feature"
        raise InvalidInput(
            f"Found array with 0 {what}(s) (shape={array.shape}) while a minimum of 1 is required."
        )
    if names is not None and len(names) != width:
        raise InvalidInput(f"X has {width} features, but the schema has {len(names)}")
    return columns_of(array, [f"x{place}" for place in range(width)] if names is None else names)


def _as_known(given: Any) -> Any:
    """What only says that it can become an array, or is sparse, as an array."""
    if hasattr(given, "toarray"):
        return given.toarray()
    if _is_plain_array(given):
        return np.asarray(given)
    return given


def _is_plain_array(given: Any) -> bool:
    """An array of another library, without names."""
    named = ("columns", "column_names", "__arrow_c_stream__", "__dataframe__", "index")
    is_other = hasattr(given, "__array__") and not isinstance(given, np.ndarray)
    return is_other and not any(hasattr(given, each) for each in named)


def _plain(given: Any) -> NDArray[Any]:
    """Of a table that numbers its columns, and of lists of lists, the array."""
    found = given.to_numpy() if hasattr(given, "to_numpy") else given
    array = _of_rows(found) if isinstance(found, list | tuple) else np.asarray(found)
    if array.dtype.kind == "c":
        raise InvalidInput("Complex data not supported: expected numbers or texts")
    return array


def _of_rows(rows: Sequence[Any]) -> NDArray[Any]:
    """Cell by cell: lists of numbers and texts must not become an array of texts, and what is in a
    cell must not decide anything. A row of another length than the first says nothing."""
    if not rows or not isinstance(rows[0], list | tuple):
        return np.asarray(rows, dtype=object)
    found = np.full((len(rows), len(rows[0])), None, dtype=object)
    for place, row in enumerate(rows):
        cells = list(row) if isinstance(row, list | tuple) else []
        for column, cell in enumerate(cells if len(cells) == len(rows[0]) else []):
            found[place, column] = cell
    return found


def _is_numbered(given: Any) -> bool:
    """Only pandas has names that are no texts."""
    names = given.columns if hasattr(given, "iloc") and hasattr(given, "columns") else ("",)
    return not any(isinstance(name, str) for name in names)


def _reshape(axes: int) -> str:
    return (
        f"Expected 2D array, got {axes}D array instead. Reshape your data: one row for each "
        "record, one column for each feature"
    )


def _check_rows(columns: Columns) -> None:
    if not len(next(iter(columns.values()))):
        raise InvalidInput("Found 0 sample(s): expected at least one row")


def check_kinds(given: Any, columns: Columns, schema: Schema) -> None:
    """Refuse numbers in a column that the schema lists as texts: all would be read as unknown.

    The declared kind of a column decides, never a value.
    """
    for place, name in enumerate(columns):
        feature = next((each for each in schema.features if each.name == name), None)
        if feature is None or not isinstance(feature.domain, Categories):
            continue
        if isinstance(feature.domain.values[0], str) and _holds_numbers(given, name, place):
            raise InvalidInput(
                f"column {name!r} holds numbers, and its categories are texts such as "
                f"{feature.domain.values[0]!r}: pass texts, in a table or an array of objects"
            )


def _holds_numbers(given: Any, name: str, place: int) -> bool:
    """By what an array or a table of pandas declares; nothing else is known without a look."""
    if hasattr(given, "iloc") and hasattr(given, "columns"):
        names = list(given.columns)
        kind = given.dtypes.iloc[names.index(name) if name in names else place]
        return getattr(kind, "kind", "O") in "iuf"
    return isinstance(given, np.ndarray) and given.dtype.kind in "iuf"


def label_column(given: Any, rows: int, estimator: str) -> NDArray[Any]:
    """Labels, one for each row."""
    if given is None:
        raise InvalidInput(
            f"{estimator} requires y to be passed, but the target y is None: fit(X, y)"
        )
    found = given.to_numpy() if hasattr(given, "to_numpy") else given
    array = raw_column(found, "y") if isinstance(found, list | tuple) else np.asarray(found)
    if array.ndim == 2 and array.shape[1] == 1:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected: it is read as one",
            DataConversionWarning,
            stacklevel=4,
        )
        array = array[:, 0]
    if array.ndim != 1:
        raise InvalidInput(f"y should be a 1d array, got an array of shape {array.shape} instead.")
    if len(array) != rows:
        raise InvalidInput(f"X has {rows} rows and y has {len(array)}: expected one label a row")
    return columns_of({"y": array})["y"]


def display_rows(columns: Columns) -> NDArray[Any]:
    """As people wrote them, shape (rows, features)."""
    found = np.empty((len(next(iter(columns.values()))), len(columns)), dtype=object)
    for place, column in enumerate(columns.values()):
        found[:, place] = column.tolist() if column.dtype.kind != "M" else column.astype(str)
    return found
