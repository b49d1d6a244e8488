"""Raw values become numbers or places in a category list, without ever raising or warning.

Each value is read by itself: what a row becomes depends on no other row, which is what lets a
guarantee about one row survive this step. In particular no column is given a common type first.
What counts as missing, as a number and as a category is told in the docstring of the package.
"""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput
from voile.core.identifiers import MISSING_WORDS

# --- The forms in which data of one table travel, named once with their shapes -------------------

Rows: TypeAlias = NDArray[np.float64]
"""Shape (n, d), one column per feature: numbers as they are, categories as index into the list."""

Encoded: TypeAlias = NDArray[np.float64]
"""Shape (n, columns): numbers scaled to [0, 1] by the bounds, categories one-hot."""

FeatureValues: TypeAlias = NDArray[np.float64]
"""Shape (n,): one column of `Rows`."""

RawColumn: TypeAlias = NDArray[Any]
"""Shape (n,): the values of one column as somebody else wrote them, of any dtype."""

Mask: TypeAlias = NDArray[np.bool_]
"""Shape (n,): which rows a statement is about."""


class ColumnTable(Protocol):
    """Raw data by column name: a dict of lists or 1-D arrays, a pandas DataFrame, ..."""

    def keys(self) -> Iterable[Any]: ...

    def __getitem__(self, name: str, /) -> Any: ...


def is_table(given: Any) -> TypeGuard[ColumnTable]:
    """Whether data come by column name. A pandas column has keys as well, and is no table."""
    return hasattr(given, "keys") and hasattr(given, "__getitem__") and not hasattr(given, "dtype")


# --------------------------------------------------------------------------------------------------


_WORDS = dict.fromkeys(MISSING_WORDS, math.nan) | {"true": 1.0, "false": 0.0}
_TRUTH_TEXTS = {1.0: ("True", "true"), 0.0: ("False", "false")}
_WHOLE_OR_TRUTH = re.compile(r"-?(0|[1-9][0-9]{0,14})(\.0*)?|true|false", re.IGNORECASE | re.ASCII)
"""Fifteen digits: any more, and a float could be the number beside."""
_MISSING_TYPES = frozenset({"NoneType", "NAType", "NaTType"})
_PLAIN_TYPES = frozenset({str, bytes, int, float, bool, type(None)})
"""Where two values of one type are equal, they read alike: nothing but zero has two forms."""


@dataclass(frozen=True, eq=False)
class Reading:
    """What a raw column says: NaN where no value can be used, and which of those are missing.

    There is one zero: equal values are merged in many places, where the first of 0.0 and -0.0 would
    speak for records that hold the other.
    """

    values: FeatureValues
    missing: Mask

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", self.values + 0.0)

    @property
    def unusable(self) -> Mask:
        """There is a value, but it cannot be read or is not in the list."""
        return np.isnan(self.values) & ~self.missing


def raw_column(column: Any, name: str) -> RawColumn:
    """A 1-D array of the values of `column`, each of its own type."""
    if isinstance(column, np.ma.MaskedArray):
        column = np.ma.filled(column.astype(object), np.nan)
    if hasattr(column, "__array__"):
        array = np.asarray(column)
    elif isinstance(column, str | bytes) or not hasattr(column, "__iter__"):
        array = np.empty((), dtype=object)
    else:
        array = np.fromiter(column, dtype=object)
    if array.ndim != 1:
        raise InvalidInput(f"column {name!r} must be a list or an array with one dimension")
    return array


def read_matrix(given: Any, width: int) -> FeatureValues | None:
    """The numbers in raw rows, shape (n, width), NaN for all else; None for another shape.

    The shape of an array is public. A list has none: in it each row stands for itself, and one that
    has not one value for each feature says nothing, as a line of a protected file would.
    """
    if hasattr(given, "__array__"):
        array = np.asarray(given)
    elif isinstance(given, str | bytes) or not hasattr(given, "__iter__"):
        return None
    else:
        rows = [_row(row, width) for row in given]
        array = np.fromiter((cell for row in rows for cell in row), dtype=object)
        array = array.reshape(len(rows), width)
    if array.ndim != 2 or array.shape[1] != width:
        return None
    with np.errstate(all="ignore"):
        if array.dtype.kind in "biuf":  # as `read_numbers` would, column by column
            return np.array(array, dtype=np.float64, order="C") + 0.0
        return np.column_stack([read_numbers(column).values for column in array.T])


def _row(row: Any, width: int) -> list[Any]:
    try:
        cells = list(row)
    except Exception:  # see `_attempt`
        cells = []
    return cells if len(cells) == width and not isinstance(row, str | bytes) else [None] * width


