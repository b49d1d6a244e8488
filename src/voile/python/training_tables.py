"""Tables that an estimator is fitted on and asked about, as scikit-learn's people have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput
from voile.core.schema import Categories, Schema
from voile.datasets.frames import check_names, columns_of, is_frame, is_one_row

Columns: TypeAlias = dict[str, NDArray[Any]]


def names_of(given: Any) -> tuple[str, ...] | None:
    """What a table calls its columns; None for an array, and for a table that numbers them."""
    if not is_frame(given) or _is_numbered(given):
        return None
    return tuple(columns_of(given))


def fitted_columns(given: Any, schema_names: Sequence[str] | None) -> Columns:
    """The columns to learn from, in the order of the table."""
    _check_axes(given)
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


def _plain(given: Any) -> NDArray[Any]:
    """Of a table that numbers its columns, and of lists of lists, the array."""
    if hasattr(given, "toarray"):
        given = given.toarray()
    found = given.to_numpy() if hasattr(given, "to_numpy") else given
    array = np.asarray(found, dtype=object if _has_texts(found) else None)
    if array.dtype.kind == "c":
        raise InvalidInput("Complex data not supported: expected numbers or texts")
    return array


def _has_texts(given: Any) -> bool:
    """Lists of numbers and texts must not become an array of texts."""
    return isinstance(given, list | tuple)


def _is_numbered(given: Any) -> bool:
    columns = getattr(given, "columns", None)
    if columns is None or isinstance(given, Mapping):
        return False
    return not any(isinstance(name, str) for name in columns)


def _check_axes(given: Any) -> None:
    if is_one_row(given):
        raise InvalidInput(_reshape(1))


def _reshape(axes: int) -> str:
    return (
        f"Expected 2D array, got {axes}D array instead. Reshape your data: one row for each "
        "record, one column for each feature"
    )


def _check_rows(columns: Columns) -> None:
    if not len(next(iter(columns.values()))):
        raise InvalidInput("Found 0 sample(s): expected at least one row")


def check_kinds(columns: Columns, schema: Schema) -> None:
    """Refuse numbers in a column that the schema lists as texts: all would be read as unknown.

    The kind of an array decides, never a value.
    """
    for feature in schema.features:
        domain, kind = feature.domain, columns[feature.name].dtype.kind
        if isinstance(domain, Categories) and isinstance(domain.values[0], str) and kind in "iuf":
            raise InvalidInput(
                f"column {feature.name!r} holds numbers, and its categories are texts such as "
                f"{domain.values[0]!r}: pass a table, or an array with dtype=object"
            )


def label_column(given: Any, rows: int, estimator: str) -> NDArray[Any]:
    """Labels, one for each row."""
    if given is None:
        raise InvalidInput(
            f"{estimator} requires y to be passed, but the target y is None: fit(X, y)"
        )
    found = given.to_numpy() if hasattr(given, "to_numpy") else given
    array = np.asarray(found, dtype=object if isinstance(found, list | tuple) else None)
    if array.ndim == 2 and array.shape[1] == 1:
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
