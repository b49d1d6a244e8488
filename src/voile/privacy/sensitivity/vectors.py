"""Sensitivities of clipped vectors, bounded means, sums, counts and histograms."""

from __future__ import annotations

import math

from voile.core.choices import member
from voile.core.errors import InvalidInput
from voile.core.guarantee import ProtectedUnit, Relation
from voile.privacy.sensitivity.bound import (
    Norm,
    Sensitivity,
    by_relation,
    positive,
    width_of,
)


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
    return Sensitivity(
        value=value / positive("rows", rows),
        norm=norm,
        unit=ProtectedUnit.ROW,
        relation=relation,
        conditions=("each row's vector is clipped to the declared length",),
    )


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
    return Sensitivity(
        value=value,
        norm=norm,
        unit=ProtectedUnit.ROW,
        relation=relation,
        conditions=("the cells are disjoint and public",),
    )


def _replaced(relation: Relation) -> bool:
    return member(Relation, relation) is Relation.REPLACE_ONE


def _width(lower: float, upper: float) -> float:
    if not (math.isfinite(lower) and math.isfinite(upper)) or lower >= upper:
        raise InvalidInput(f"bounds must be finite and in order, found [{lower}, {upper}]")
    return upper - lower


def _of_numbers(value: float, relation: Relation) -> Sensitivity:
    """One number: every norm is the same; l1 lets both Laplace and Gaussian noise be used."""
    return Sensitivity(
        value=value,
        norm=Norm.L1,
        unit=ProtectedUnit.ROW,
        relation=relation,
        conditions=("each value is clamped to the declared bounds",),
    )
