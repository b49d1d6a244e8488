"""What a record promises, in the words of every other page."""

from __future__ import annotations

from typing import Protocol

from voile.core.guarantee import Protected, ProtectedUnit, Relation
from voile.core.rendering import find_view


class PromisingRecord(Protocol):
    """A record that names whose records are protected."""

    @property
    def epsilon(self) -> float | None: ...
    @property
    def delta(self) -> float | None: ...
    @property
    def unit(self) -> str | None: ...
    @property
    def relation(self) -> str | None: ...
    @property
    def dataset(self) -> str | None: ...


def protected_by(record: PromisingRecord) -> Protected:
    """Whose records; the log does not name columns."""
    unit = ProtectedUnit(str(record.unit))
    columns = ("the declared columns",) if unit is ProtectedUnit.COLUMNS else ()
    return Protected(unit, Relation(str(record.relation)), str(record.dataset), columns)


def promise_in_words(record: PromisingRecord) -> str:
    """Epsilon and delta in words, rounded so that they never promise more."""
    words = find_view("promise in words")
    assert words is not None
    return str(words(protected_by(record), record.epsilon, record.delta))
