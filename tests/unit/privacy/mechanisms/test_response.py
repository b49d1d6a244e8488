"""Subset selection: exact odds, in both directions, and nothing besides."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import mpmath
import pytest

from voile.core.guarantee import ProtectedUnit, Relation
from voile.privacy.mechanisms import SubsetSelection
from voile.privacy.mechanisms import selection as response

pytestmark = pytest.mark.filterwarnings("ignore::voile.privacy.mechanisms.WeakPrivacyWarning")

EPSILONS = [1e-9, 1e-6, 0.01, 0.5, 1.0, 5.0, 10.0, 27.0, 29.0, 40.0, 300.0, 1000.0]


def name(epsilon: float, items: int, k: int) -> SubsetSelection:
    return SubsetSelection(
        epsilon=epsilon,
        items=items,
        k=k,
        unit=ProtectedUnit.EXPLAINED_ROW,
        relation=Relation.REPLACE_ONE,
    )


def within(odds: Fraction, epsilon: float) -> bool:
    """A ratio of two probabilities is at most e^epsilon and at least e^−epsilon."""
    with mpmath.workdps(60):
        ratio = mpmath.mpf(odds.numerator) / mpmath.mpf(odds.denominator)
        limit = mpmath.exp(mpmath.mpf(epsilon))
        return bool(1 / limit <= ratio <= limit)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize(("items", "k"), [(2, 1), (5, 4), (12, 3), (1000, 5), (60_000, 2)])
def test_subset_selection_keeps_its_odds_in_both_directions(
    epsilon: float, items: int, k: int
) -> None:
    mechanism = name(epsilon, items, k)
    threshold, weights = response._plan(epsilon, items, k)
    counts = response._counts(items, k)
    assert sum(counts) == math.comb(items, k)
    single = [Fraction(w, n) for w, n in zip(weights, counts, strict=True) if n]
    assert all(within(a / b, epsilon) for a, b in itertools.product(single, repeat=2))
    assert threshold == mechanism.threshold
    assert mechanism.expected_overlap(threshold) == max(
        mechanism.expected_overlap(t) for t in range(1, k + 1)
    )


def test_one_item_is_named_as_by_randomised_response() -> None:
    for epsilon in (0.5, 1.0, 5.0):
        share = name(epsilon, 12, 1).preview().truth
        assert share == pytest.approx(1 / (1 + 11 * math.exp(-epsilon)), rel=1e-9)
    assert name(1.0, 12, 1).preview().truth == pytest.approx(0.198, abs=5e-4)
    assert name(5.0, 12, 1).preview().truth == pytest.approx(0.93, abs=5e-3)


def test_sets_too_many_for_a_float_to_count_are_no_obstacle() -> None:
    mechanism = name(3.0, 2000, 250)
    assert math.comb(2000, 250) > 10**308
    assert len(mechanism.randomise(range(250))) == 250
    assert mechanism.preview().truth > 250 / 2000


def test_the_order_in_which_a_set_is_listed_does_not_tell_the_truth() -> None:
    """0 and 8 share a slot of a small hash table: Python lists first what came first."""
    assert list(frozenset([8, 0])) != list(frozenset([0, 8]))  # if not, this test tests nothing
    mechanism = name(0.1, 16, 2)
    answers = [mechanism.randomise(truth) for truth in ((8, 1), (0, 1)) for _ in range(6_000)]
    listed = Counter(tuple(named) for named in answers if named == {0, 8})
    assert sum(listed.values()) > 20
    assert len(listed) == 1


def test_the_order_in_which_the_truth_is_given_makes_no_difference() -> None:
    mechanism = name(50.0, 64, 3)
    for truth in itertools.permutations((0, 8, 16)):
        assert list(mechanism.randomise(truth)) == list(frozenset([0, 8, 16]))


def test_weights_are_drawn_in_proportion_and_never_when_zero() -> None:
    assert {response._weighted((0, 3, 0, 2, 0)) for _ in range(200)} == {1, 3}
