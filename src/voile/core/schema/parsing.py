"""From TOML text to the parts of a schema, every error with its line and field.

Values are checked where they live (`domains`, `features`), which know the key but not the file. On
their way up the errors are given the path of the enclosing tables here, and at last the line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeAlias

from voile.core.errors import SchemaError, UnreadableFile
from voile.core.input_file import read_file
from voile.core.schema.domains import Categories, Domain, Numbers, shown
from voile.core.schema.features import Feature, Label
from voile.core.schema.locate import DOCUMENT, dotted, field_at, line_of
from voile.core.toml_text import LARGEST_TOML, parse_toml

_Build: TypeAlias = Callable[[Any], Domain]

# For each kind the key that declares the values, and what to make of it.
_KINDS: Mapping[str, tuple[str, _Build]] = {
    "continuous": ("bounds", Numbers.between),
    "integer": ("bounds", lambda bounds: Numbers.between(bounds, whole=True)),
    "categorical": ("categories", Categories),
}
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
    with _noted(problems):
        declared = None if label is None else _label(label)
    found: list[Feature] = []
    for key in features.values:
        with _noted(problems):
            found.append(_feature(key, features.section(key)))
    if problems:
        first, *others = problems
        raise SchemaError(first.problem, field=first.field, more=tuple(others)) from first
    return Parts(name, declared, tuple(found))


@contextmanager
def _noted(problems: list[SchemaError]) -> Iterator[None]:
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
    section.only("kind", key, "default", "semantic", "unit")
    declared = section.required(key)
    with section.inside():
        more = {each: section.values.get(each) for each in ("default", "semantic", "unit")}
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
