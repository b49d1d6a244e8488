"""Measures of new accounts: rho beside two Rényi orders, and pure epsilons where delta is 0."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.privacy.strategies import concentrated
from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import Relation
from voile.privacy.accounting import PrivacyLoss
from voile.privacy.accounting.conversion import zcdp_budget
from voile.privacy.accounting.measures import (
    Measure,
    MeasureKind,
    Sums,
    consumed,
    fits,
    largest_of_its_kind,
)
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

MIXED, PURE = Measure.mixed(), Measure.pure()
ALL = [Measure(), Measure((8.0, 16.5)), MIXED, PURE]


@pytest.mark.parametrize("measure", ALL, ids=lambda each: each.name)
def test_a_name_is_read_back(measure: Measure) -> None:
    assert Measure.from_name(measure.name) == measure == Measure.from_name(measure.text)
    assert len(measure.nothing) == len(measure.shares)
    assert math.fsum(measure.shares) == pytest.approx(1.0, abs=1e-15)


@pytest.mark.parametrize("name", ["", "renyi", "zcdp 8", "pure 2", "zcdp or renyi", "other 8"])
def test_what_is_no_measure_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="name of a measure"):
        Measure.from_name(name)


def spend(measure: Measure, events: list[PrivacyEvent], budgets: Sums) -> list[PrivacyEvent]:
    """Greedily: what a filter grants."""
    total, granted = measure.nothing, list[PrivacyEvent]()
    for event in events:
        after = measure.plus(total, measure.cost(event))
        if fits(after, budgets):
            total, granted = after, [*granted, event]
    return granted


leaves = concentrated.filter(lambda event: not isinstance(event, Zcdp))


@settings(max_examples=40, deadline=None)
@given(st.lists(leaves, min_size=1, max_size=12), st.sampled_from([0.3, 1.0, 4.0]))
def test_what_a_mixed_filter_grants_keeps_the_promise(
    events: list[PrivacyEvent], epsilon: float
) -> None:
    """Read by another accountant, which adds up privacy-loss distributions."""
    granted = spend(MIXED, events, MIXED.budgets(epsilon, 1e-5))
    if granted:
        assert PrivacyLoss().compose(Composed(tuple(granted))).epsilon(1e-5) <= epsilon


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-4, 1e-3])
def test_gaussian_releases_lose_little(epsilon: float, delta: float) -> None:
    """An even split over three would lose between 4 % and 27 %."""
    rho = MIXED.budgets(epsilon, delta)[0]
    lost = 1 - rho / zcdp_budget(epsilon, delta)
    assert 0 < lost < 0.007
    even = 1 - zcdp_budget(epsilon, delta / 3) / zcdp_budget(epsilon, delta)
    assert lost < even / 20


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0, 10.0])
def test_nearly_the_whole_of_a_mixed_budget_can_be_spent_on_pure_releases(epsilon: float) -> None:
    budgets = MIXED.budgets(epsilon, 1e-6)
    assert fits(MIXED.cost(PureDp(epsilon - 0.02)), budgets)
    assert not fits(MIXED.cost(PureDp(epsilon + 0.001)), budgets)


@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-9])
def test_the_example_of_the_guide(delta: float) -> None:
    total, budgets = MIXED.nothing, MIXED.budgets(10.0, delta)
    shown = []
    for epsilon in (2.0, 1.5, 3.0):
        total = MIXED.plus(total, MIXED.cost(PureDp(epsilon)))
        shown.append(f"{consumed(total, budgets):.0%}")
    assert shown == ["20%", "35%", "65%"]
    assert not fits(MIXED.plus(total, MIXED.cost(PureDp(5.0))), budgets)


PURE_EVENTS = st.one_of(
    st.floats(1e-8, 3.0).map(PureDp),
    st.floats(1e-8, 3.0).map(BoundedRange),
    st.floats(0.1, 1e6).map(Laplace),
)


@given(st.lists(PURE_EVENTS, max_size=60), st.floats(0.01, 20.0))
def test_pure_epsilons_never_pass_their_budget(events: list[PrivacyEvent], epsilon: float) -> None:
    """In exact arithmetic, a number being the decimal that is written for it."""

    def exact(event: PrivacyEvent) -> Fraction:
        figure = 1 / event.noise_multiplier if isinstance(event, Laplace) else event.epsilon  # type: ignore[union-attr]
        return Fraction(repr(figure))

    granted = spend(PURE, events, PURE.budgets(epsilon, 0.0))
    assert sum(map(exact, granted)) <= Fraction(repr(epsilon))


def test_ten_releases_of_a_tenth_use_one_up() -> None:
    granted = spend(PURE, [PureDp(0.1)] * 12, PURE.budgets(1.0, 0.0))
    assert len(granted) == 10
    assert len(spend(PURE, [Laplace(3.0)] * 12, PURE.budgets(1.0, 0.0))) == 2  # rounded up


def test_a_pure_promise_is_one_that_can_be_counted() -> None:
    for epsilon in (1e7, 4e307):
        with pytest.raises(InvalidInput, match="at most 9 million"):
            PURE.budgets(epsilon, 0.0)


def test_containers_of_pure_events() -> None:
    event = Composed((Repeated(PureDp(0.1), 3), Parallel((Laplace(5.0), PureDp(0.4)))))
    assert PURE.cost(event) == (7e8,)


def test_a_pure_sum_beyond_whole_numbers_is_still_rounded_up() -> None:
    huge = 2.0**53
    assert PURE.plus((huge,), (1.0,))[0] > huge
    event = Repeated(PureDp(1.0), 10**8 * 123_456_789)
    assert PURE.divergences(event)[0] >= 10**17 * 123_456_789


@pytest.mark.parametrize(
    "event",
    [
        Gaussian(5.0),
        Zcdp(0.1),
        ApproximateDp(0.1, 1e-9),
        PoissonSampled(Gaussian(5.0), 0.1, Relation.BLANK_ONE),
        Composed((PureDp(0.1), Gaussian(5.0))),
    ],
)
def test_a_pure_account_takes_nothing_else(event: PrivacyEvent) -> None:
    with pytest.raises(Refused, match="delta = 0"):
        PURE.cost(event)


def test_a_kind_and_its_orders_belong_together() -> None:
    for orders, kind in [((), MeasureKind.MIXED), ((8.0,), MeasureKind.PURE)]:
        with pytest.raises(InvalidInput, match="orders belong"):
            Measure(orders, kind)


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (PureDp(5.0), "a pure release of at most epsilon = 0.99 would fit"),
        (BoundedRange(5.0), "a pure release of at most epsilon = 0.99 would fit"),
        (Laplace(0.5), "Laplace noise of at least 1.01 times the sensitivity would fit"),
        (Gaussian(1.0), "Gaussian noise of at least 4.54 times the sensitivity would fit"),
        (Repeated(Gaussian(1.0), 4), "with 9.07 times the noise it would fit"),
        (Zcdp(1.0), "with 6.42 times the noise it would fit"),
        (Gaussian(1e-9), ""),
    ],
)
def test_what_would_fit_is_of_the_same_kind_and_fits(event: PrivacyEvent, said: str) -> None:
    budgets = MIXED.budgets(1.0, 1e-6)
    assert largest_of_its_kind(lambda each: fits(MIXED.cost(each), budgets), event) == said
