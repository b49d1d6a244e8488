"""What a new account affords: pure releases beside Gaussian ones, and nothing above its promise."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.records.ledger.examples import Books

from voile.core.errors import BudgetExceeded, InvalidInput, Refused
from voile.core.guarantee import Relation
from voile.privacy.accounting import PrivacyLoss
from voile.privacy.events import (
    ApproximateDp,
    Composed,
    Gaussian,
    Laplace,
    PoissonSampled,
    PrivacyEvent,
    PureDp,
    Repeated,
    Zcdp,
)
from voile.records.ledger import (
    AdaptiveSpending,
    Children,
    PlannedSpending,
    budget_report,
    remaining,
    would_cost,
)

NEW = AdaptiveSpending.for_all_kinds()


def open_new(books: Books, name: str = "clinic", **changes: object) -> None:
    books.open(name, **{"spending": NEW, **changes})


@pytest.mark.parametrize("delta", [0.0, 1e-9, 1e-6, 1e-3])
def test_the_example_of_the_privacy_guide(delta: float) -> None:
    """10.0 in all; 2.0, 1.5 and 3.0 are granted, the fourth is not, and hears what would be."""
    books, shown = Books.memory(), []
    open_new(books, epsilon=10.0, delta=delta)
    for epsilon in (2.0, 1.5, 3.0):
        books.charge(event=PureDp(epsilon))
        shown.append(f"{1 - books.ask(remaining, 'clinic').share:.0%}")
    assert shown == ["20%", "35%", "65%"]
    with pytest.raises(BudgetExceeded, match=r"at most epsilon = 3\.(5|48|49) would fit"):
        books.charge(event=PureDp(5.0))
    assert books.problems() == []


def test_an_account_of_three_affords_a_release_of_one() -> None:
    books = Books.memory()
    open_new(books, epsilon=3.0, delta=1e-6)
    for _ in range(2):
        books.charge(event=PureDp(1.0))
    assert books.ask(would_cost, "clinic", PureDp(0.98)).fits
    assert "at most epsilon = 0.9" in books.ask(would_cost, "clinic", PureDp(1.2)).refused_because


@pytest.mark.parametrize(
    "event",
    [
        Gaussian(50.0),
        Zcdp(0.001),
        ApproximateDp(0.1, 1e-9),
        PoissonSampled(Gaussian(5.0), 0.01, Relation.BLANK_ONE),
    ],
)
def test_without_a_delta_only_pure_releases_are_taken(event: PrivacyEvent) -> None:
    books = Books.memory()
    open_new(books, epsilon=3.0, delta=0.0)
    with pytest.raises(Refused, match="delta = 0"):
        books.charge(event=event)
    books.charge(event=Laplace(1.0))
    assert books.ask(budget_report, "clinic").epsilon_spent == 1.0
    assert books.problems() == []


def test_half_of_a_pure_budget_is_half_of_it() -> None:
    books = Books.memory()
    open_new(books, epsilon=1.0, delta=0.0)
    for _ in range(4):
        assert books.charge(event=PureDp(0.1)).alerts == ()
    (alert,) = books.charge(event=PureDp(0.1)).alerts
    assert alert.threshold == 50
    for _ in range(5):
        books.charge(event=PureDp(0.1))
    with pytest.raises(BudgetExceeded):
        books.charge(event=PureDp(1e-9))


@pytest.mark.parametrize(("above", "below"), [(0.0, 1e-6), (1e-6, 0.0)])
def test_delta_is_0_for_all_of_a_tree_or_for_none(above: float, below: float) -> None:
    books = Books.memory()
    open_new(books, delta=above)
    with pytest.raises(InvalidInput, match="for all of a tree or for none"):
        open_new(books, "team", parent="clinic", delta=below)


def test_orders_and_plans_need_a_delta() -> None:
    for spending in (AdaptiveSpending((8.0,)), PlannedSpending((PureDp(0.1),))):
        with pytest.raises(InvalidInput, match="delta"):
            Books.memory().open(spending=spending, delta=0.0)


def test_accounts_below_keep_what_gaussian_releases_get() -> None:
    """In rho each account has its own best order, however much smaller than the root it is."""
    books = Books.memory()
    open_new(books, epsilon=3.0, delta=1e-6)
    open_new(books, "team", parent="clinic", epsilon=0.3, delta=1e-6)
    old = Books.memory()
    old.open(epsilon=0.3, delta=1e-6)
    for each, name in ((books, "team"), (old, "clinic")):
        each.ask(would_cost, name, Gaussian(20.0))
    new, before = (
        each.ask(would_cost, name, Gaussian(20.0)).consumed[0][2]
        for each, name in ((books, "team"), (old, "clinic"))
    )
    assert before < new < before * 1.005


EVENTS = st.one_of(
    st.floats(0.01, 1.0).map(PureDp),
    st.floats(1.0, 50.0).map(Laplace),
    st.floats(2.0, 60.0).map(Gaussian),
    st.integers(1, 3).map(lambda n: Repeated(Gaussian(20.0), n)),
)
NAMES = ("root", "left", "right")


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(NAMES), EVENTS), max_size=25), st.booleans())
def test_no_order_of_events_passes_the_promise(
    acts: list[tuple[str, PrivacyEvent]], parallel: bool
) -> None:
    """What was granted is read by privacy-loss distributions, another accountant."""
    books, granted = Books.memory(), defaultdict[str, list[PrivacyEvent]](list)
    children = Children.PARALLEL if parallel else Children.SEQUENTIAL
    open_new(books, "root", epsilon=1.5, delta=1e-5, children=children)
    for name in NAMES[1:]:
        open_new(books, name, parent="root", epsilon=1.0, delta=1e-5)
    for name, event in acts:
        try:
            books.charge(name, event)
        except BudgetExceeded:
            continue
        granted[name].append(event)

    def read(*names: str) -> float:
        met = tuple(event for name in names for event in granted[name])
        return PrivacyLoss().compose(Composed(met)).epsilon(1e-5) if met else 0.0

    assert read("left") <= 1.0 >= read("right")
    ways = (("root", "left"), ("root", "right")) if parallel else (NAMES,)
    assert all(read(*way) <= 1.5 for way in ways)
    assert books.problems() == []


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(NAMES), st.integers(1, 5 * 10**8)), min_size=1, max_size=40),
    st.booleans(),
)
def test_pure_accounts_add_up_exactly(acts: list[tuple[str, int]], parallel: bool) -> None:
    books, granted = Books.memory(), defaultdict[str, Fraction](Fraction)
    children = Children.PARALLEL if parallel else Children.SEQUENTIAL
    open_new(books, "root", epsilon=1.5, delta=0.0, children=children)
    for name in NAMES[1:]:
        open_new(books, name, parent="root", epsilon=1.0, delta=0.0)

    def spent() -> dict[str, Fraction]:
        both = [granted["left"], granted["right"]]
        below = max(both) if parallel else sum(both)
        return {**granted, "root": granted["root"] + below}

    limits = {"root": Fraction(3, 2), "left": Fraction(1), "right": Fraction(1)}
    for name, billionths in acts:
        event = PureDp(billionths / 1e9)
        granted[name] += Fraction(repr(event.epsilon))
        fits = all(total <= limits[each] for each, total in spent().items())
        if fits:
            books.charge(name, event)
        else:
            with pytest.raises(BudgetExceeded):
                books.charge(name, event)
            granted[name] -= Fraction(repr(event.epsilon))
    for name, total in spent().items():
        assert books.spent(name)[0] == total * 10**9
    assert books.problems() == []
