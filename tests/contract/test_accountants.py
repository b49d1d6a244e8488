"""One suite for every accountant."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from experiments.lib.accounting.accountants import Accountant, Advanced, Renyi
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.privacy.strategies import concentrated, nested, sampled
from voile.core.errors import InvalidInput
from voile.core.guarantee import SMALLEST_DELTA, Relation
from voile.privacy.accounting import Basic, PrivacyLoss, ZeroConcentrated, privacy_loss
from voile.privacy.events import (
    BoundedRange,
    Composed,
    Gaussian,
    Laplace,
    Leaf,
    Parallel,
    PoissonSampled,
    PrivacyEvent,
    PureDp,
    Repeated,
    Zcdp,
)

New = Callable[[], Accountant]
ACCOUNTANTS: dict[str, New] = {
    "basic": Basic,
    "advanced": Advanced,
    "zcdp": ZeroConcentrated,
    "renyi": Renyi,
    "pld": PrivacyLoss,
}
EVENTS: list[Leaf] = [
    Gaussian(3.0),
    Laplace(4.0),
    PureDp(0.3),
    BoundedRange(0.3),
    Zcdp(0.01),
    PoissonSampled(Gaussian(1.5), 0.1, Relation.BLANK_ONE),
    PoissonSampled(Gaussian(1.5), 0.1, Relation.REPLACE_ONE),
]
DELTA = 1e-5


def holds(name: str, event: PrivacyEvent) -> bool:
    """Which accountants can hold which events."""
    if isinstance(event, Zcdp):
        return name != "pld"
    if isinstance(event, PoissonSampled):
        replaced = event.relation is Relation.REPLACE_ONE
        return name != "zcdp" and not (name == "renyi" and replaced)
    return True


PAIRS = [
    pytest.param(name, event, id=f"{name}-{event}")
    for name, event in itertools.product(ACCOUNTANTS, EVENTS)
    if holds(name, event)
]


@pytest.mark.parametrize(("name", "event"), PAIRS)
def test_composing_n_times_equals_n_single_calls(name: str, event: PrivacyEvent) -> None:
    at_once = ACCOUNTANTS[name]().compose(event, 7)
    one_by_one = ACCOUNTANTS[name]()
    for _ in range(7):
        one_by_one = one_by_one.compose(event)
    as_event = ACCOUNTANTS[name]().compose(Repeated(event, 7))
    assert at_once.epsilon(DELTA) == pytest.approx(one_by_one.epsilon(DELTA), rel=1e-9)
    assert at_once.epsilon(DELTA) == pytest.approx(as_event.epsilon(DELTA), rel=1e-9)
    assert at_once.epsilon(DELTA) > ACCOUNTANTS[name]().compose(event).epsilon(DELTA)


@pytest.mark.parametrize("name", ACCOUNTANTS)
def test_nothing_composed_costs_nothing(name: str) -> None:
    assert ACCOUNTANTS[name]().epsilon(DELTA) == 0.0


@pytest.mark.parametrize("name", ACCOUNTANTS)
def test_composing_leaves_the_accountant_as_it_was(name: str) -> None:
    accountant = ACCOUNTANTS[name]()
    accountant.compose(PureDp(1.0))
    assert accountant.epsilon(DELTA) == 0.0


@pytest.mark.parametrize("name", ACCOUNTANTS)
@settings(max_examples=25, deadline=None)
@given(events=st.lists(concentrated.filter(lambda e: not isinstance(e, Zcdp)), min_size=1,
                       max_size=4))  # fmt: skip
def test_order_does_not_matter_and_more_costs_more(name: str, events: list[Leaf]) -> None:
    forward = backward = ACCOUNTANTS[name]()
    before = 0.0
    for event in events:
        forward = forward.compose(event)
        assert forward.epsilon(DELTA) >= before * (1 - 1e-6)
        before = forward.epsilon(DELTA)
    for event in reversed(events):
        backward = backward.compose(event)
    assert forward.epsilon(DELTA) == pytest.approx(backward.epsilon(DELTA), rel=1e-6)


@pytest.mark.parametrize("name", ACCOUNTANTS)
@settings(max_examples=25, deadline=None)
@given(event=nested(concentrated.filter(lambda e: not isinstance(e, Zcdp))))
def test_a_larger_delta_never_costs_more(name: str, event: PrivacyEvent) -> None:
    accountant = ACCOUNTANTS[name]().compose(event)
    assert accountant.epsilon(1e-3) <= accountant.epsilon(1e-6) * (1 + 1e-9)


@pytest.mark.parametrize("name", ACCOUNTANTS)
def test_disjoint_records_cost_the_most_expensive_part(name: str) -> None:
    cheap, dear = Laplace(10.0), Laplace(1.0)
    parallel = ACCOUNTANTS[name]().compose(Parallel((cheap, dear, cheap)))
    assert parallel.epsilon(DELTA) == pytest.approx(
        ACCOUNTANTS[name]().compose(dear).epsilon(DELTA)
    )
    twice = ACCOUNTANTS[name]().compose(Composed((Parallel((cheap, dear)), cheap)))
    direct = ACCOUNTANTS[name]().compose(Composed((dear, cheap)))
    assert twice.epsilon(DELTA) == pytest.approx(direct.epsilon(DELTA))


@pytest.mark.parametrize("name", ACCOUNTANTS)
@pytest.mark.parametrize("delta", [-0.1, 1.0, float("nan")])
def test_a_delta_that_is_none_is_refused(name: str, delta: float) -> None:
    with pytest.raises(InvalidInput):
        ACCOUNTANTS[name]().compose(Gaussian(1.0)).epsilon(delta)


@pytest.mark.parametrize("name", ACCOUNTANTS)
@pytest.mark.parametrize("event", [Gaussian(1.0), PureDp(1.0)])
def test_a_delta_below_the_smallest_is_read_as_the_smallest(name: str, event: Leaf) -> None:
    accountant = ACCOUNTANTS[name]().compose(event, times=3)
    assert accountant.epsilon(5e-324) == accountant.epsilon(SMALLEST_DELTA)


@settings(max_examples=30, deadline=None)
@given(event=st.one_of(concentrated.filter(lambda e: not isinstance(e, Zcdp)), sampled),
       times=st.integers(1, 30))  # fmt: skip
def test_the_numerical_accountant_is_the_tightest(event: Leaf, times: int) -> None:
    """PLD is exact up to its grid, so no valid accountant can read noticeably less.

    Losses are rounded up to the grid, each time: pure events may lose a step in every repetition.
    """
    least = PrivacyLoss().compose(event, times).epsilon(DELTA)
    least -= times * privacy_loss._interval([(event, times)])
    for name, new in ACCOUNTANTS.items():
        if holds(name, event) and not isinstance(event, BoundedRange):
            assert new().compose(event, times).epsilon(DELTA) >= least * (1 - 5e-3) - 1e-3
