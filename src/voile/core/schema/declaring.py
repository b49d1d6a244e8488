"""A schema declared in Python: columns by name, each with the values that it may take.

The short forms say what a file says at length. Every problem is told, with its column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from datetime import date, datetime
from typing import Any, Final, TypeVar

from voile.core.errors import SchemaError
from voile.core.schema.domains import Categories, Domain, Numbers, shown
from voile.core.schema.parsing import (
    Feature,
    Label,
    Parts,
    noted,
    parse_feature,
    parse_label,
    raise_together,
)
from voile.core.toml_text import dotted

UNNAMED: Final = "table"
_Declared = TypeVar("_Declared", Feature, Label)
_FORMS: Final = (
    "write (low, high) for numbers, range(low, high + 1) for whole numbers, a list for categories, "
    'bool for yes or no, or a dict such as {"kind": "integer", "bounds": (0, 120)}'
)


def declared_parts(
    columns: Mapping[str, Any],
    *,
    name: str = UNNAMED,
    label: object = None,
    cuts: Mapping[str, Any] | None = None,
) -> Parts:
    """The parts of a schema; `SchemaError` names every column that is declared wrongly.

    Args:
        columns: what each may hold.
        label: the name of one of the columns, `{name: what it may hold}`, or a `Label`.
        cuts: public cut points of numbers, by column.
    """
    if not isinstance(cuts, Mapping | None):
        raise SchemaError(
            f'expected cut points by column, {{"age": [40, 65]}}, found {shown(cuts)}', field="cuts"
        )
    inputs, declared = _without_label(dict(columns), label)
    problems: list[SchemaError] = []
    with noted(problems):
        read = None if declared is None else _label(*declared)
    found = []
    for column, values in inputs.items():
        with noted(problems):
            found.append(_feature(column, values, (cuts or {}).get(column)))
    problems += _unknown_cuts(cuts or {}, inputs)
    raise_together(problems)
    return Parts(name, read, tuple(found))


def given_parts(
    name: Any = None, features: Iterable[Feature] | None = None, label: Label | None = None
) -> Parts:
    """Parts that are made already."""
    if features is None:
        raise SchemaError(
            f"expected a declaration by column, such as {{'age': (18, 100), 'sex': ['f', 'm']}}, "
            f"found {type(name).__name__}. Public rows: Schema.from_frame(rows); a file: "
            "Schema.load(path)",
            field="features",
        )
    return Parts(name, label, tuple(features))


def _without_label(
    columns: dict[str, Any], label: object
) -> tuple[dict[str, Any], tuple[str, Any] | None]:
    """The inputs, and the label with its values."""
    if label is None:
        return columns, None
    if isinstance(label, Label):
        return columns, (label.name, label)
    if isinstance(label, str):
        if label not in columns:
            raise SchemaError(
                f"{label!r} is not among the columns {list(columns)}: declare it there, or write "
                f"label={{{label!r}: [...]}}",
                field="label",
            )
        return {name: each for name, each in columns.items() if name != label}, (
            label,
            columns[label],
        )
    if isinstance(label, Mapping) and len(label) == 1:
        ((name, values),) = label.items()
        return columns, (name, values)
    raise SchemaError(
        f'expected the name of a column, or {{"name": values}}, found {shown(label)}', field="label"
    )


def _label(name: str, values: Any) -> Label:
    _check_name(name, "label")
    if isinstance(values, Label):
        return _named(name, values, "label")
    if isinstance(values, Mapping):
        _check_keys(values, "label")
        return parse_label({**values, "name": name})
    with _inside("label"):
        domain = _domain(values)
        if isinstance(domain, Numbers):
            domain = Numbers(domain.lower, domain.upper)  # numeric labels are continuous
        return Label(name, domain)


def _feature(name: str, values: Any, cuts: Any) -> Feature:
    _check_name(name, "features")
    if isinstance(values, Feature):
        return _named(name, values, "features")
    if isinstance(values, Mapping):
        _check_keys(values, dotted("features", name))
        return parse_feature(name, _with_kind(name, values, cuts))
    with _inside("features", name):
        return Feature(name, _domain(values), cuts=None if cuts is None else _plain(cuts))


def _check_name(name: object, place: str) -> None:
    if not isinstance(name, str):
        raise SchemaError(f"the name of a column is a text, found {shown(name)}", field=place)


def _check_keys(stated: Mapping[Any, Any], place: str) -> None:
    for key in stated:
        if not isinstance(key, str):
            raise SchemaError(
                f"unknown key {shown(key)}; expected texts such as 'bounds'", field=place
            )


def _named(name: str, declared: _Declared, place: str) -> _Declared:
    if declared.name != name:
        raise SchemaError(
            f"is called {declared.name!r} in its own declaration", field=dotted(place, name)
        )
    return declared


def _with_kind(name: str, stated: Mapping[str, Any], cuts: Any) -> dict[str, Any]:
    """The keys of a file; the kind follows from the values, where nobody says that they are whole
    numbers."""
    found = {key: _plain(value) for key, value in stated.items()}
    if "kind" not in found and "bounds" in found:
        found["kind"] = "continuous"
    if "kind" not in found and "categories" in found:
        found["kind"] = "categorical"
    if cuts is not None and "cuts" in found:
        raise SchemaError("cut points are declared twice", field=dotted("features", name, "cuts"))
    return found if cuts is None else {**found, "cuts": _plain(cuts)}


def _domain(values: Any) -> Domain:
    """What a short form says."""
    if isinstance(values, Numbers | Categories):
        return values
    if values is bool:
        return Categories((0, 1))
    if isinstance(values, range):
        return _whole_numbers(values)
    plain = _plain(values)
    if isinstance(plain, tuple) and _are_bounds(plain):
        return Numbers(*plain)
    if isinstance(plain, list | tuple) and plain:
        return _categories(plain, is_list=isinstance(plain, list))
    if isinstance(values, Set):
        raise SchemaError(
            f"a set has no order: write the list {sorted(map(str, values))}", field=""
        )
    raise SchemaError(f"expected the values it may take, found {shown(values)}: {_FORMS}", field="")


def _categories(values: Sequence[Any], *, is_list: bool) -> Categories:
    if all(isinstance(each, bool) for each in values):
        return Categories((0, 1))
    texts = all(isinstance(each, str) for each in values)
    if is_list and any(isinstance(each, float) for each in values):
        raise SchemaError(
            f"found a list with decimal numbers, {shown(values)}. Bounds are a pair: "
            "write (low, high)",
            field="",
        )
    if not is_list and all(map(_is_day, values)):
        raise SchemaError(
            f"a schema has no dates, found {shown(values)}: make the column a number, such as days "
            "since a fixed day, and write (low, high)",
            field="",
        )
    if not is_list and not texts:
        raise SchemaError(
            f"expected two numbers (low, high), found {shown(values)}; categories are a list: "
            "write [...]",
            field="",
        )
    return Categories(tuple(values))


def _is_day(value: Any) -> bool:
    """Also as it is written in a file."""
    if isinstance(value, str):
        try:
            datetime.fromisoformat(value)
        except ValueError:
            return False
    return isinstance(value, str | date)


def _whole_numbers(values: range) -> Numbers:
    if values.step != 1 or len(values) < 2:
        raise SchemaError(
            f"expected at least two whole numbers one after the other, found {values}", field=""
        )
    return Numbers(values[0], values[-1], whole=True)


def _are_bounds(values: tuple[Any, ...]) -> bool:
    numbers = [isinstance(each, int | float) and not isinstance(each, bool) for each in values]
    return len(values) == 2 and all(numbers)


def _plain(values: Any) -> Any:
    """Arrays, columns and numbers of NumPy as Python's own."""
    if hasattr(values, "tolist"):
        return values.tolist()
    if isinstance(values, tuple | list):
        return type(values)(map(_plain, values))
    return values


def _unknown_cuts(cuts: Mapping[str, Any], columns: Mapping[str, Any]) -> Iterator[SchemaError]:
    for name in cuts:
        if name not in columns:
            yield SchemaError(
                f"{name!r} is no feature; expected one of {list(columns)}", field="cuts"
            )


@contextmanager
def _inside(*place: str) -> Iterator[None]:
    """Put the column in front of the field of errors raised in the body."""
    try:
        yield
    except SchemaError as error:
        field = f"{dotted(*place)}.{error.field}".rstrip(".")
        raise SchemaError(error.problem, field=field) from error
