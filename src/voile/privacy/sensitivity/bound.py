"""`Sensitivity`: how far one record can move a quantity, and when that is true.

Here also: clipped vectors, bounded means, sums, counts, histograms and statistics.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, Protocol, Self

from voile.core.choices import member
from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import Protected, ProtectedUnit, Relation, check_neighbours


class Norm(StrEnum):
    """How the size of a change of several numbers is measured.

    >>> [str(norm) for norm in Norm]
    ['l1', 'l2', 'largest coordinate']
    """

    L1 = "l1"
    L2 = "l2"
    LINF = "largest coordinate"


@dataclass(frozen=True, kw_only=True)
class Sensitivity:
    """The largest change, in `norm`, between two data sets that differ by `relation` in one `unit`.

    Assumes what `conditions` lists; a guarantee built on it repeats them. Promises that no pair of
    neighbouring data sets moves the quantity further. Prints as the number itself.

    >>> one = Sensitivity(value=0.1, norm="l2", unit="row", relation="replace one")
    >>> float(one.scaled(-2)), float(one.stacked(4)), float(one.for_group(3)) == 3 * 0.1
    (0.2, 0.2, True)
    """

    value: float
    norm: Norm
    unit: ProtectedUnit
    relation: Relation
    conditions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "norm", member(Norm, self.norm))
        object.__setattr__(self, "unit", member(ProtectedUnit, self.unit))
        object.__setattr__(self, "relation", member(Relation, self.relation))
        if not math.isfinite(self.value) or self.value <= 0:
            raise InvalidInput(f"a sensitivity must be finite and above 0, found {self.value}")
        check_neighbours(self.unit, self.relation)

    @classmethod
    def of_rows(cls, value: float, norm: Norm, relation: Relation, *conditions: str) -> Self:
        """Where one record is a row."""
        unit = ProtectedUnit.ROW
        return cls(value=value, norm=norm, unit=unit, relation=relation, conditions=conditions)

    def __float__(self) -> float:
        return float(self.value)

    def __str__(self) -> str:
        return repr(self.value)

    def scaled(self, factor: float) -> Self:
        """Of the quantity multiplied by `factor`."""
        return replace(self, value=self.value * abs(factor))

    def stacked(self, rows: int) -> Self:
        """Of `rows` such quantities released together, each of which may move by all of it."""
        positive("rows", rows)
        # One record may move all rows at once. Lengths of separate blocks add up in l1, squares of
        # lengths in l2, and the largest coordinate does not grow.
        growth = {Norm.L1: rows, Norm.L2: math.sqrt(rows), Norm.LINF: 1}[self.norm]
        return replace(self, value=self.value * growth)

    def for_group(self, size: int) -> Self:
        """For `size` records that change together, one after the other."""
        positive("size", size)
        # A chain of `size` neighbouring data sets leads to the changed one: triangle inequality.
        condition = f"at most {size} records belong together"
        return replace(self, value=self.value * size, conditions=(*self.conditions, condition))

    def summed_over_groups(self, largest_group: int) -> Self:
        """Of the *sums* of coordinates over disjoint groups; not the value of a game of groups.

        Adding up g coordinates stretches the l2 norm by at most √g, the largest coordinate by at
        most g, and the l1 norm not at all.
        """
        positive("largest_group", largest_group)
        root = math.sqrt(largest_group)
        growth = {Norm.L1: 1.0, Norm.L2: root, Norm.LINF: float(largest_group)}[self.norm]
        return replace(self, value=self.value * growth)


class Bounded(Protocol):
    """Anything that was derived for one unit and relation: a sensitivity, a response."""

    @property
    def unit(self) -> ProtectedUnit: ...

    @property
    def relation(self) -> Relation: ...


def check_bounds(bounded: Bounded, protected: Protected) -> None:
    """Refuse a promise about another unit or relation than the bound behind it was derived for."""
    if (bounded.unit, bounded.relation) != (protected.unit, protected.relation):
        raise Refused(
            f"the bound behind this release is for the unit {str(bounded.unit)!r}, "
            f"{bounded.relation.word}; it can promise nothing about {protected}"
        )


def positive(name: str, number: int) -> int:
    """A count that is at least one."""
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise InvalidInput(f"{name} must be a whole number of at least 1, found {number!r}")
    return number


def width_of(name: str, width: float) -> float:
    """A width that is finite and above zero."""
    if isinstance(width, bool) or not isinstance(width, (int, float)):
        raise InvalidInput(f"{name} must be a number, found {width!r}")
    if not math.isfinite(width) or width <= 0:
        raise InvalidInput(f"{name} must be finite and above 0, found {width}")
    return float(width)


def by_relation(relation: Relation, *, replace_one: float, blank_one: float) -> float:
    """The figure for a relation with public sizes; nothing is divided by a private size."""
    relation = member(Relation, relation)
    if relation is Relation.ADD_OR_REMOVE_ONE:
        raise Refused(
            "under 'add or remove one' the number of rows is private, so nothing may be divided "
            "by it; use 'zero-out' with public sizes, or a sum over a declared public size"
        )
    # "Zero out" is a separate figure. It is half of "replace" only where the null record sits in
    # the middle of what a record can be.
    return {Relation.REPLACE_ONE: replace_one, Relation.BLANK_ONE: blank_one}[relation]


# --- Sensitivities of sums over users, each of whom is one vector of length at most one ----------
# Proofs: docs/guarantees/recommenders.md.


_UNIT_ROWS: Final = (
    "all lines of one user make one vector",
    "each user's vector has no entry below 0 and is at most 1 long",
    "a user without history adds nothing",
)


def unit_row_sum(*, relation: Relation) -> Sensitivity:
    """Σ_u x_u, where each user is one vector of length at most 1 without negative entries.

    Zeroing out a user takes away at most 1. Replacing one moves the sum by √(2 − 2⟨x, y⟩) ≤ √2,
    because vectors without negative entries never point away from each other.

    >>> blank = unit_row_sum(relation=Relation.BLANK_ONE)
    >>> blank.value, blank.norm.value, blank.unit.value
    (1.0, 'l2', 'user')
    """
    value = by_relation(relation, replace_one=math.sqrt(2), blank_one=1.0)
    return _of_users(value, relation)


def unit_row_gram(*, relation: Relation) -> Sensitivity:
    """Σ_u x_u x_uᵀ, as the vector of its entries above the diagonal and its diagonal over √2.

    Assumes user vectors as in `unit_row_sum`. The vector is 1/√2 times as long as the matrix. The
    matrix of one user has length ‖x‖² ≤ 1, so zeroing out costs 1/√2. Replacing moves the matrix by
    √(2 − 2⟨x, y⟩²) ≤ √2, so the vector by at most 1.

    >>> unit_row_gram(relation=Relation.REPLACE_ONE).value
    1.0
    """
    value = by_relation(relation, replace_one=1.0, blank_one=math.sqrt(0.5))
    return _of_users(value, relation)


def _of_users(value: float, relation: Relation) -> Sensitivity:
    return Sensitivity(
        value=value,
        norm=Norm.L2,
        unit=ProtectedUnit.USER,
        relation=relation,
        conditions=_UNIT_ROWS,
    )


# --- Clipped vectors, bounded means, sums, counts and histograms ----------------------------------


def clipped_vector(
    *, bound: float, norm: Norm, unit: ProtectedUnit, relation: Relation
) -> Sensitivity:
    """A vector clipped to length `bound`: two of them are up to 2·bound apart, not bound.

    A zeroed-out record contributes the zero vector; so does a record that is not there.

    >>> float(clipped_vector(bound=1.0, norm="l2", unit="explained row", relation="replace one"))
    2.0
    """
    bound = width_of("bound", bound)
    value = 2 * bound if _replaced(relation) else bound
    return Sensitivity(
        value=value,
        norm=norm,
        unit=unit,
        relation=relation,
        conditions=("the vector is clipped to the declared length",),
    )


def clipped_mean(*, bound: float, rows: int, norm: Norm, relation: Relation) -> Sensitivity:
    """The mean over a public number of rows of vectors clipped to length `bound`.

    A zeroed-out row contributes the zero vector. Refuses "add or remove one": there the number of
    rows is private.

    >>> float(clipped_mean(bound=1.0, rows=100, norm="l2", relation="blank one"))
    0.01
    """
    bound = width_of("bound", bound)
    value = by_relation(relation, replace_one=2 * bound, blank_one=bound)
    condition = "each row's vector is clipped to the declared length"
    return Sensitivity.of_rows(value / positive("rows", rows), norm, relation, condition)


def bounded_mean(*, lower: float, upper: float, rows: int, relation: Relation) -> Sensitivity:
    """The mean of one number in [lower, upper] over a public number of rows.

    A zeroed-out row counts as the middle of the range, so it costs half as much as a replaced one.
    Refuses "add or remove one": there the number of rows is private.

    >>> float(bounded_mean(lower=0, upper=120, rows=60, relation="blank one"))
    1.0
    """
    width = _width(lower, upper)
    value = by_relation(relation, replace_one=width, blank_one=width / 2)
    return _of_numbers(value / positive("rows", rows), relation)


def bounded_sum(*, lower: float, upper: float, relation: Relation) -> Sensitivity:
    """The sum of one number in [lower, upper]; also under "add or remove one".

    A row that is zeroed out or absent adds 0, so the distance from 0 counts. Dividing the result by
    a *declared* public size keeps it private under every relation.

    >>> float(bounded_sum(lower=20.0, upper=120.0, relation="add or remove one"))
    120.0
    >>> float(bounded_sum(lower=20.0, upper=120.0, relation="replace one"))
    100.0
    """
    width = _width(lower, upper)
    # An absent row adds 0, even if 0 is outside the bounds: the distance to 0 counts.
    reach = max(abs(lower), abs(upper))
    return _of_numbers(width if _replaced(relation) else reach, relation)


def count(*, relation: Relation) -> Sensitivity:
    """How many rows satisfy a condition; a zeroed-out row satisfies none.

    >>> float(count(relation="add or remove one"))
    1.0
    """
    return _of_numbers(1.0, relation)


def histogram(*, norm: Norm, relation: Relation) -> Sensitivity:
    """How many rows fall into each of several disjoint cells; a zeroed-out row falls into none.

    Replacing a row takes one from a cell and adds one to another.

    >>> float(histogram(norm="l1", relation="blank one"))
    1.0
    >>> float(histogram(norm="l1", relation="replace one"))
    2.0
    """
    replaced = {Norm.L1: 2.0, Norm.L2: math.sqrt(2), Norm.LINF: 1.0}[member(Norm, norm)]
    value = replaced if _replaced(relation) else 1.0
    return Sensitivity.of_rows(value, norm, relation, "the cells are disjoint and public")


def _replaced(relation: Relation) -> bool:
    return member(Relation, relation) is Relation.REPLACE_ONE


def _width(lower: float, upper: float) -> float:
    if not (math.isfinite(lower) and math.isfinite(upper)) or lower >= upper:
        raise InvalidInput(f"bounds must be finite and in order, found [{lower}, {upper}]")
    return upper - lower


def _of_numbers(value: float, relation: Relation) -> Sensitivity:
    """One number: every norm is the same; l1 lets both Laplace and Gaussian noise be used."""
    condition = "each value is clamped to the declared bounds"
    return Sensitivity.of_rows(value, Norm.L1, relation, condition)
