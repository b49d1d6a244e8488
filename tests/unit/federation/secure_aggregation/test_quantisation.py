"""No sum wraps around, and none is further off than is said."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voile.core.errors import InvalidInput
from voile.federation.secure_aggregation import Quantisation

weights = st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=30).map(tuple)
bounds = st.floats(1e-3, 1e6)


@settings(max_examples=200, deadline=None)
@given(bound=bounds, weights=weights, data=st.data())
def test_sums_are_as_exact_as_is_said(bound: float, weights: Any, data: Any) -> None:
    found = Quantisation.for_sum(bound, weights)
    numbers = st.floats(-2 * bound, 2 * bound) | st.sampled_from([bound, -bound, np.inf, -np.inf])
    values = [data.draw(numbers) for _ in weights]
    words = [found.to_words([v], w) for v, w in zip(values, weights, strict=True)]
    total = found.from_words(np.sum(words, axis=0, dtype=found.dtype))
    clipped = np.clip(values, -bound, bound)
    true = sum((Fraction(float(v)) * Fraction(w) for v, w in zip(clipped, weights, strict=True)),
               Fraction(0))  # fmt: skip
    assert abs(Fraction(float(total[0])) - true) <= Fraction(found.error(weights))
    assert found.within(np.sum(words, axis=0, dtype=found.dtype), weights)


@pytest.mark.parametrize("bound", [1e-3, 1.0, 100.0, 12345.678])
@pytest.mark.parametrize("count", [1, 2, 100, 3000])
def test_the_largest_sums_do_not_wrap_around(bound: float, count: int) -> None:
    """Everybody at the bound, in either direction, with weights that do not divide anything."""
    sizes = tuple(37.1 + 0.3 * place for place in range(count))
    found = Quantisation.for_sum(bound, sizes)
    for sign in (1, -1):
        words = [found.to_words(np.full(2, sign * np.inf), size) for size in sizes]
        total = found.from_words(np.sum(words, axis=0, dtype=found.dtype))
        assert np.allclose(total, sign * bound * sum(sizes), rtol=1e-5)


def test_one_digit_more_would_not_fit() -> None:
    found = Quantisation.for_sum(100.0, (40.0,) * 50)
    assert found.width == 32
    with pytest.raises(InvalidInput, match="wrap around"):
        Quantisation(100.0, (40.0,) * 50, 32, found.digits + 1)


def test_a_mutant_without_the_check_wraps_around() -> None:
    found = Quantisation.for_sum(1.0, (1.0,) * 4)
    mutant = object.__new__(Quantisation)
    fields = {"bound": 1.0, "weights": (1.0,) * 4, "width": 32, "digits": found.digits + 1}
    vars(mutant).update(fields)
    total: Any = np.sum([mutant.to_words([1.0], 1.0) for _ in range(4)], axis=0, dtype=np.uint32)
    assert mutant.from_words(total)[0] < 0
    right: Any = np.sum([found.to_words([1.0], 1.0) for _ in range(4)], axis=0, dtype=np.uint32)
    assert found.from_words(right)[0] == 4.0


def test_wide_integers_are_used_where_narrow_ones_are_too_coarse() -> None:
    assert Quantisation.for_sum(1.0, (1.0,) * 200).width == 32
    wide = Quantisation.for_sum(1.0, (1.0,) * 5000)
    assert wide.width == 64
    assert wide.error_of_mean((1.0,) * 5000) < 1e-9


def test_what_cannot_be_read_counts_as_zero_or_as_the_bound() -> None:
    found = Quantisation.for_sum(2.0, (1.0, 3.0))
    read = found.from_words(found.to_words([np.nan, np.inf, -np.inf, 5.0], 3.0))
    assert read.tolist() == [0.0, 6.0, -6.0, 6.0]


def test_a_sum_that_nobody_can_have_made_is_seen() -> None:
    found = Quantisation.for_sum(2.0, (1.0, 3.0))
    total = found.to_words([2.0], 3.0)
    assert found.within(total, (3.0,))
    assert not found.within(total, (1.0,))


@pytest.mark.parametrize(
    ("bound", "sizes"), [(0.0, (1.0,)), (np.inf, (1.0,)), (1.0, ()), (1.0, (0.0,)), (1.0, (-1.0,))]
)
def test_without_bounds_there_is_no_sum(bound: float, sizes: Any) -> None:
    with pytest.raises(InvalidInput):
        Quantisation.for_sum(bound, sizes)
