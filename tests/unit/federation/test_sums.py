"""Sums that do not depend on the order: exact enough, and bounded in memory."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voile.core.errors import InvalidInput
from voile.federation.sums import OrderFreeSum

VALUES = st.floats(-100, 100, width=32, allow_nan=False)


def summed(terms: list[tuple[float, list[float]]], width: int) -> Any:
    weight = sum(weight for weight, _ in terms)
    found = OrderFreeSum({"x": (width,)}, largest=100.0, weight=weight, terms=len(terms))
    for each, values in terms:
        found.add({"x": np.array(values, dtype=np.float32)}, each)
    return found.totals["x"]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(1e-6, 1e7), st.lists(VALUES, min_size=3, max_size=3)),
        min_size=1,
        max_size=40,
    ),
    st.randoms(use_true_random=False),
)
def test_any_order_gives_the_same_bits_and_the_right_sum(terms: Any, shuffled: Any) -> None:
    first = summed(terms, 3)
    shuffled.shuffle(terms)
    assert summed(terms, 3).tobytes() == first.tobytes()
    exact = [math.fsum(weight * values[i] for weight, values in terms) for i in range(3)]
    bound = 100 * sum(weight for weight, _ in terms)
    assert first == pytest.approx(exact, rel=2**-52, abs=bound * 2**-90)


def test_a_plain_sum_does_depend_on_the_order() -> None:
    """Else the test above could not fail."""
    values = np.random.default_rng(0).normal(size=(50, 1000)).astype(np.float32)
    plain = [sum(v.astype(float) * 0.1 for v in order) for order in (values, values[::-1])]
    assert plain[0].tobytes() != plain[1].tobytes()


def test_small_terms_are_not_lost_beside_large_ones() -> None:
    terms = [(1.0, [100.0]), (1.0, [1e-20]), (1.0, [-100.0])]
    assert summed(terms, 1)[0] == pytest.approx(1e-20, rel=1e-6)


@pytest.mark.parametrize("bound", [{"weight": 0.0}, {"largest": np.inf}, {"terms": 0}])
def test_a_sum_without_a_bound_is_refused(bound: Any) -> None:
    with pytest.raises(InvalidInput, match="nothing bounds this sum"):
        OrderFreeSum({"x": (1,)}, **({"largest": 1.0, "weight": 1.0, "terms": 3} | bound))