def read_numbers(column: RawColumn) -> Reading:
    """The numbers in a raw column."""
    if column.dtype.kind in "biuf":
        with np.errstate(all="ignore"):  # a long double may overflow to infinity, which is clamped
            values = column.astype(np.float64)
        return Reading(values, np.isnan(values))
    numbers_in_text = _all_numbers(column)
    if numbers_in_text is not None:
        return Reading(numbers_in_text, np.isnan(numbers_in_text))
    return _read_each(column, _number)


def read_places(column: RawColumn, places: Mapping[str, int]) -> Reading:
    """For each raw value the place of its text in a list of categories."""
    return _read_each(column, lambda value: _place(value, places))


def _all_numbers(column: RawColumn) -> FeatureValues | None:
    """A short cut for the usual column of a CSV file: all text, all numbers. Reads as `_number`."""
    if column.dtype.kind not in "OUT" or set(map(type, column.tolist())) != {str}:
        return None
    try:
        return np.fromiter(map(float, column.tolist()), np.float64, len(column))
    except ValueError:
        return None


def _read_each(column: RawColumn, read: Callable[[Any], float]) -> Reading:
    """Apply `read` once per distinct value; it gives NaN for a missing, raises for a bad one."""
    if column.dtype.kind in "mMV":  # as Python objects, times and records could pass for numbers
        return Reading(np.full(len(column), np.nan), np.zeros(len(column), dtype=np.bool_))
    distinct, inverse = _distinct(column.tolist())
    attempts = [_attempt(read, value) for value in distinct]
    failed = np.array([attempt is None for attempt in attempts], dtype=np.bool_)
    values = np.array(attempts, dtype=np.float64)  # None becomes NaN
    return Reading(values[inverse], (np.isnan(values) & ~failed)[inverse])


def _attempt(read: Callable[[Any], float], value: Any) -> float | None:
    try:
        return read(value)
    except Exception:  # whatever a foreign value does when looked at, its row must not raise
        return None


class _Ordinals(dict[Any, int]):
    """Numbers keys in the order in which they are first looked up."""

    def __missing__(self, key: Any) -> int:
        self[key] = ordinal = len(self)
        return ordinal


def _distinct(values: list[Any]) -> tuple[list[Any], np.ndarray[Any, np.dtype[np.intp]]]:
    """The distinct values and, for each value, its place among them.

    Values are one only if they are of one plain type. Beside any other type each stands for itself:
    a foreign value may claim to equal its neighbour and read differently.
    """
    if not _PLAIN_TYPES.issuperset(map(type, values)):
        return values, np.arange(len(values))
    ordinals = _Ordinals()
    keys = zip(map(type, values), values, strict=True)
    inverse = np.fromiter(map(ordinals.__getitem__, keys), np.intp, len(values))
    return [value for _, value in ordinals], inverse


def _number(value: Any) -> float:
    if isinstance(value, str | bytes):
        return _number_in(value)
    if type(value).__name__ in _MISSING_TYPES:
        return math.nan
    if isinstance(value, numbers.Number | np.bool_) and not isinstance(value, np.timedelta64):
        return _float(_real(value))
    raise ValueError("not a number")


def _real(value: Any) -> Any:
    """A complex number on the real line equals a real number, so it is read as one."""
    if isinstance(value, numbers.Complex) and value.imag == 0:
        return value.real
    return value


def _text(value: str | bytes) -> str:
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    return str.strip(text)


def _number_in(text: str | bytes) -> float:
    try:
        return float(text)
    except ValueError:
        return _WORDS[_text(text).lower()]


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer past the largest float
        return math.inf if value > 0 else -math.inf


def _place(value: Any, places: Mapping[str, int]) -> float:
    for text in _texts(value):
        if text in places:
            return places[text]
    if math.isnan(_number(value)):
        return math.nan
    raise ValueError("not one of the categories")


def _texts(value: Any) -> Iterator[str]:
    """The texts under which a value may stand in a category list; equal values, equal texts.

    Text stands for itself first. If it is not listed as it is and says a whole number or a truth
    value, it is read as that value: many programs write 1.0 or True where a list says "1". Codes
    keep their letters: "01" and "1.10" are no numbers here.
    """
    if isinstance(value, str | bytes):
        text = _text(value)
        yield text
        if not _WHOLE_OR_TRUTH.fullmatch(text):
            return
        value = _number_in(text)
    number = _number(value)
    if math.isfinite(number):
        value = _real(value)
        if value == int(value):
            yield str(int(value))
        yield repr(number + 0.0)  # one zero
        yield from _TRUTH_TEXTS.get(number, ())
