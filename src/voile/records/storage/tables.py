"""What is stored, as data: a table is a record class and the fields that identify it.

A record is a frozen dataclass or, where every charge reads and writes one, a named tuple: that is a
row already (docs/decisions/storage.md).

Compatibility promise: a table of a released version keeps its name, columns and meaning; a change
is a new version of its `Part`, with a migration.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property, partial
from operator import itemgetter
from types import NoneType, UnionType
from typing import Any, Generic, TypeAlias, TypeVar, get_args, get_type_hints

from voile.core.errors import InvalidInput

Record = TypeVar("Record")
Value: TypeAlias = int | str | bytes | float | None
Row: TypeAlias = tuple[Value, ...]
"""The fields of one record, in the order of the dataclass."""
Key: TypeAlias = tuple[Value, ...]
"""The values of the key columns."""

_NAME = re.compile(r"[a-z][a-z0-9_]{0,50}")
_LONG = 2**63
_PLAIN: dict[type[Any], str] = {
    int: f"type({{v}}) is int and -{_LONG} <= {{v}} < {_LONG}",
    str: "type({v}) is str and {v}.isascii() and '\\0' not in {v}",
    bytes: "type({v}) is bytes",
    float: "type({v}) is float and {v} == {v}",
}


@dataclass(frozen=True)
class Column:
    """One column: its name, its Python type, and whether it may be absent."""

    name: str
    kind: type[Any]
    optional: bool

    def check(self, value: Value) -> None:
        """Refuse what some database would refuse or silently change, the same way everywhere.

        SQLite stores NaN as NULL, PostgreSQL refuses NUL characters, neither takes an integer of
        more than 64 bits.
        """
        if value is None and self.optional:
            return
        if type(value) is not self.kind:
            raise InvalidInput(
                f"column {self.name!r} holds {self.kind.__name__}, found {type(value).__name__}"
            )
        if isinstance(value, int) and not -_LONG <= value < _LONG:
            raise InvalidInput(f"column {self.name!r} holds 64-bit integers, found {value}")
        if isinstance(value, float) and value != value:
            raise InvalidInput(f"column {self.name!r} cannot hold NaN")
        if isinstance(value, str) and not _storable(value):
            raise InvalidInput(f"column {self.name!r} cannot hold NUL or unpaired surrogates")


@dataclass(frozen=True, eq=False)
class Table(Generic[Record]):
    """A table of frozen dataclasses or named tuples. What is written once for a table (statements,
    checks) is found again by the object itself.

    Args:
        name: lower case letters, digits and underscores.
        record: its fields are int, str, bytes and float, each perhaps `| None`.
        key: the fields that identify a record; scans return records in the order of the key.
    """

    name: str
    record: type[Record]
    key: tuple[str, ...]

    def __post_init__(self) -> None:
        if not (is_dataclass(self.record) or self._is_tuple):
            raise InvalidInput(
                f"table {self.name!r} needs a dataclass or a named tuple, found {self.record!r}"
            )
        for name in (self.name, *self.column_names):
            if not _NAME.fullmatch(name):
                raise InvalidInput(f"{name!r} cannot be a name in a database")
        for name in self.key:
            column = self.columns[self.column_names.index(name)]
            if column.optional or column.kind is float:
                raise InvalidInput(f"key column {name!r} must be int, str or bytes, never None")
        if not self.key:
            raise InvalidInput(f"table {self.name!r} needs a key")

    @cached_property
    def _is_tuple(self) -> bool:
        return isinstance(self.record, type) and hasattr(self.record, "_fields")

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        hints = get_type_hints(self.record)
        return tuple(_column(name, hints[name]) for name in self.column_names)

    @cached_property
    def column_names(self) -> tuple[str, ...]:
        if self._is_tuple:
            return self.record._fields  # type: ignore[attr-defined,no-any-return]
        return tuple(item.name for item in fields(self.record))  # type: ignore[arg-type]

    @cached_property
    def from_row(self) -> Callable[[Row], Record]:
        """The record behind a row. Whoever changed the database by hand may have left anything."""
        checked = self._checked_row
        if self._is_tuple:
            new = partial(tuple.__new__, self.record)  # type: ignore[type-var]
            return lambda row: new(checked(row))
        return lambda row: self.record(*checked(row))

    @cached_property
    def row(self) -> Callable[[Record], Row]:
        """The record as a checked tuple."""
        checked = self._checked_row
        if self._is_tuple:
            return checked  # type: ignore[return-value]
        return lambda record: checked(tuple(getattr(record, name) for name in self.column_names))

    @cached_property
    def _checked_row(self) -> Callable[[Row], Row]:
        return _checking(f"a row of table {self.name!r}", self.columns)

    @cached_property
    def key_positions(self) -> tuple[int, ...]:
        return tuple(self.column_names.index(name) for name in self.key)

    @cached_property
    def key_of(self) -> Callable[[Row], Key]:
        """The key of a row."""
        first = self.key_positions[0]
        if len(self.key) == 1:
            return itemgetter(slice(first, first + 1))
        return itemgetter(*self.key_positions)

    @cached_property
    def key_in(self) -> Callable[[Record], Key]:
        """The key of a record, which is checked when it is stored."""
        if self._is_tuple:
            return self.key_of  # type: ignore[return-value]
        return lambda record: tuple(getattr(record, name) for name in self.key)

    @cached_property
    def replacement(self) -> Callable[[Row], Row]:
        """From a row to what overwrites a record: the other columns, then the key.

        A record that is all key overwrites itself.
        """
        others = [n for n in range(len(self.column_names)) if n not in self.key_positions]
        return itemgetter(*(others or self.key_positions), *self.key_positions)

    @cached_property
    def checked_key(self) -> Callable[[Key], Key]:
        """A whole key, checked."""
        return self._checked_prefixes[-1]

    def checked_prefix(self, values: Key) -> Key:
        """A key, or the first part of one."""
        return self._checked_prefixes[min(len(values), len(self.key))](values)

    @cached_property
    def _checked_prefixes(self) -> list[Callable[[Key], Key]]:
        columns = [self.columns[position] for position in self.key_positions]
        name = f"the key of table {self.name!r}"
        return [_checking(name, columns[:length]) for length in range(len(columns) + 1)]


def _checking(what: str, columns: Sequence[Column]) -> Callable[[Row], Row]:
    """A function that returns the values it is given as a plain tuple, or refuses them.

    Drivers take longer over any other sequence. Every value that is stored goes through it: one
    expression over all values clears nearly every row; where it does not, `Column.check` has the
    last word. Written out and compiled once for each table, as dataclasses are, because a loop
    takes three times as long.
    """

    def check(row: Row) -> Row:
        if len(row) != len(columns):
            raise InvalidInput(f"{what} is {[column.name for column in columns]}, found {row!r}")
        for column, value in zip(columns, row, strict=True):
            column.check(value)
        return row

    names = [f"v{number}" for number in range(len(columns))]
    tests = [
        _PLAIN[column.kind].format(v=name) for name, column in zip(names, columns, strict=True)
    ]
    code = (
        f"def checked(row):\n"
        f"    row = tuple(row)\n"
        f"    try: [{', '.join(names)}] = row\n"
        f"    except ValueError: return check(row)\n"
        f"    return row if {' and '.join(tests) or True} else check(row)\n"
    )
    made: dict[str, Any] = {"check": check}
    exec(code, made)
    checked: Callable[[Row], Row] = made["checked"]
    return checked


def _storable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def _column(name: str, hint: Any) -> Column:
    choices = set(get_args(hint)) if isinstance(hint, UnionType) else {hint}
    kinds = choices - {NoneType}
    if len(kinds) != 1 or not kinds <= {int, str, bytes, float}:
        raise InvalidInput(f"field {name!r} must be int, str, bytes or float, found {hint}")
    return Column(name, kinds.pop(), NoneType in choices)
