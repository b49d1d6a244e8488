"""A guarantee in the words of people who answer for data: whose records, what was at stake.

The formal line says the same in less room, and stays beneath. A figure in words is rounded so that
it never promises more than the formal one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Context
from typing import Final

from voile.core.guarantee import (
    Guarantee,
    Protected,
    ProtectedUnit,
    Relation,
    declared_maximum,
    floored_delta,
)

SHOWN_RECORDS: Final = (2, 5)
"""How many records of one person are spelled out, where a record is what is protected."""
_SAYS_LITTLE: Final = 100.0
_WHETHER: Final = {
    Relation.BLANK_ONE: "whether it was there or had been blank",
    Relation.REPLACE_ONE: "whether it was there or another one in its place",
    Relation.ADD_OR_REMOVE_ONE: "whether or not it had been there",
}


@dataclass(frozen=True)
class PersonWithRecords:
    """What is left of a promise about single records for somebody who has several.

    Args:
        records: how many the person has.
        epsilon, delta: what then holds for all of them together; None if nothing does.
        declared: whether somebody has declared that nobody has more.
    """

    records: int
    epsilon: float | None
    delta: float | None
    declared: bool = False

    def __str__(self) -> str:
        count = f"{self.records} record{'' if self.records == 1 else 's'}"
        who = f"A person with {count}"
        if self.declared:
            who = f"A person, with at most {count} (declared, and checked by nobody)"
        if self.records == 1:
            return f"{who}: what is promised for a record is promised for the person."
        if self.epsilon is None or self.delta is None:
            return f"{who}: nothing is promised about all of them together."
        return (
            f"{who}: ε = {_up(self.epsilon)}, δ = {_up(self.delta)} for all of them together, "
            f"{_times(self.epsilon)}."
        )


def guarantee_in_words(guarantee: Guarantee) -> str:
    """One sentence for everybody, and against whom it holds."""
    bounded = ", as far as their computing power is bounded" if guarantee.computational else ""
    said = in_words(guarantee.protected, guarantee.epsilon, guarantee.delta)
    return f"{said} This holds against {' and '.join(guarantee.against)}{bounded}."


def in_words(protected: Protected, epsilon: float, delta: float) -> str:
    """What (epsilon, delta) means for one record of what is protected."""
    chance = f", but for a chance of {_chance(delta)}" if delta else ""
    return f"{_whose(protected)}: what is shown was {_times(epsilon)}{chance}."


def several_records(
    protected: Protected, epsilon: float, delta: float, records_per_person: int | None = None
) -> tuple[PersonWithRecords, ...]:
    """For the number that somebody has declared to be the most, else for those in `SHOWN_RECORDS`;
    nothing where a person's records are protected as one.

    Data sets that differ in k records are k steps apart. Each step costs a factor of e^epsilon, and
    the delta of a later step is multiplied by the factors of those before it.
    """
    if protected.unit not in (ProtectedUnit.ROW, ProtectedUnit.COLUMNS):
        return ()
    if records_per_person is None:
        return tuple(_together(epsilon, delta, records) for records in SHOWN_RECORDS)
    declared_maximum(protected, records_per_person)
    return (replace(_together(epsilon, delta, records_per_person), declared=True),)


def _together(epsilon: float, delta: float, records: int) -> PersonWithRecords:
    try:
        lost = floored_delta(delta) * math.fsum(math.exp(step * epsilon) for step in range(records))
    except OverflowError:
        lost = math.inf if delta else 0.0
    lost *= 1 + 1e-12  # of the sum's rounding
    if lost >= 1:
        return PersonWithRecords(records, None, None)
    return PersonWithRecords(records, records * epsilon, lost)


def _whose(protected: Protected) -> str:
    named, dataset = ", ".join(map(repr, protected.columns)), f"{protected.dataset!r}"
    match protected.unit:
        case ProtectedUnit.ROW:
            return f"For each record of {dataset}, {_WHETHER[protected.relation]}"
        case ProtectedUnit.COLUMNS:
            return f"For what {named} say in each record of {dataset}, whatever that is"
        case ProtectedUnit.USER:
            return f"For each person in {dataset}, with all records of that person"
        case ProtectedUnit.CLIENT:
            return f"For each party of {dataset}, with all its records"
        case ProtectedUnit.EXPLAINED_ROW:
            return "For the person whom this is about, whatever the explained record says"


def _times(epsilon: float) -> str:
    try:
        factor = math.exp(epsilon)
    except OverflowError:
        factor = math.inf
    if factor > _SAYS_LITTLE:
        return "up to more than 100 times as likely as otherwise, which promises little"
    return f"at most {_up(factor, 3)} times as likely as otherwise"


def _chance(delta: float) -> str:
    """1 in so many, never fewer than it is."""
    return f"1 in {math.floor(1 / delta * (1 + 1e-12)):,}" if delta < 0.5 else _up(delta)


def _up(figure: float, digits: int = 4) -> str:
    """Never below the figure."""
    rounded = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(repr(figure))
    return f"{float(rounded):g}"
