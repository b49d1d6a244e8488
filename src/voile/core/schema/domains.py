"""The values that a feature or a label may take, and what follows from them.

`Numbers` and `Categories` answer the same questions (`Domain`): how raw values are read, brought
inside, scaled and unscaled, and what is wrong with them. Bounds and lists are public declarations:
nothing here is fitted to data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from voile.core.digest_names import digest_name
from voile.core.errors import SchemaError
from voile.core.schema.cells import (
    Encoded,
    FeatureValues,
    Mask,
    RawColumn,
    Reading,
    read_numbers,
    read_places,
)

Value: TypeAlias = float | int | str
"""A raw value as a schema states it."""

# Scaling to [0, 1] and back makes an error of a few units of 2**-53 relative to the width of the
# bounds. Up to this size that stays below one half, so rounding finds the integer again.
LARGEST_INTEGER = 2**49


class Problem(StrEnum):
    """What can be wrong with a raw value."""

    MISSING = "missing"
    UNREADABLE = "unreadable"
    UNKNOWN = "unknown category"
    BELOW = "below"
    ABOVE = "above"
    NOT_WHOLE = "not whole"


@digest_name("voile.core.schema.domains.Numbers")
@dataclass(frozen=True)
class Numbers:
    """Numbers between two bounds, both included; with `whole`, integers only."""

    lower: float
    upper: float
    whole: bool = False

    def __post_init__(self) -> None:
        number = _whole if self.whole else _finite
        lower, upper = number(self.lower, "bounds"), number(self.upper, "bounds")
        if not lower < upper:
            raise SchemaError(
                f"the lower bound must be below the upper one, found [{lower}, {upper}]",
                field="bounds",
            )
        if not math.isfinite(upper - lower):
            raise SchemaError("the bounds are too far apart for a float", field="bounds")
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)

    @classmethod
    def between(cls, bounds: object, *, whole: bool = False) -> Numbers:
        """From a pair as a schema file states it."""
        if not isinstance(bounds, Sequence) or isinstance(bounds, str) or len(bounds) != 2:
            raise SchemaError(
                f"expected two numbers [lower, upper], found {shown(bounds)}", field="bounds"
            )
        return cls(bounds[0], bounds[1], whole)

    @property
    def kind(self) -> str:
        return "integer" if self.whole else "continuous"

    @property
    def default(self) -> float:
        """The middle; for integers rounded down."""
        if self.whole:
            return (self.lower + self.upper) // 2
        return self.lower + (self.upper - self.lower) / 2

    @property
    def suffixes(self) -> tuple[str, ...]:
        """What to append to the column's name for each of its encoded columns."""
        return ("",)

    def admit(self, value: object) -> float:
        """`value` in its normal form; a `SchemaError` about "default" if it lies outside."""
        number = (_whole if self.whole else _finite)(value, "default")
        if not self.lower <= number <= self.upper:
            raise SchemaError(
                f"{number} is outside the bounds [{self.lower}, {self.upper}]", field="default"
            )
        return number

    def place(self, value: Value) -> float:
        """An admitted value as it stands in `Rows`."""
        return float(value)

    def read(self, column: RawColumn) -> Reading:
        """Raw values as they would stand in `Rows`, before `settle`."""
        return read_numbers(column)

    def settle(self, values: FeatureValues, default: float) -> FeatureValues:
        """The nearest values inside; `default` for those that are near to none."""
        inside = np.clip(np.rint(values) if self.whole else values, self.lower, self.upper)
        return np.where(np.isnan(inside), default, inside) + 0.0  # one zero, see `Reading`

    def encode(self, values: FeatureValues) -> Encoded:
        """Settled values in encoded form, shape (n, columns)."""
        return ((values - self.lower) / (self.upper - self.lower))[:, np.newaxis]

    def decode(self, columns: Encoded) -> FeatureValues:
        """The inverse of `encode`, defined for any columns; follow with `settle`."""
        return self.lower + columns[:, 0] * (self.upper - self.lower)

    def raw(self, values: FeatureValues) -> RawColumn:
        """Settled values as raw values."""
        return values.astype(np.int64) if self.whole else values.copy()

    def problems(self, reading: Reading) -> dict[Problem, Mask]:
        """Which of the values read `settle` would change, and why."""
        values = reading.values
        found = {
            Problem.MISSING: reading.missing,
            Problem.UNREADABLE: reading.unusable,
            Problem.BELOW: values < self.lower,
            Problem.ABOVE: values > self.upper,
        }
        if self.whole:
            found[Problem.NOT_WHOLE] = ~np.isnan(values) & (np.rint(values) != values)
        return found

    def declaration(self) -> dict[str, Any]:
        """What a schema file says about it besides the kind."""
        return {"bounds": [self.lower, self.upper]}

    def __str__(self) -> str:
        return f"{self.lower:.10g} to {self.upper:.10g}"


