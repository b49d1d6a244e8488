"""Filters: adaptive spending that never passes the bound fixed at opening."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import pytest
from experiments.lib.accounting.accountants import Renyi
from experiments.lib.accounting.filters import Filter, RenyiFilter
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.privacy.strategies import concentrated, sampled
from voile.core.errors import BudgetExceeded, InvalidInput, Refused
from voile.core.guarantee import SMALLEST_DELTA, Relation
from voile.privacy.accounting import Plan, ZeroConcentrated, ZeroConcentratedFilter
from voile.privacy.accounting.conversion import gaussian_noise_multiplier, rho, zcdp_to_epsilon
from voile.privacy.events import Gaussian, Laplace, Leaf, PoissonSampled, PureDp, Repeated, Zcdp

QUERY = Gaussian(gaussian_noise_multiplier(0.1, 1e-5))
FILTERS: dict[str, Callable[[float, float], Filter]] = {
    "zcdp": ZeroConcentratedFilter,
    "order 14": lambda epsilon, delta: RenyiFilter(epsilon, delta, (14,)),
    "four orders": lambda epsilon, delta: RenyiFilter(epsilon, delta, (13, 14, 15, 16)),
}


@pytest.mark.parametrize(
    ("name", "granted"), [("zcdp", 101), ("order 14", 101), ("four orders", 88)]
)
def test_how_many_queries_a_filter_grants(name: str, granted: int) -> None:
    account = FILTERS[name](1.36, 1e-5)
    assert account.how_many(QUERY) == granted
    for _ in range(granted):
        account = account.spend(QUERY)
    assert not account.fits(QUERY)
    with pytest.raises(BudgetExceeded) as caught:
        account.spend(QUERY)
    assert caught.value.requested > caught.value.remaining >= 0


@pytest.mark.parametrize("name", FILTERS)
def test_a_delta_below_the_smallest_is_promised_as_the_smallest(name: str) -> None:
    account = FILTERS[name](200.0, 5e-324)
    assert account.delta == SMALLEST_DELTA
    assert account.how_many(QUERY) == FILTERS[name](200.0, SMALLEST_DELTA).how_many(QUERY) > 0


def test_two_orders_grant_94() -> None:
    assert RenyiFilter(1.36, 1e-5, (13, 14)).how_many(QUERY) == 94


@pytest.mark.parametrize("name", FILTERS)
@settings(max_examples=60, deadline=None)
@given(events=st.lists(concentrated, max_size=40), epsilon=st.floats(0.2, 8))
def test_whatever_is_granted_reads_below_the_promise(
    name: str, events: list[Leaf], epsilon: float
) -> None:
    """Greedy spending: everything granted, composed by the plain accountant, keeps the promise."""
    account = FILTERS[name](epsilon, 1e-6)
    concentrated_total, renyi_total = ZeroConcentrated(), Renyi(orders=(13, 14, 15, 16))
    for event in events:
        if account.fits(event):
            account = account.spend(event)
            concentrated_total = concentrated_total.compose(event)
            renyi_total = renyi_total.compose(event)
    total = concentrated_total if name == "zcdp" else renyi_total
    assert total.epsilon(1e-6) <= epsilon * (1 + 1e-9)
    assert 0 <= account.remaining() <= 1


@pytest.mark.parametrize("name", ["order 14", "four orders"])
@given(event=sampled)
def test_renyi_filters_hold_sampled_noise(name: str, event: PoissonSampled) -> None:
    account = FILTERS[name](50.0, 1e-6)
    if account.fits(event):
        assert account.spend(event).remaining() <= account.remaining()


def test_a_concentrated_filter_refuses_sampled_noise() -> None:
    with pytest.raises(Refused, match="no finite rho"):
        ZeroConcentratedFilter(1.0, 1e-5).fits(
            PoissonSampled(Gaussian(1.0), 0.1, Relation.BLANK_ONE)
        )


@given(st.floats(0.001, 0.01))
def test_many_small_charges_never_slip_below_their_true_sum(epsilon: float) -> None:
    """Plain floating-point sums fall behind for about half of all charges; the filter rounds up."""
    account = ZeroConcentratedFilter(30.0, 1e-5)
    charge = PureDp(epsilon)
    for _ in range(200):
        account = account.spend(charge)
    assert Fraction(account.spent) >= 200 * Fraction(rho(charge))


@pytest.mark.parametrize("event", [Laplace(1e9), PureDp(1e-9)])
def test_no_event_gives_budget_back(event: Leaf) -> None:
    """10¹⁷ such events cost about 0.1 at order 2, however small each of them is."""
    account = RenyiFilter(20.0, 1e-5, (2,))
    spent = account.spend(Repeated(event, 10**17)).spent[0]
    assert spent == pytest.approx(0.1, rel=1e-3)


def test_spending_leaves_the_filter_as_it_was() -> None:
    account = ZeroConcentratedFilter(1.0, 1e-5)
    account.spend(QUERY)
    assert account.spent == 0.0


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.0, 1e-5), (-1.0, 1e-5), (math.nan, 1e-5), (1.0, 0.0), (1.0, 1.0)]
)
def test_a_promise_that_is_none_is_refused(epsilon: float, delta: float) -> None:
    for new in FILTERS.values():
        with pytest.raises(InvalidInput):
            new(epsilon, delta)


@pytest.mark.parametrize("orders", [(), (1.0,), (2, 2)])
def test_orders_must_be_different_and_above_one(orders: tuple[float, ...]) -> None:
    with pytest.raises(InvalidInput):
        RenyiFilter(1.0, 1e-5, orders)


class TestPlan:
    STAGE = Repeated(PoissonSampled(Gaussian(4.336), 0.256, Relation.BLANK_ONE), 40)

    def test_a_plan_that_fits_says_what_it_needs(self) -> None:
        plan = Plan((self.STAGE, self.STAGE), 1.51, 1e-3)
        assert plan.needed() == pytest.approx(1.50, abs=0.01)

    def test_a_plan_that_does_not_fit_is_refused(self) -> None:
        with pytest.raises(BudgetExceeded, match="needs epsilon") as caught:
            Plan((self.STAGE,) * 3, 1.8, 1e-3)
        assert caught.value.requested > caught.value.remaining == 1.8

    def test_events_of_which_a_rho_is_known_are_added_by_it(self) -> None:
        parts = (Zcdp(0.03), Zcdp(0.04))
        assert Plan(parts, 2.0, 1e-5).needed() == pytest.approx(zcdp_to_epsilon(0.07, 1e-5))
        with pytest.raises(BudgetExceeded):
            Plan((*parts, Zcdp(0.05)), 2.0, 1e-5)
        with pytest.raises(Refused):
            Plan((*parts, self.STAGE), 9.0, 1e-5)

    @pytest.mark.parametrize("pure", [0.01, 1.0])
    def test_pure_events_beside_them_count_the_cheaper_way(self, pure: float) -> None:
        needed = Plan((Zcdp(0.07), PureDp(pure)), 4.0, 1e-5).needed()
        together = zcdp_to_epsilon(0.07 + pure**2 / 2, 1e-5)
        apart = zcdp_to_epsilon(0.07, 1e-5) + pure
        assert needed == pytest.approx(min(together, apart))
        assert (together < apart) == (pure < 0.1)

    def test_an_empty_plan_is_refused(self) -> None:
        with pytest.raises(InvalidInput):
            Plan((), 1.0, 1e-5)
