"""What holds for every sequence of charges and renewals on every tree."""

from __future__ import annotations

import math
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.records.ledger.examples import Books

from voile.core.errors import BudgetExceeded, InvalidInput
from voile.privacy.accounting.measures import Measure, fits, plus
from voile.privacy.events import Zcdp
from voile.records.ledger import AdaptiveSpending, Children
from voile.records.ledger.event_text import packed, read, unpacked, written
from voile.records.ledger.history import RecomputedBalance
from voile.records.ledger.tree import RunningTotals, charged

COSTS = st.floats(min_value=1e-6, max_value=0.02)
NAMES = ("root", "a", "b", "a1", "a2", "b1", "b2")
PARENT = {"a": "root", "b": "root", "a1": "a", "a2": "a", "b1": "b", "b2": "b"}
ACTS = st.lists(
    st.tuples(st.sampled_from(NAMES), COSTS, st.integers(0, 19)), min_size=1, max_size=60
)


def exact(tree: dict[str, bool], costs: dict[str, list[float]], name: str) -> float:
    """What one record can have met below an account, computed from the definition."""
    below = [exact(tree, costs, child) for child, parent in PARENT.items() if parent == name]
    together = (max(below, default=0.0)) if tree[name] else math.fsum(below)
    return math.fsum(costs[name]) + together


@settings(max_examples=120, deadline=None)
@given(st.lists(st.booleans(), min_size=7, max_size=7), ACTS)
def test_a_tree_is_never_above_its_bounds_and_always_what_its_charges_make_it(
    kinds: list[bool], acts: list[tuple[str, float, int]]
) -> None:
    """Without renewals: totals are the definition's, from above, within rounding."""
    tree = dict(zip(NAMES, kinds, strict=True))
    books, costs = Books.memory(), defaultdict[str, list[float]](list)
    for name in NAMES:
        kind = Children.PARALLEL if tree[name] else Children.SEQUENTIAL
        books.open(name, epsilon=0.9, parent=PARENT.get(name), children=kind)
    for name, cost, _ in acts:
        try:
            books.charge(name, Zcdp(cost))
        except BudgetExceeded:
            costs[name].append(cost)
            limits = [name]
            while limits[-1] in PARENT:
                limits.append(PARENT[limits[-1]])
            budgets = books.storage.submit(lambda t: books.ledger.account(t, "root")).budgets
            assert any(exact(tree, costs, each) > budgets[0] * (1 - 1e-9) for each in limits)
            costs[name].pop()
        else:
            costs[name].append(cost)
    for name in NAMES:
        truth, spent = exact(tree, costs, name), books.spent(name)[0]
        assert truth <= spent * (1 + 1e-15)
        assert spent <= truth * (1 + 1e-9)
        node = books.storage.submit(lambda t, name=name: books.ledger.node(t, name))  # type: ignore[misc]
        assert fits(node.standing.spent, node.account.budgets)
    assert books.problems() == []


@settings(max_examples=60, deadline=None)
@given(st.lists(st.booleans(), min_size=7, max_size=7), ACTS)
def test_with_renewals_every_period_of_every_account_keeps_its_bound(
    kinds: list[bool], acts: list[tuple[str, float, int]]
) -> None:
    """A record of ward X meets its own path's charges: no period of any account exceeds them."""
    tree = dict(zip(NAMES, kinds, strict=True))
    books = Books.memory()
    since: dict[str, defaultdict[str, list[float]]] = {name: defaultdict(list) for name in NAMES}
    for name in NAMES:
        kind = Children.PARALLEL if tree[name] else Children.SEQUENTIAL
        orders = AdaptiveSpending((16.0, 32.0)) if name == "root" else AdaptiveSpending()
        books.open(name, epsilon=2.0, parent=PARENT.get(name), children=kind, spending=orders)
    for name, cost, dice in acts:
        if dice == 0:
            books.renew(name)
            for each in NAMES:
                if is_below(each, name):
                    since[each].clear()
            continue
        try:
            books.charge(name, Zcdp(cost))
        except BudgetExceeded:
            continue
        for each in NAMES:
            if is_below(name, each):
                since[each][name].append(cost)
    for name in NAMES:
        met = exact(tree, since[name], name)
        node = books.storage.submit(lambda t, name=name: books.ledger.node(t, name))  # type: ignore[misc]
        for order, spent in zip((16.0, 32.0), node.standing.spent, strict=True):
            assert order * met <= spent * (1 + 1e-12)
        assert fits(node.standing.spent, node.account.budgets) or not any(node.standing.spent)
    assert books.problems() == []


def is_below(name: str, other: str) -> bool:
    while name != other and name in PARENT:
        name = PARENT[name]
    return name == other


@given(st.lists(COSTS, min_size=1, max_size=50), st.randoms(use_true_random=False))
def test_the_order_of_charges_does_not_matter_but_for_rounding(
    costs: list[float], chance: object
) -> None:
    first = RunningTotals.fresh((0.0,))
    one = two = first
    for cost in costs:
        (one,) = charged([RecomputedBalance(None, False, False, one)], (cost,), Measure())
    shuffled = list(costs)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    for cost in shuffled:
        (two,) = charged([RecomputedBalance(None, False, False, two)], (cost,), Measure())
    assert one.spent[0] == pytest.approx(two.spent[0], rel=1e-13)
    assert min(one.spent[0], two.spent[0]) >= math.fsum(costs) * (1 - 1e-16)


@given(st.lists(st.floats(0, 1e300), min_size=1, max_size=8))
def test_sums_are_stored_and_written_bit_for_bit(values: list[float]) -> None:
    sums = tuple(values)
    assert unpacked(packed(sums + sums), 2) == (sums, sums)
    assert read(written(sums)) == sums


@given(st.floats(0, 1e3), st.floats(0, 1e3))
def test_additions_never_fall_short(a: float, b: float) -> None:
    from fractions import Fraction

    assert Fraction(plus((a,), (b,))[0]) >= Fraction(a) + Fraction(b)


def test_a_filter_has_eight_orders_at_most() -> None:
    assert len(AdaptiveSpending(tuple(range(2, 10))).orders) == 8
    with pytest.raises(InvalidInput, match="at most 8 orders"):
        AdaptiveSpending(tuple(range(2, 11)))