@digest_name("voile.core.schema.domains.Categories")
@dataclass(frozen=True)
class Categories:
    """One of a list of strings, or one of a list of integers; the order fixes the encoding."""

    values: tuple[str, ...] | tuple[int, ...]

    def __post_init__(self) -> None:
        found: object = self.values
        if not isinstance(found, Sequence) or isinstance(found, str) or not found:
            raise SchemaError(
                f"expected a list of strings or of integers, found {shown(found)}",
                field="categories",
            )
        object.__setattr__(self, "values", tuple(found))
        check = _text_category if isinstance(found[0], str) else _integer_category
        seen: set[object] = set()
        for value in self.values:
            check(value)
            if value in seen:
                raise SchemaError(f"{value!r} is listed twice", field="categories")
            seen.add(value)

    @property
    def kind(self) -> str:
        return "categorical"

    @property
    def default(self) -> Value:
        """The first one."""
        return self.values[0]

    @property
    def suffixes(self) -> tuple[str, ...]:
        return tuple(f"={value}" for value in self.values)

    @cached_property
    def _places(self) -> Mapping[object, int]:
        return {value: place for place, value in enumerate(self.values)}

    def admit(self, value: object) -> Value:
        # The types are compared too, because True equals 1.
        if type(value) is not type(self.values[0]) or value not in self._places:
            raise SchemaError(
                f"{shown(value)} is not one of the categories {shown(list(self.values))}",
                field="default",
            )
        return self.values[self._places[value]]

    def place(self, value: Value) -> float:
        return float(self._places[value])

    def read(self, column: RawColumn) -> Reading:
        if isinstance(self.values[0], str):
            return read_places(column, {str(value): place for value, place in self._places.items()})
        numbers = read_numbers(column)
        order = np.argsort(self.values)
        listed = np.array(self.values, dtype=np.float64)[order]
        nearest = np.clip(np.searchsorted(listed, numbers.values), 0, len(listed) - 1)
        places = np.where(listed[nearest] == numbers.values, order[nearest], np.nan)
        return Reading(places, numbers.missing)

    def settle(self, values: FeatureValues, default: float) -> FeatureValues:
        listed = (values >= 0) & (values < len(self.values)) & (np.rint(values) == values)
        return np.where(listed, values, default) + 0.0

    def encode(self, values: FeatureValues) -> Encoded:
        columns: Encoded = np.zeros((len(values), len(self.values)))
        columns[np.arange(len(values)), values.astype(np.intp)] = 1.0
        return columns

    def decode(self, columns: Encoded) -> FeatureValues:
        places: FeatureValues = np.argmax(columns, axis=1).astype(np.float64)
        return places

    def raw(self, values: FeatureValues) -> RawColumn:
        dtype = object if isinstance(self.values[0], str) else np.int64
        return np.array(self.values, dtype=dtype)[values.astype(np.intp)]

    def problems(self, reading: Reading) -> dict[Problem, Mask]:
        return {Problem.MISSING: reading.missing, Problem.UNKNOWN: reading.unusable}

    def declaration(self) -> dict[str, Any]:
        return {"categories": list(self.values)}

    def __str__(self) -> str:
        return ", ".join(str(value) for value in self.values)


Domain: TypeAlias = Numbers | Categories
"""The values a column may take."""


def shown(value: object) -> str:
    """`value` for a message: short, and safe for integers too long to be written in decimal."""
    try:
        text = repr(value)
    except ValueError:
        return f"a {type(value).__name__} with too many digits"
    return text if len(text) <= 80 else text[:77] + "..."


def _finite(value: object, field: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SchemaError(f"expected a number, found {shown(value)}", field=field)
    try:
        number = float(value) + 0.0  # one zero only: -0.0 would have another digest
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise SchemaError(f"expected a finite number, found {number}", field=field)
    return number


def _whole(value: object, field: str) -> int:
    number = _finite(value, field)
    if not number.is_integer():
        raise SchemaError(f"expected a whole number, found {shown(value)}", field=field)
    if abs(number) > LARGEST_INTEGER:
        raise SchemaError(f"an integer may not exceed ±2**49, found {shown(value)}", field=field)
    return int(number)


def _text_category(value: object) -> None:
    if not isinstance(value, str):
        raise SchemaError(
            f"expected strings only or integers only, found {shown(value)} among strings",
            field="categories",
        )
    check_text(value, "categories")
    if value != value.strip():
        raise SchemaError(
            f"{value!r} begins or ends with blanks, which are not looked at in data",
            field="categories",
        )


def _integer_category(value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise SchemaError(f"expected strings or integers, found {shown(value)}", field="categories")
    _whole(value, "categories")


def checked_cuts(found: object, domain: Domain) -> tuple[float, ...]:
    """Cut points of a number: rising, and inside its bounds."""
    if not isinstance(domain, Numbers):
        raise SchemaError("only numbers have cut points", field="cuts")
    if not isinstance(found, Sequence) or isinstance(found, str) or not found:
        raise SchemaError(f"expected a list of numbers, found {shown(found)}", field="cuts")
    number = _whole if domain.whole else _finite
    cuts = tuple(number(each, "cuts") for each in found)
    if any(one >= two for one, two in pairwise(cuts)):
        raise SchemaError(f"cut points must rise, found {shown(list(cuts))}", field="cuts")
    if not (domain.lower < cuts[0] and cuts[-1] <= domain.upper):
        raise SchemaError(
            f"cut points must be above {domain.lower} and at most {domain.upper}, found "
            f"{shown(list(cuts))}",
            field="cuts",
        )
    return cuts


def check_text(value: object, field: str) -> None:
    """A `SchemaError` unless `value` is text that says something and can be written to a file."""
    if not isinstance(value, str):
        raise SchemaError(f"expected text in quotes, found {shown(value)}", field=field)
    if not value.strip():
        raise SchemaError("must not be empty", field=field)
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise SchemaError(f"{value!r} cannot be written as UTF-8", field=field)
