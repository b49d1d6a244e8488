"""A privacy guarantee, stated in full.

An epsilon by itself says nothing. A `Guarantee` also says whose record is protected, how the two
indistinguishable data sets differ, whom it holds against, and what must be true besides; none of
these fields has a default that could be meant by accident.

Compatibility promise: guarantees are stored for years. A stored value of an enumeration never
changes its meaning, and no field is ever removed or renamed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from decimal import ROUND_CEILING, Context
from enum import StrEnum
from typing import Any, Self, TypeVar

from voile.core.errors import InvalidInput, Refused

_Enumeration = TypeVar("_Enumeration", bound=StrEnum)


class ProtectedUnit(StrEnum):
    """What one record is: the thing whose presence or content cannot be told."""

    ROW = "row"
    """A row of the data set, whatever part it plays: training, background or population."""
    EXPLAINED_ROW = "explained row"
    """The one row an explanation is about, toward somebody who receives the explanation."""
    USER = "user"
    """All rows of one person."""
    CLIENT = "client"
    """All rows of one party of a federation."""


class Relation(StrEnum):
    """How two neighbouring data sets differ."""

    BLANK_ONE = "blank one"
    """One record is replaced by a null record. Sizes are public."""
    REPLACE_ONE = "replace one"
    """One record is replaced by any other. Sizes are public; about twice the cost of blanking."""
    ADD_OR_REMOVE_ONE = "add or remove one"
    """One record is added or taken away. Sizes are private too."""


class Adversary(StrEnum):
    """Whom a guarantee holds against."""

    PUBLIC = "the public"
    """Anybody who sees everything that was released."""
    SERVER_SEEING_UPDATES = "a server that sees single updates"
    SERVER_SEEING_SUMS = "a server that sees only sums of updates"
    OTHER_CLIENTS = "other clients"


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """Everything needed to judge an (epsilon, delta) statement.

    Args:
        epsilon: finite, at least 0.
        delta: in [0, 1). Never stated without epsilon, nor epsilon without it.
        unit: what one record is.
        relation: how neighbouring data sets differ.
        dataset: which data set the statement is about, by version label.
        against: whom it holds against; at least one.
        computational: true if it holds only against adversaries of bounded computing power, because
            noise comes from a stream cipher or sums are protected by cryptography.
        mechanism: how the noise was made.
        composition: how several releases were added up to this figure.
        public_facts: what is treated as public (sizes, schedule, schema).
        assumptions: what must be true besides (silos disjoint, running time not observed).
    """

    epsilon: float
    delta: float
    unit: ProtectedUnit
    relation: Relation
    dataset: str
    against: tuple[Adversary, ...]
    computational: bool
    mechanism: str
    composition: str
    public_facts: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", _figure("epsilon", self.epsilon))
        object.__setattr__(self, "delta", _figure("delta", self.delta))
        if self.delta >= 1:
            raise InvalidInput(f"delta must be in [0, 1), found {self.delta}")
        object.__setattr__(self, "unit", _member(ProtectedUnit, "unit", self.unit))
        object.__setattr__(self, "relation", _member(Relation, "relation", self.relation))
        _refuse_blank_explained_row(self.unit, self.relation)
        against = _texts("against", self.against)
        if not against:
            raise InvalidInput("against must name at least one adversary, found none")
        members = tuple(_member(Adversary, "against", name) for name in against)
        object.__setattr__(self, "against", members)
        if not isinstance(self.computational, bool):
            raise InvalidInput(f"computational must be true or false, found {self.computational!r}")
        for name in ("dataset", "mechanism", "composition"):
            _stated(name, getattr(self, name))
        for name in ("public_facts", "assumptions"):
            object.__setattr__(self, name, _texts(name, getattr(self, name)))

    def __str__(self) -> str:
        strength = ", computational" if self.computational else ""
        return (
            f"(ε = {_rounded_up(self.epsilon)}, δ = {_rounded_up(self.delta)}) "
            f"for each {self.unit} of "
            f"{self.dataset!r}, {self.relation}, against {' and '.join(self.against)}{strength}; "
            f"{self.mechanism}; {self.composition}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; floats keep every bit."""
        named = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            name: [str(item) for item in value] if isinstance(value, tuple) else value
            for name, value in named.items()
        } | {"unit": str(self.unit), "relation": str(self.relation)}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`; refuses missing fields and fields it does not know."""
        if not isinstance(stored, Mapping):
            raise InvalidInput(f"a guarantee is stored as an object, found {type(stored).__name__}")
        known = {field.name for field in fields(cls)}
        if set(stored) != known:
            missing, unknown = sorted(known - set(stored)), sorted(set(stored) - known)
            raise InvalidInput(
                f"a stored guarantee has exactly the fields {sorted(known)}; "
                f"missing {missing}, unknown {unknown} (written by a newer voile?)"
            )
        return cls(**stored)


def _rounded_up(figure: float) -> str:
    """Six digits, never less than the figure itself: a printed guarantee must not promise more.

    The figure is what Python writes for it: 0.1 is printed as 0.1, although the double is a little
    above.
    """
    upward = Context(prec=6, rounding=ROUND_CEILING).create_decimal(repr(figure)).normalize()
    return f"{upward:f}" if -5 < upward.adjusted() < 6 else f"{upward:e}"


def _figure(name: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidInput(f"{name} must be a number, found {value!r}")
    try:
        figure = float(value) + 0.0  # no negative zero: equal guarantees are written alike
    except OverflowError:
        figure = math.inf
    if not math.isfinite(figure) or figure < 0:
        raise InvalidInput(f"{name} must be finite and at least 0, found {figure}")
    return figure


def _member(kind: type[_Enumeration], name: str, value: str) -> _Enumeration:
    try:
        return kind(value)
    except ValueError:
        choices = ", ".join(repr(str(member)) for member in kind)
        raise InvalidInput(f"{name} must be one of {choices}, found {value!r}") from None


def _stated(name: str, value: object) -> None:
    if not isinstance(value, str) or not value.strip():
        raise InvalidInput(f"{name} must be stated in words, found {value!r}")


def _texts(name: str, values: object) -> tuple[str, ...]:
    if isinstance(values, str) or not isinstance(values, (tuple, list)):
        raise InvalidInput(f"{name} must be a list of texts, found {values!r}")
    for value in values:
        _stated(name, value)
    return tuple(values)


def _refuse_blank_explained_row(unit: ProtectedUnit, relation: Relation) -> None:
    if unit is ProtectedUnit.EXPLAINED_ROW and relation is not Relation.REPLACE_ONE:
        raise Refused(
            f"{relation!s} says too little about an explained row: whoever receives the "
            "explanation knows that there is one, so any row must stand against any other; "
            f"use {Relation.REPLACE_ONE!s}"
        )
