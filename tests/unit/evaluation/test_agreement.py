"""Agreement of explanations: by hand, and against scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from experiments.lib.evaluation.agreement import (
    compare,
    feature_agreement,
    kendall_fidelity,
    l2_distance,
    rank_correlation,
    sign_agreement,
)
from experiments.lib.evaluation.privacy_adjusted import privacy_adjusted_score
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from scipy import stats

from voile import Explanation
from voile.core.errors import InvalidInput
from voile.evaluation import cosine_similarity, r_squared

ONE = np.array([[3.0, -2.0, 1.0, 0.5]])
TWO = np.array([[3.0, 2.0, 0.5, 1.0]])
figures = st.floats(-10, 10).map(lambda x: round(x, 3))
two_sets = st.tuples(st.integers(1, 4), st.integers(2, 6)).flatmap(
    lambda shape: st.tuples(
        arrays(np.float64, shape, elements=figures), arrays(np.float64, shape, elements=figures)
    )
)
Pair = tuple[NDArray[np.float64], NDArray[np.float64]]


def test_by_hand() -> None:
    assert l2_distance(ONE, TWO) == pytest.approx([math.sqrt(16.5)])
    assert cosine_similarity(ONE, TWO) == pytest.approx([(9 - 4 + 0.5 + 0.5) / 14.25])
    assert feature_agreement(ONE, TWO, k=2) == [1.0]
    assert sign_agreement(ONE, TWO, k=2) == [0.5]
    assert feature_agreement(ONE, TWO, k=3) == pytest.approx([2 / 3])
    assert rank_correlation(ONE, TWO) == pytest.approx([0.8])


def test_kendall_by_hand() -> None:
    """Orders by value: 3 > 1 > 0.5 > −2 and 3 > 2 > 1 > 0.5 (features 0 1 3 2): 3 of 6 pairs."""
    assert kendall_fidelity(ONE, TWO) == pytest.approx([0.5])
    assert kendall_fidelity([[1.0, 2.0]], [[2.0, 1.0]]) == [0.0]
    assert kendall_fidelity([[1.0, 1.0]], [[2.0, 1.0]]) == [0.5]
    assert kendall_fidelity([[1.0]], [[-5.0]]) == [1.0]


def test_vanishing_rows_have_a_stated_figure() -> None:
    zero = np.zeros((1, 4))
    assert cosine_similarity(zero, zero) == [1.0]
    assert cosine_similarity(zero, ONE) == [0.0]
    assert rank_correlation(zero, ONE) == [0.0]


@given(two_sets)
def test_against_scipy(given_sets: Pair) -> None:
    one, two = given_sets
    for row in range(len(one)):
        a, b = np.abs(one[row]), np.abs(two[row])
        if np.ptp(a) and np.ptp(b):
            expected = stats.spearmanr(a, b).statistic
            assert rank_correlation(one, two)[row] == pytest.approx(expected, abs=1e-9)
        if len(set(one[row])) == len(one[row]) and len(set(two[row])) == len(two[row]):
            tau = stats.kendalltau(one[row], two[row]).statistic
            assert kendall_fidelity(one, two)[row] == pytest.approx((1 + tau) / 2)


@settings(max_examples=50)
@given(two_sets)
def test_bounds_symmetry_and_identity(given_sets: Pair) -> None:
    one, two = given_sets
    for measure in (cosine_similarity, rank_correlation, kendall_fidelity):
        assert np.allclose(measure(one, two), measure(two, one))
        assert (np.abs(measure(one, two)) <= 1 + 1e-12).all()
    k = one.shape[1] - 1
    assert (sign_agreement(one, two, k=k) <= feature_agreement(one, two, k=k)).all()
    assert (feature_agreement(one, one, k=k) == 1).all()
    assert (kendall_fidelity(one, one) == 1).all()
    assert r_squared(one, one) == 1.0


def test_r_squared_by_hand() -> None:
    assert r_squared([[0.0, 2.0]], [[0.0, 1.0]]) == pytest.approx(0.5)
    assert r_squared([[1.0, 1.0]], [[1.0, 2.0]]) == 0.0


def test_compare_takes_one_output_and_lowers_k() -> None:
    names = ("a", "b", "c", "d")
    first = Explanation(values=ONE, base_values=np.zeros((1, 1)), feature_names=names)
    second = Explanation(values=TWO, base_values=np.zeros((1, 1)), feature_names=names)
    found = compare(first, second)
    assert found.means()["cosine"] == pytest.approx(6 / 14.25)
    assert found.features == [1.0]  # k is four at most
    other = Explanation(values=TWO, base_values=np.zeros((1, 1)), feature_names=tuple("wxyz"))
    with pytest.raises(InvalidInput, match="same features"):
        compare(first, other)


class TestPrivacyAdjusted:
    def test_by_hand(self) -> None:
        expected = 0.7 * 0.5 + 0.3 * (1 - math.exp(-2))
        assert privacy_adjusted_score(ONE, TWO, epsilon=1.0) == pytest.approx([expected])

    def test_its_flaw_is_as_documented(self) -> None:
        """The same attributions score better the less private they are said to be."""
        low = privacy_adjusted_score(ONE, TWO, epsilon=0.1)
        high = privacy_adjusted_score(ONE, TWO, epsilon=10.0)
        assert (high > low).all()
        worst = privacy_adjusted_score([[1.0, 2.0]], [[2.0, 1.0]], epsilon=100.0)
        assert worst == pytest.approx([0.3])

    def test_bad_parameters_are_refused(self) -> None:
        with pytest.raises(InvalidInput):
            privacy_adjusted_score(ONE, TWO, epsilon=0.0)


@pytest.mark.parametrize(
    ("one", "two"),
    [([[1.0]], [[1.0, 2.0]]), ([], []), ([[math.nan]], [[1.0]]), ([1.0], [1.0])],
)
def test_bad_input_is_refused(one: list[float], two: list[float]) -> None:
    with pytest.raises(InvalidInput):
        l2_distance(one, two)


@pytest.mark.parametrize("k", [0, 5, True])
def test_k_lies_between_one_and_the_number_of_features(k: int) -> None:
    with pytest.raises(InvalidInput):
        feature_agreement(ONE, TWO, k=k)
