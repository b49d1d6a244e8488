"""What is protected, and a privacy guarantee about it, stated in full.

An epsilon by itself says nothing. A `Guarantee` also says what is `Protected` (whose record, how
the two indistinguishable data sets differ, in which data set), whom it holds against, and what it
assumes. None of these fields has a default, so that none is meant by accident.

Compatibility promise: guarantees are stored for years. A stored value of an enumeration never
changes its meaning, and no field is ever removed or renamed. What is protected is stored flat,
everywhere: as three texts, `unit`, `relation` and `dataset`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from decimal import ROUND_CEILING, Context
from enum import StrEnum
from typing import Any, Final, Self

from voile.core.choices import member
from voile.core.errors import InvalidInput, Refused

_FLAT: Final = ("unit", "relation", "dataset")
_ZERO_OUT: Final = "zero-out"
_IF_STATED: Final = frozenset({"parts", "records_per_person"})
"""Fields that are stored only where they say something: older guarantees are without them."""
SMALLEST_DELTA: Final = 1e-300
"""The smallest delta above 0 that voile computes with and states.

Below about 1e-308 floating-point numbers lose digits, and a sum of deltas could come out too small.
"""


class ProtectedUnit(StrEnum):
    """What one record is: its presence or content cannot be inferred from a release.

    >>> ProtectedUnit("explained row") is ProtectedUnit.EXPLAINED_ROW
    True
    """

    ROW = "row"
    """A row of the data set, whatever part it plays: training, background or population."""
    EXPLAINED_ROW = "explained row"
    """The one row an explanation is about, toward somebody who receives the explanation."""
    COLUMNS = "declared columns of a row"
    """What some columns, which are named, say in one row; all others are public."""
    USER = "user"
    """All rows of one person."""
    CLIENT = "client"
    """All rows of one party of a federation."""


class RowPart(StrEnum):
    """Whose rows are protected: the part they play in a release.

    It is recorded, and never a reason for a second account. It also says what the rows are that a
    release explains: public where others are protected, else the protected ones themselves.

    >>> RowPart.BACKGROUND.is_explained, RowPart.POPULATION.is_explained
    (False, True)
    """

    TRAINING = "training"
    BACKGROUND = "background"
    POPULATION = "population"
    """A named population, explained as a whole."""
    EXPLAINED = "explained"
    """Records that are explained one by one."""
    OTHER = "other"

    @property
    def is_explained(self) -> bool:
        """Whether the rows that are handed in to be explained are what is protected."""
        return self in (RowPart.POPULATION, RowPart.EXPLAINED)

    @property
    def word(self) -> str:
        """How people write it in options and files."""
        return "explained-row" if self is RowPart.EXPLAINED else self.value


class Relation(StrEnum):
    """How two neighbouring data sets differ.

    >>> [str(relation) for relation in Relation]
    ['blank one', 'replace one', 'add or remove one']
    """

    BLANK_ONE = "blank one"
    """One record is replaced by a null record. Sizes are public."""
    REPLACE_ONE = "replace one"
    """One record is replaced by any other. Sizes are public; about twice the cost of blanking."""
    ADD_OR_REMOVE_ONE = "add or remove one"
    """One record is added or taken away. Sizes are private too."""

    @property
    def word(self) -> str:
        """How people read and write it; the value is the tag that is stored."""
        return _ZERO_OUT if self is Relation.BLANK_ONE else self.value

    @classmethod
    def _missing_(cls, value: object) -> Relation | None:
        return cls.BLANK_ONE if value == _ZERO_OUT else None


class Adversary(StrEnum):
    """Whom a guarantee holds against.

    >>> print(Adversary.SERVER_SEEING_SUMS)
    a server that sees only sums of updates
    """

    PUBLIC = "the public"
    """Anybody who sees everything that was released."""
    SERVER_SEEING_UPDATES = "a server that sees single updates"
    SERVER_SEEING_SUMS = "a server that sees only sums of updates"
    OTHER_CLIENTS = "other clients"
    OTHER_USERS = "other users"
    """Everybody but the one who is shown what her own record says (joint differential privacy)."""


@dataclass(frozen=True)
class Protected:
    """Whose record is protected, how neighbouring data sets differ, and in which data set.

    One value, so that two are always compared in all three parts. Refuses a relation under which
    the promise would say too little about the unit.

    Args:
        unit: what one record is.
        relation: how neighbouring data sets differ.
        dataset: which data set it is about, by version label.
        columns: which ones, for declared columns of a row; none for any other unit.

    >>> print(Protected("row", "blank one", "patients 2026"))
    each row of 'patients 2026', zero-out
    """

    unit: ProtectedUnit
    relation: Relation
    dataset: str
    columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "unit", member(ProtectedUnit, self.unit, "unit"))
        object.__setattr__(self, "relation", member(Relation, self.relation, "relation"))
        _stated("dataset", self.dataset)
        # Sorted: the same columns are the same unit, in whatever order somebody lists them.
        columns = tuple(sorted(_texts("columns", self.columns)))
        object.__setattr__(self, "columns", columns)
        if len(set(columns)) < len(columns):
            raise InvalidInput(f"columns must be different, found {list(columns)}")
        if bool(columns) != (self.unit is ProtectedUnit.COLUMNS):
            raise InvalidInput(
                f"columns are named for the unit {ProtectedUnit.COLUMNS!s}, and for no other; "
                f"found {list(columns)} for {self.unit!s}"
            )
        check_neighbours(self.unit, self.relation)

    def __str__(self) -> str:
        named = ", ".join(map(repr, self.columns))
        one = f"the columns {named} of each row" if named else f"each {self.unit}"
        return f"{one} of {self.dataset!r}, {self.relation.word}"

    @property
    def texts(self) -> dict[str, str]:
        """How it is stored, flat: in guarantees, accounts, records of the log and reports."""
        listed = f": {json.dumps(self.columns, ensure_ascii=False)}" if self.columns else ""
        return {
            "unit": f"{self.unit!s}{listed}",
            "relation": str(self.relation),
            "dataset": self.dataset,
        }

    @classmethod
    def from_texts(cls, unit: str, relation: str, dataset: str) -> Self:
        """The inverse of `texts`."""
        name, _, listed = str(unit).partition(": ")
        try:
            columns = json.loads(listed) if listed else ()
        except (ValueError, RecursionError):
            columns = listed
        kind = member(ProtectedUnit, name, "unit")
        protected = cls(kind, member(Relation, relation, "relation"), dataset, columns)
        for name, found in (("unit", unit), ("relation", relation)):
            if protected.texts[name] != found:
                raise InvalidInput(f"{name} must be as it is stored, found {found!r}")
        return protected

    def in_dataset(self, dataset: str) -> Self:
        """The same unit and relation in another data set."""
        return replace(self, dataset=dataset)

    def difference(self, other: Protected) -> str:
        """The parts in which another one differs, in words: "the unit 'row', not 'user'"."""
        mine, theirs = (each.texts | {"relation": each.relation.word} for each in (self, other))
        return " and ".join(
            f"the {part} {mine[part]!r}, not {theirs[part]!r}"
            for part in _FLAT
            if mine[part] != theirs[part]
        )


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """Everything needed to judge an (epsilon, delta) statement.

    Args:
        epsilon: finite, at least 0.
        delta: in [0, 1). Never stated without epsilon, nor epsilon without it. One between 0 and
            `SMALLEST_DELTA` is stated as `SMALLEST_DELTA`.
        protected: whose record, how neighbours differ, in which data set.
        against: whom it holds against; at least one.
        computational: true if it holds only against adversaries of bounded computing power, because
            noise comes from a stream cipher or sums are protected by cryptography.
        mechanism: how the noise was made.
        composition: how several releases were added up to this figure.
        public_facts: what is treated as public (sizes, schedule, schema).
        assumptions: what must hold for it (silos disjoint, running time not observed).
        parts: labels of the data sets that `dataset` is put together from, where it is.
        records_per_person: how many records of it belong to one person at most, where somebody has
            declared that; nobody can check it, so it is among the assumptions as well.

    >>> rows = Protected("row", "blank one", "patients 2026")
    >>> promise = Guarantee(epsilon=0.5, delta=1e-6, protected=rows, against=("the public",),
    ...                     computational=False, mechanism="Gaussian noise",
    ...                     composition="one release")
    >>> print(promise)
    (ε = 0.5, δ = 1e-6) for each row of 'patients 2026', zero-out, against the public;
    Gaussian noise; one release
    >>> Guarantee.from_dict(promise.to_dict()) == promise
    True
    """

    epsilon: float
    delta: float
    protected: Protected
    against: tuple[Adversary, ...]
    computational: bool
    mechanism: str
    composition: str
    public_facts: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    records_per_person: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", _figure("epsilon", self.epsilon))
        object.__setattr__(self, "delta", floored_delta(_figure("delta", self.delta)))
        if self.delta >= 1:
            raise InvalidInput(f"delta must be in [0, 1), found {self.delta}")
        if not isinstance(self.protected, Protected):
            raise InvalidInput(f"protected must say what is protected, found {self.protected!r}")
        against = _texts("against", self.against)
        if not against:
            raise InvalidInput("against must name at least one adversary, found none")
        members = tuple(member(Adversary, name, "against") for name in against)
        object.__setattr__(self, "against", members)
        if not isinstance(self.computational, bool):
            raise InvalidInput(f"computational must be true or false, found {self.computational!r}")
        for name in ("mechanism", "composition"):
            _stated(name, getattr(self, name))
        for name in ("public_facts", "assumptions", "parts"):
            object.__setattr__(self, name, _texts(name, getattr(self, name)))
        if self.records_per_person is not None:
            declared = declared_maximum(self.protected, self.records_per_person)
            assumed = dict.fromkeys((*self.assumptions, declared))
            object.__setattr__(self, "assumptions", tuple(assumed))

    def __str__(self) -> str:
        strength = ", computational" if self.computational else ""
        return (
            f"(ε = {_rounded_up(self.epsilon)}, δ = {_rounded_up(self.delta)}) "
            f"for {self.protected}, against {' and '.join(self.against)}{strength}; "
            f"{self.mechanism}; {self.composition}"
        )

    @property
    def labels(self) -> frozenset[str]:
        """Every data set that it speaks about: two guarantees that share one may share a record."""
        return frozenset({self.protected.dataset, *self.parts})

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; floats keep every bit. What is not stated has no field."""
        plain: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Protected):
                plain |= value.texts
            elif field.name not in _IF_STATED or value:
                plain[field.name] = list(map(str, value)) if isinstance(value, tuple) else value
        return plain

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`; refuses missing fields and fields it does not know."""
        if not isinstance(stored, Mapping):
            raise InvalidInput(f"a guarantee is stored as an object, found {type(stored).__name__}")
        known = {field.name for field in fields(cls)} - {"protected"} | set(_FLAT)
        known -= _IF_STATED - set(stored)
        if set(stored) != known:
            missing, unknown = sorted(known - set(stored)), sorted(set(stored) - known)
            raise InvalidInput(
                f"a stored guarantee has exactly the fields {sorted(known)}; "
                f"missing {missing}, unknown {unknown} (written by a newer voile?)"
            )
        rest = {name: value for name, value in stored.items() if name not in _FLAT}
        return cls(protected=Protected.from_texts(**{n: stored[n] for n in _FLAT}), **rest)


def floored_delta(delta: float) -> float:
    """The delta that is computed with and stated: never between 0 and `SMALLEST_DELTA`.

    A promise with a larger delta is weaker, so it stays true.
    """
    return SMALLEST_DELTA if 0 < delta < SMALLEST_DELTA else delta


def declared_maximum(protected: Protected, records: int) -> str:
    """What somebody promises who declares how many records a person has at most, in words.

    Refuses what is no number of records, and units that cover all records of a person anyway.
    """
    if isinstance(records, bool) or not isinstance(records, int) or records < 1:
        raise InvalidInput(
            f"records_per_person must be a whole number, at least 1, found {records!r}"
        )
    if protected.unit not in (ProtectedUnit.ROW, ProtectedUnit.COLUMNS):
        raise InvalidInput(
            "records_per_person says how many rows of a person there are at most, and the unit "
            f"{str(protected.unit)!r} does not count rows; leave it out"
        )
    belong = "record belongs" if records == 1 else "records belong"
    return (
        f"at most {records} {belong} to one person in {protected.dataset!r}: declared, and checked "
        "by nobody"
    )


def check_neighbours(unit: ProtectedUnit, relation: Relation) -> None:
    """Refuse a relation under which a statement about this unit would say too little."""
    if unit is ProtectedUnit.EXPLAINED_ROW and relation is not Relation.REPLACE_ONE:
        raise Refused(
            f"{relation.word} says too little about an explained row: whoever receives the "
            "explanation knows that there is one, so any row must stand against any other; "
            f"use {Relation.REPLACE_ONE!s}"
        )


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


def _stated(name: str, value: object) -> None:
    if not isinstance(value, str) or not value.strip():
        raise InvalidInput(f"{name} must be stated in words, found {value!r}")


def _texts(name: str, values: object) -> tuple[str, ...]:
    if isinstance(values, str) or not isinstance(values, (tuple, list)):
        raise InvalidInput(f"{name} must be a list of texts, found {values!r}")
    for value in values:
        _stated(name, value)
    return tuple(values)
