"""What an event says that can be bet against."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from voile.assess.claims import (
    CurvePoint,
    curve_points,
    epsilon_at_variation,
    epsilon_of,
    group_points,
    group_size,
    group_variation,
    hockey_stick,
    total_variation,
    with_noise,
)
from voile.core.guarantee import Relation
from voile.privacy.accounting import PrivacyLoss
from voile.privacy.events import (
    ApproximateDp,
    BoundedRange,
    Composed,
    Gaussian,
    Laplace,
    Parallel,
    PoissonSampled,
    PrivacyEvent,
    PureDp,
    Repeated,
    Zcdp,
)

SAMPLED = Repeated(PoissonSampled(Gaussian(3.477), 0.256, Relation.BLANK_ONE), 40)


def test_total_variation_of_gaussian_noise_is_exact() -> None:
    assert total_variation(Gaussian(2.0)) == pytest.approx(2 * norm.cdf(0.25) - 1, rel=1e-12)
    twice = Composed((Gaussian(3.0), Repeated(Gaussian(4.0), 2)))
    mu = math.sqrt(1 / 9 + 2 / 16)
    assert total_variation(twice) == pytest.approx(2 * norm.cdf(mu / 2) - 1, rel=1e-12)


def test_total_variation_of_laws_that_are_attained() -> None:
    assert total_variation(PureDp(1.0)) == pytest.approx(math.tanh(0.5), abs=1e-3)
    assert total_variation(Laplace(1.0)) == pytest.approx(1 - math.exp(-0.5), abs=1e-3)
    assert total_variation(BoundedRange(1.0)) == pytest.approx(math.tanh(0.25))
    assert total_variation(SAMPLED) == pytest.approx(0.1854, abs=2e-4)


def test_a_bounded_range_moves_no_more_than_its_total_variation() -> None:
    """A counter-example is searched among exponential mechanisms with scores that move at most so
    far that the loss lies in an interval of length epsilon."""
    draw, epsilon = np.random.default_rng(1), 1.3
    for _ in range(2000):
        scores, moved = draw.normal(0, 2, 5), draw.uniform(0, epsilon, 5)
        p, q = np.exp(scores), np.exp(scores + moved)
        p, q = p / p.sum(), q / q.sum()
        assert 0.5 * np.abs(p - q).sum() <= total_variation(BoundedRange(epsilon))


def test_concentrated_noise_of_no_named_law_is_bounded() -> None:
    sigma = 2.0
    assert total_variation(Zcdp(1 / (2 * sigma**2))) >= total_variation(Gaussian(sigma))
    assert curve_points(Zcdp(0.1)) == (CurvePoint(1.0, total_variation(Zcdp(0.1))),)


def test_the_worst_of_parallel_parts_counts() -> None:
    assert total_variation(Parallel((Gaussian(9.0), Gaussian(2.0)))) == total_variation(
        Gaussian(2.0)
    )


def test_points_lie_on_the_curve() -> None:
    first, out, back = curve_points(Gaussian(1.0))
    assert (first.weight, out.swapped, back.swapped) == (1.0, False, True)
    exact = norm.cdf(0.5 - math.log(out.weight)) - out.weight * norm.cdf(
        -0.5 - math.log(out.weight)
    )
    assert out.bound == pytest.approx(exact, rel=1e-6)
    assert 0 < out.bound < first.bound / 4


@pytest.mark.parametrize(
    "event",
    [
        Gaussian(1.0),
        Laplace(1.0),
        PureDp(1.0),
        BoundedRange(1.0),
        ApproximateDp(1.0, 1e-5),
        Zcdp(0.5),
        SAMPLED,
        Composed((Gaussian(1.0), PureDp(0.5))),
        Parallel((Gaussian(1.0), Gaussian(2.0))),
    ],
)
def test_more_noise_tells_less(event: PrivacyEvent) -> None:
    quieter = with_noise(event, 2.0)
    assert type(quieter) is type(event)
    assert total_variation(quieter) < total_variation(event)
    assert with_noise(event, 1.0) == event


def test_an_epsilon_is_told_for_a_variation() -> None:
    """That of the event itself for its own variation, a smaller one for less, none for nothing."""
    own = total_variation(SAMPLED)
    assert epsilon_at_variation(SAMPLED, own, 1e-5) == pytest.approx(epsilon_of(SAMPLED, 1e-5))
    less = epsilon_at_variation(SAMPLED, 0.8 * own, 1e-5)
    assert 1.4 < less < 1.7
    assert epsilon_at_variation(SAMPLED, 0.0, 1e-5) == 0.0


def test_what_is_told_further_out_is_never_more() -> None:
    assert hockey_stick(SAMPLED, 1.0) < hockey_stick(SAMPLED, 0.0)


# --- groups ---------------------------------------------------------------------------------------


def test_what_is_said_of_a_group_follows_from_what_is_said_of_one() -> None:
    assert group_points(Gaussian(8.0), 4) == curve_points(Gaussian(2.0))
    assert group_variation(Zcdp(0.01), 3) == pytest.approx(total_variation(Zcdp(0.09)))
    twice = Repeated(BoundedRange(0.5), 2)
    assert group_variation(twice, 2) == total_variation(Repeated(BoundedRange(1.0), 2))
    assert group_points(SAMPLED, 1) == curve_points(SAMPLED)


@pytest.mark.parametrize("event", [SAMPLED, ApproximateDp(0.1, 1e-5)])
def test_where_nothing_better_is_known_variations_add_up(event: PrivacyEvent) -> None:
    one = total_variation(event)
    assert group_points(event, 2) == (CurvePoint(1.0, 2 * one),)
    assert group_variation(event, 10**6) == 1.0
    assert group_size(event, 64) * one <= 0.4


def test_added_variations_are_no_smaller_than_those_of_a_group() -> None:
    """Where both are known: of Gaussian noise that is always there."""
    for size in (2, 4, 8):
        assert group_variation(Gaussian(8.0), size) <= size * total_variation(Gaussian(8.0))


def test_a_group_is_told_apart_neither_never_nor_always() -> None:
    assert group_size(Gaussian(1.0), 16) == 1
    assert group_size(Gaussian(8.0), 64) == 8
    assert group_size(Gaussian(1e6), 16) == 16


def test_several_choices_of_bounded_range_are_no_worse_than_concentrated() -> None:
    """Privacy-loss distributions take each for a pure one, which says too little."""
    event = Repeated(BoundedRange(0.5), 2)
    assert total_variation(event) == pytest.approx(math.sqrt(2 * 0.5**2 / 8 / 2))
    assert total_variation(event) < PrivacyLoss().compose(event).delta(0.0)


@pytest.mark.parametrize("size", [1, 4])
def test_what_was_found_about_a_group_is_told_of_one_record(size: int) -> None:
    event = Gaussian(8.0)
    variation = 0.8 * group_variation(event, size)
    found = epsilon_at_variation(event, variation, 1e-5, together=size)
    assert 0.6 * epsilon_of(event, 1e-5) < found < 0.95 * epsilon_of(event, 1e-5)
