"""Private statistics: no two rows are further apart than the bounds say, and some are as far."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import Relation
from voile.privacy.sensitivity.statistics import cell_tables, centred_products, centred_sums

Vector = NDArray[np.float64]
Row = tuple[tuple[int, ...], int]
"""The bin of each feature, and the label −1 or 1."""
BOTH = BLANK, REPLACE = Relation.BLANK_ONE, Relation.REPLACE_ONE
ROUNDING = 1 + 1e-9


def centred(codes: Sequence[int], bins: Sequence[int]) -> list[Vector]:
    return [np.eye(count)[code] - 1 / count for code, count in zip(codes, bins, strict=True)]


def sums(row: Row, bins: Sequence[int], weight: float) -> Vector:
    """What one row adds to the weighted sums."""
    codes, label = row
    parts = centred(codes, bins)
    joined = np.concatenate(parts) if parts else np.zeros(0)
    with_label = math.sqrt(weight) * label * np.append(joined, 1.0)
    return np.concatenate([math.sqrt(1 - weight) * joined, with_label])


def products(row: Row, bins: Sequence[int]) -> Vector:
    parts = centred(row[0], bins)
    return np.concatenate(
        [np.outer(one, two).ravel() for one, two in itertools.combinations(parts, 2)]
    )


@st.composite
def two_rows(draw: st.DrawFn) -> tuple[list[int], float, Row, Row]:
    bins = draw(st.lists(st.integers(2, 12), min_size=2, max_size=6))
    weight = draw(st.floats(0.01, 0.99))
    rows = [
        (tuple(draw(st.integers(0, count - 1)) for count in bins), draw(st.sampled_from((-1, 1))))
        for _ in range(2)
    ]
    return bins, weight, rows[0], rows[1]


@settings(max_examples=400, deadline=None)
@given(two_rows())
def test_no_row_moves_the_sums_further_than_the_bounds(found: Any) -> None:
    bins, weight, one, two = found
    alone, apart = sums(one, bins, weight), sums(one, bins, weight) - sums(two, bins, weight)
    bounds = {
        relation: centred_sums(bins=bins, label_weight=weight, relation=relation).value
        for relation in BOTH
    }
    # Every row is equally long: the centre of the simplex is as far from all of its corners.
    assert np.linalg.norm(alone) == pytest.approx(bounds[BLANK])
    assert np.linalg.norm(apart) <= bounds[REPLACE] * ROUNDING


@settings(max_examples=400, deadline=None)
@given(two_rows())
def test_no_row_moves_the_products_further_than_the_bounds(found: Any) -> None:
    bins, _, one, two = found
    alone, apart = products(one, bins), products(one, bins) - products(two, bins)
    assert np.linalg.norm(alone) == pytest.approx(centred_products(bins=bins, relation=BLANK).value)
    assert np.linalg.norm(apart) <= centred_products(bins=bins, relation=REPLACE).value * ROUNDING


def all_rows(bins: Sequence[int]) -> Iterator[Row]:
    for codes in itertools.product(*(range(count) for count in bins)):
        yield from ((codes, -1), (codes, 1))


@pytest.mark.parametrize("bins", [(2,), (2, 2), (3, 5), (2, 3, 4), (4, 4, 2)])
@pytest.mark.parametrize("weight", [0.05, 0.3, 0.5, 0.51, 0.85, 0.95])
def test_replacing_attains_the_bound_of_the_sums(bins: tuple[int, ...], weight: float) -> None:
    first = ((0,) * len(bins), 1)
    most = max(
        float(np.linalg.norm(sums(first, bins, weight) - sums(row, bins, weight)))
        for row in all_rows(bins)
    )
    bound = centred_sums(bins=bins, label_weight=weight, relation=REPLACE).value
    assert most == pytest.approx(bound)


@pytest.mark.parametrize("bins", [(2, 2), (2, 2, 2), (3, 5), (2, 3, 4)])
def test_replacing_comes_near_the_bound_of_the_products(bins: tuple[int, ...]) -> None:
    first = ((0,) * len(bins), 1)
    most = max(
        float(np.linalg.norm(products(first, bins) - products(row, bins))) for row in all_rows(bins)
    )
    bound = centred_products(bins=bins, relation=REPLACE).value
    assert 0.7 * bound <= most <= bound * ROUNDING
    if bins == (2, 2):
        assert most == pytest.approx(bound)


def test_the_frozen_weights_have_the_stated_bound() -> None:
    """Where the label's weight is one half or more, as in the frozen rule."""
    radii = sum(1 - 1 / count for count in (2, 7, 12))
    for weight in (0.5, 0.6, 0.85):
        found = centred_sums(bins=(2, 7, 12), label_weight=weight, relation=REPLACE).value ** 2
        assert found == pytest.approx(max(6, 4 * weight * (1 + radii)))


def test_tables() -> None:
    assert cell_tables(tables=9, relation=BLANK).value == 3
    assert cell_tables(tables=8, relation=REPLACE).value == 4


def test_one_feature_or_none_has_sums() -> None:
    assert centred_sums(bins=(), label_weight=0.25, relation=BLANK).value == 0.5
    assert centred_sums(bins=(), label_weight=0.25, relation=REPLACE).value == 1.0


def test_what_has_no_bound_is_refused() -> None:
    with pytest.raises(InvalidInput, match="two features"):
        centred_products(bins=(3,), relation=BLANK)
    with pytest.raises(InvalidInput, match="one bin"):
        centred_products(bins=(3, 1), relation=BLANK)
    with pytest.raises(InvalidInput, match="label_weight"):
        centred_sums(bins=(3,), label_weight=1.0, relation=BLANK)
    private = Relation.ADD_OR_REMOVE_ONE
    with pytest.raises(Refused, match="add or remove one"):
        cell_tables(tables=1, relation=private)
    with pytest.raises(Refused, match="add or remove one"):
        centred_sums(bins=(2,), label_weight=0.5, relation=private)
    with pytest.raises(Refused, match="add or remove one"):
        centred_products(bins=(2, 2), relation=private)
