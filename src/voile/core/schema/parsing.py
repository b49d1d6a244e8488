"""From TOML text to the parts of a schema, every error with its line and field.

Values are checked where they live (`domains`, `features`), which know the key but not the file. On
their way up the errors are given the path of the enclosing tables here, and at last the line.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeAlias

from voile.core.digest_names import digest_name
from voile.core.errors import SchemaError, UnreadableFile
from voile.core.input_file import read_file
from voile.core.schema.cells import Encoded, FeatureValues, RawColumn
from voile.core.schema.domains import (
    Categories,
    Domain,
    Numbers,
    Value,
    check_text,
    checked_cuts,
    shown,
)
from voile.core.toml_text import DOCUMENT, LARGEST_TOML, dotted, field_at, line_of, parse_toml

# --- Features and the label: a name, the values it may take, and what stands in for a bad value --


@digest_name("voile.core.schema.features.Feature")
@dataclass(frozen=True)
class Feature:
    """One input column.

    Without a `default` it is the middle of the bounds (rounded down for integers) or the first
    category. Without a `semantic` category the feature is a group of its own, under its own name.
    `unit` is what its numbers are measured in, for people who read them. `cuts` are public cut
    points of a number, such as clinical thresholds: each begins a bin of private statistics, which
    then spend nothing on finding bins.

    >>> Feature("pressure", Numbers(80, 200, whole=True), cuts=(120, 140)).cuts
    (120, 140)
    """

    name: str
    domain: Domain
    default: Value | None = None
    semantic: str | None = None
    unit: str | None = None
    cuts: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        check_text(self.name, "name")
        default = self.domain.default if self.default is None else self.domain.admit(self.default)
        object.__setattr__(self, "default", default)
        semantic = self.name if self.semantic is None else self.semantic
        check_text(semantic, "semantic")
        object.__setattr__(self, "semantic", semantic)
        _check_unit(self.unit)
        if self.cuts is None:
            # Left to the class: digests of models hold what an object holds, and those of models
            # without cut points stay what they were.
            del self.__dict__["cuts"]
        else:
            object.__setattr__(self, "cuts", checked_cuts(self.cuts, self.domain))

    @property
    def group(self) -> str:
        """The semantic category, given or not."""
        return self.semantic or self.name

    @cached_property
    def null_value(self) -> float:
        """The default as it stands in `Rows`."""
        return self.domain.place(self.domain.default if self.default is None else self.default)

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of its encoded columns."""
        return tuple(self.name + suffix for suffix in self.domain.suffixes)

    def read(self, column: RawColumn) -> FeatureValues:
        """Raw values, all of them brought inside the domain."""
        return self.settle(self.domain.read(column).values)

    def settle(self, values: FeatureValues) -> FeatureValues:
        """Values brought inside the domain."""
        return self.domain.settle(values, self.null_value)

    def encode(self, values: FeatureValues) -> Encoded:
        """The encoded columns of any values."""
        return self.domain.encode(self.settle(values))

    def decode(self, columns: Encoded) -> FeatureValues:
        """The values of any encoded columns."""
        return self.settle(self.domain.decode(columns))

    def raw(self, values: FeatureValues) -> RawColumn:
        """Any values as raw values inside the domain."""
        return self.domain.raw(self.settle(values))

    def declaration(self) -> dict[str, Any]:
        """What a schema file says about the feature, nothing left out."""
        return {
            "kind": self.domain.kind,
            **self.domain.declaration(),
            "default": self.default,
            "semantic": self.semantic,
            **_unit(self.unit),
            **({} if self.cuts is None else {"cuts": list(self.cuts)}),
        }


@digest_name("voile.core.schema.features.Label")
@dataclass(frozen=True)
class Label:
    """What a model predicts. It has no default: a label that cannot be read is no label."""

    name: str
    domain: Domain
    unit: str | None = None

    def __post_init__(self) -> None:
        check_text(self.name, "name")
        _check_unit(self.unit)
        if self.domain.kind == "integer":  # a schema file has no way to say so
            raise SchemaError("numeric labels are continuous; leave out `whole`", field="bounds")

    def read(self, column: RawColumn) -> FeatureValues:
        """Raw labels inside the domain, as numbers or as index into the categories; else NaN."""
        return self.domain.settle(self.domain.read(column).values, math.nan)

    def declaration(self) -> dict[str, Any]:
        """What a schema file says about the label."""
        return {"name": self.name, **self.domain.declaration(), **_unit(self.unit)}


def _check_unit(unit: str | None) -> None:
    if unit is not None:
        check_text(unit, "unit")


def _unit(unit: str | None) -> dict[str, str]:
    """Nothing where none is declared: the digest of a schema without units stays what it was."""
    return {} if unit is None else {"unit": unit}


# --------------------------------------------------------------------------------------------------


_Build: TypeAlias = Callable[[Any], Domain]

# For each kind the key that declares the values, and what to make of it.
_KINDS: Mapping[str, tuple[str, _Build]] = {
    "continuous": ("bounds", Numbers.between),
    "integer": ("bounds", lambda bounds: Numbers.between(bounds, whole=True)),
    "categorical": ("categories", Categories),
}
_MORE: Final = ("default", "semantic", "unit", "cuts")
_LABEL_KINDS: Mapping[str, _Build] = {"bounds": Numbers.between, "categories": Categories}


