"""Clipped vectors, bounded means, sums, counts, histograms: against extreme data sets."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import ProtectedUnit, Relation
from voile.privacy import sensitivity as s
from voile.privacy.sensitivity import Norm, Sensitivity

REPLACE, BLANK, REMOVE = Relation.REPLACE_ONE, Relation.BLANK_ONE, Relation.ADD_OR_REMOVE_ONE


def test_two_clipped_vectors_are_twice_the_bound_apart() -> None:
    for relation, worst in ((REPLACE, 6.0), (BLANK, 3.0), (REMOVE, 3.0)):
        found = s.clipped_vector(
            bound=3.0, norm=Norm.L2, unit=ProtectedUnit.USER, relation=relation
        )
        assert (found.value, found.unit) == (worst, ProtectedUnit.USER)


def test_an_explained_row_is_replaced_only() -> None:
    unit = ProtectedUnit.EXPLAINED_ROW
    assert s.clipped_vector(bound=1.0, norm=Norm.L2, unit=unit, relation=REPLACE).value == 2.0
    with pytest.raises(Refused):
        s.clipped_vector(bound=1.0, norm=Norm.L2, unit=unit, relation=BLANK)


def test_the_mean_of_clipped_vectors() -> None:
    for relation, worst in ((REPLACE, 2 * 3.0 / 7), (BLANK, 3.0 / 7)):
        found = s.clipped_mean(bound=3.0, rows=7, norm=Norm.L2, relation=relation)
        assert found.value == pytest.approx(worst)


@given(lower=st.floats(-100, 99), width=st.floats(0.1, 100), rows=st.integers(1, 5))
def test_bounded_means_and_sums_at_their_extremes(lower: float, width: float, rows: int) -> None:
    upper = lower + width
    null = (lower + upper) / 2
    corners = [np.array(values) for values in itertools.product((lower, upper), repeat=rows)]
    replaced = max(
        abs(a.mean() - np.append(a[1:], b).mean()) for a in corners for b in (lower, upper)
    )
    blanked = max(abs(a.mean() - np.append(a[1:], null).mean()) for a in corners)
    mean = {r: s.bounded_mean(lower=lower, upper=upper, rows=rows, relation=r) for r in Relation
            if r is not REMOVE}  # fmt: skip
    assert mean[REPLACE].value == pytest.approx(replaced)
    assert mean[BLANK].value == pytest.approx(blanked)
    removed = max(abs(a.sum() - a[1:].sum()) for a in corners)
    for relation in (BLANK, REMOVE):
        found = s.bounded_sum(lower=lower, upper=upper, relation=relation)
        assert found.value == pytest.approx(removed)
    assert s.bounded_sum(lower=lower, upper=upper, relation=REPLACE).value == pytest.approx(width)


def test_a_mean_over_a_private_number_of_rows_is_refused() -> None:
    with pytest.raises(Refused):
        s.bounded_mean(lower=0, upper=1, rows=5, relation=REMOVE)


def test_counts_and_histograms() -> None:
    assert all(s.count(relation=relation).value == 1.0 for relation in Relation)
    before, after = np.array([1, 0, 0]), np.array([0, 1, 0])
    for norm, order in ((Norm.L1, 1), (Norm.L2, 2), (Norm.LINF, np.inf)):
        moved = np.linalg.norm(before - after, ord=order)
        assert s.histogram(norm=norm, relation=REPLACE).value == pytest.approx(moved)
        assert s.histogram(norm=norm, relation=BLANK).value == 1.0


@pytest.mark.parametrize("relation", list(Relation))
def test_a_relation_read_from_a_file_means_the_same(relation: Relation) -> None:
    written: Any = str(relation.value)
    quantities: tuple[Callable[[Relation], Sensitivity], ...] = (
        lambda r: s.clipped_vector(bound=3.0, norm=Norm.L2, unit=ProtectedUnit.ROW, relation=r),
        lambda r: s.bounded_sum(lower=-1.0, upper=1.0, relation=r),
        lambda r: s.histogram(norm=Norm.L1, relation=r),
    )
    for of in quantities:
        assert of(written) == of(relation)
        assert of(written).relation is relation
    with pytest.raises(InvalidInput, match="expected one of"):
        s.count(relation="replace two")  # type: ignore[arg-type]


@pytest.mark.parametrize(("lower", "upper"), [(1.0, 1.0), (2.0, 1.0), (math.nan, 1.0)])
def test_bounds_that_are_none(lower: float, upper: float) -> None:
    with pytest.raises(InvalidInput):
        s.bounded_mean(lower=lower, upper=upper, rows=1, relation=BLANK)


def test_a_whole_number_is_a_float_as_well() -> None:
    found = s.bounded_sum(lower=20, upper=120, relation=Relation.REPLACE_ONE)
    assert float(found) == 100.0
