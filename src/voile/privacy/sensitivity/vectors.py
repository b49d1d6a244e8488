"""Sensitivities of clipped vectors, bounded means, sums, counts, histograms and statistics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

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


# --- Private statistics: tables of cells, centred one-hot sums and their products -----------------


_CELLS: Final = "a row falls into one cell of each table, and a null row into none"
_CENTRED: Final = (
    "each row is centred before it is summed, so a null row adds nothing",
    "bins depend on released tables only",
)


def cell_tables(*, tables: int, relation: Relation) -> Sensitivity:
    """One count for each cell of several tables, in each of which a row has one cell.

    >>> cell_tables(tables=4, relation=Relation.BLANK_ONE).value
    2.0
    """
    positive("tables", tables)
    squared = by_relation(relation, replace_one=2.0 * tables, blank_one=float(tables))
    return Sensitivity.of_rows(math.sqrt(squared), Norm.L2, relation, _CELLS)


def centred_sums(*, bins: Sequence[int], label_weight: float, relation: Relation) -> Sensitivity:
    """√(1 − w)·Σz, √w·Σt·z and √w·Σt, with z the centred one-hot codes and t = ±1 the label.

    `bins` holds the number of bins of each feature, and w is `label_weight`. Under "replace one"
    either the label stays, which moves features by √2 each, or it turns round.
    """
    radii = [_radius(count) for count in bins]
    if not 0 < label_weight < 1:
        raise InvalidInput(f"label_weight must be in (0, 1), found {label_weight}")
    turned = 4 * label_weight + sum(
        max(4 * label_weight * radius, 2 - 4 * label_weight * (1 - radius)) for radius in radii
    )
    squared = by_relation(
        relation,
        replace_one=max(2.0 * len(radii), turned),
        blank_one=sum(radii) + label_weight,
    )
    return Sensitivity.of_rows(math.sqrt(squared), Norm.L2, relation, *_CENTRED)


def centred_products(*, bins: Sequence[int], relation: Relation) -> Sensitivity:
    """Σ z_j·z_kᵀ of every pair j < k of features, each pair once and no feature with itself."""
    radii = [_radius(count) for count in bins]
    if len(radii) < 2:
        raise InvalidInput(f"a pair needs two features, found {len(radii)}")
    pairs = (sum(radii) ** 2 - sum(radius**2 for radius in radii)) / 2
    squared = by_relation(relation, replace_one=min(sum(radii) ** 2, 4 * pairs), blank_one=pairs)
    return Sensitivity.of_rows(math.sqrt(squared), Norm.L2, relation, *_CENTRED)


def _radius(bins: int) -> float:
    """The squared length of e_k − 1/K: the smallest ball around all one-hot codes."""
    if positive("bins", bins) < 2:
        raise InvalidInput("a feature with one bin has nothing to centre")
    return 1 - 1 / bins