@dataclass(frozen=True)
class Parts:
    """What a schema file declares."""

    name: str
    label: Label | None
    features: tuple[Feature, ...]


def read_text(path: Path) -> str:
    """The text of a schema file."""
    try:
        data = read_file(path, LARGEST_TOML)
    except UnreadableFile as error:
        problem = str(error).removeprefix(f"{path}: ")
        raise SchemaError(problem, field=DOCUMENT, file=path) from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SchemaError(
            f"not UTF-8: byte 0x{data[error.start]:02x}", field=DOCUMENT, line=line, file=path
        ) from error


@contextmanager
def lines_of(text: str, file: Path | None) -> Iterator[None]:
    """Give the schema errors raised in the body the line of their field in `text`."""
    try:
        yield
    except SchemaError as error:
        raise _placed(error, text, file) from error


def _placed(error: SchemaError, text: str, file: Path | None) -> SchemaError:
    line = line_of(error.field, text) if error.line is None else error.line
    more = tuple(_placed(each, text, file) for each in error.more)
    return SchemaError(error.problem, field=error.field, line=line, file=file, more=more)


def parse(text: str) -> Parts:
    """Read the parts of a schema; to be called within `lines_of`.

    Of each table the first problem is told, and of all tables together.
    """
    document = _Section(_document(text), ())
    document.only("name", "label", "features")
    name = document.required("name")
    label = document.section("label") if "label" in document.values else None
    features = document.section("features")
    problems: list[SchemaError] = []
    with noted(problems):
        declared = None if label is None else _label(label)
    found: list[Feature] = []
    for key in features.values:
        with noted(problems):
            found.append(_feature(key, features.section(key)))
    raise_together(problems)
    return Parts(name, declared, tuple(found))


def parse_feature(name: str, values: Mapping[str, Any]) -> Feature:
    """A feature by the keys of its table."""
    return _feature(name, _Section(values, ("features", name)))


def parse_label(values: Mapping[str, Any]) -> Label:
    """The label by the keys of its table."""
    return _label(_Section(values, ("label",)))


def raise_together(problems: list[SchemaError]) -> None:
    """One error for all of them, if there are any."""
    if problems:
        first, *others = problems
        raise SchemaError(first.problem, field=first.field, more=tuple(others)) from first


@contextmanager
def noted(problems: list[SchemaError]) -> Iterator[None]:
    """Collect a problem instead of raising it."""
    try:
        yield
    except SchemaError as error:
        problems.append(error)


def _document(text: str) -> dict[str, Any]:
    try:
        return parse_toml(text)
    except ValueError as error:
        place = re.search(r" \(at line (\d+), column \d+\)$", str(error))
        line = int(place[1]) if place else text.rstrip("\n").count("\n") + 1
        raise SchemaError(
            f"not valid TOML: {error}", field=field_at(line, text), line=line
        ) from error


@dataclass(frozen=True)
class _Section:
    """A TOML table that knows where it stands."""

    values: Mapping[str, Any]
    path: tuple[str, ...]

    def section(self, key: str) -> _Section:
        found = self.required(key)
        path = (*self.path, key)
        if not isinstance(found, dict):
            raise SchemaError(f"expected a table, found {shown(found)}", field=dotted(*path))
        return _Section(found, path)

    def required(self, key: str) -> Any:
        if key not in self.values:
            raise SchemaError("missing", field=dotted(*self.path, key))
        return self.values[key]

    def only(self, *keys: str) -> None:
        for key in self.values:
            if key not in keys:
                raise SchemaError(
                    f"unknown key{_suggestion(key, keys)}; expected {_listed(keys)}",
                    field=dotted(*self.path, key),
                )

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Put the path of this table in front of the field of errors raised in the body."""
        try:
            yield
        except SchemaError as error:
            field = f"{dotted(*self.path)}.{error.field}"
            raise SchemaError(error.problem, field=field) from error


def _feature(name: str, section: _Section) -> Feature:
    kind = section.required("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise SchemaError(
            f"unknown kind {shown(kind)}{_suggestion(kind, _KINDS)}; expected {_listed(_KINDS)}",
            field=dotted(*section.path, "kind"),
        )
    key, build = _KINDS[kind]
    section.only("kind", key, *_MORE)
    declared = section.required(key)
    with section.inside():
        more = {each: section.values.get(each) for each in _MORE}
        return Feature(name, build(declared), **more)


def _label(section: _Section) -> Label:
    section.only("name", "unit", *_LABEL_KINDS)
    name = section.required("name")
    keys = [key for key in _LABEL_KINDS if key in section.values]
    if len(keys) != 1:
        raise SchemaError(
            f"expected either {_listed(_LABEL_KINDS)}, found {' and '.join(keys) or 'neither'}",
            field=dotted(*section.path),
        )
    with section.inside():
        domain = _LABEL_KINDS[keys[0]](section.values[keys[0]])
        return Label(name, domain, section.values.get("unit"))


def _suggestion(word: object, known: Mapping[str, Any] | tuple[str, ...]) -> str:
    near = get_close_matches(str(word), list(known), n=1)
    return f", did you mean {near[0]!r}?" if near else ""


def _listed(words: Mapping[str, Any] | tuple[str, ...]) -> str:
    *others, last = (repr(word) for word in words)
    return f"{', '.join(others)} or {last}"
