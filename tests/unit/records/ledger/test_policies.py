"""Rules beyond the budget: thresholds, periods, allowances, a second person."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.records.ledger.examples import Books

from voile.core.errors import BudgetExceeded, InvalidInput, Refused
from voile.privacy.events import Gaussian, PureDp
from voile.records.ledger import (
    AccountPolicy,
    AdaptiveSpending,
    Calendar,
    PlannedSpending,
    budget_report,
    policy_of,
)
from voile.records.ledger.event_text import event_text

NEW = AdaptiveSpending.for_all_kinds()


def moment(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def shown(time: float) -> str:
    return f"{datetime.fromtimestamp(time, UTC):%Y-%m-%d %H:%M}"


@pytest.fixture
def books() -> Books:
    made = Books.memory()
    made.clock.time = moment("2026-11-19 12:00")
    made.open(epsilon=1.0, delta=0.0, spending=NEW)
    return made


def set_policy(books: Books, account: str = "clinic", **rules: object) -> None:
    policy = AccountPolicy(**rules)  # type: ignore[arg-type]
    books.storage.submit(lambda t: books.ledger.set_policy(t, account, policy, caller="custodian"))


def pay(books: Books, epsilon: float, account: str = "clinic", caller: str = "ada") -> object:
    return books.charge(account, PureDp(epsilon), caller=caller)


# --- calendar -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("calendar", "begin", "end"),
    [
        ("daily", "2026-11-19 00:00", "2026-11-20 00:00"),
        ("weekly", "2026-11-16 00:00", "2026-11-23 00:00"),
        ("monthly", "2026-11-01 00:00", "2026-12-01 00:00"),
        ("quarterly", "2026-10-01 00:00", "2027-01-01 00:00"),
        ("yearly", "2026-01-01 00:00", "2027-01-01 00:00"),
    ],
)
def test_spans_of_the_calendar(calendar: str, begin: str, end: str) -> None:
    now = moment("2026-11-19 21:30")
    assert shown(Calendar(calendar).begin(now)) == begin
    assert shown(Calendar(calendar).end(now)) == end


@given(st.sampled_from(Calendar), st.integers(0, 4_000_000_000))
def test_every_moment_is_in_exactly_one_span(calendar: Calendar, now: int) -> None:
    begin, end = calendar.begin(now), calendar.end(now)
    assert begin <= now < end
    assert calendar.begin(end) == end
    assert calendar.begin(end - 1) == begin


@pytest.mark.parametrize(
    "rules",
    [
        {"thresholds": (80, 50)},
        {"thresholds": (0,)},
        {"thresholds": (50, 101)},
        {"allowance": 1.5},
        {"approval": -0.1},
        {"cool_down": 3.0},
        {"renew": "monthly", "cool_down": -1.0},
        {"renew": "sometimes"},
    ],
)
def test_rules_that_are_none(rules: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"found|calendar|valid"):
        AccountPolicy(**rules)  # type: ignore[arg-type]


def test_rules_are_stored_and_read_back(books: Books) -> None:
    policy = AccountPolicy((10, 99), Calendar.YEARLY, 5.0, 0.25, Calendar.WEEKLY, 0.5)
    assert books.storage.read_snapshot(lambda t: policy_of(t, "clinic")) == AccountPolicy()
    books.storage.submit(lambda t: books.ledger.set_policy(t, "clinic", policy, caller="x"))
    assert books.storage.read_snapshot(lambda t: policy_of(t, "clinic")) == policy
    assert books.problems() == []


def test_a_plan_has_no_rules_but_its_list(books: Books) -> None:
    books.open("other", dataset="other", spending=PlannedSpending((Gaussian(20.0),)))
    with pytest.raises(Refused, match="fixed plan"):
        set_policy(books, "other", thresholds=(50,))


# --- thresholds -----------------------------------------------------------------------------------


def test_thresholds_of_an_account(books: Books) -> None:
    set_policy(books, thresholds=(20, 80))
    assert [alert.threshold for alert in pay(books, 0.19).alerts] == []  # type: ignore[attr-defined]
    assert [alert.threshold for alert in pay(books, 0.01).alerts] == [20]  # type: ignore[attr-defined]
    assert [alert.threshold for alert in pay(books, 0.55).alerts] == []  # type: ignore[attr-defined]
    set_policy(books, thresholds=(70, 90))
    assert [alert.threshold for alert in pay(books, 0.01).alerts] == [70]  # type: ignore[attr-defined]
    assert books.problems() == []


# --- periods --------------------------------------------------------------------------------------


def test_a_period_ends_with_the_month_and_the_next_opens_after_the_cool_down(books: Books) -> None:
    set_policy(books, renew="monthly", cool_down=48)
    pay(books, 0.6)
    books.clock.time = moment("2026-11-30 23:59")
    with pytest.raises(BudgetExceeded, match=r"0.5, and 0.4 is left"):
        pay(books, 0.5)
    books.clock.time = moment("2026-12-01 00:00")
    with pytest.raises(BudgetExceeded, match="opens 2026-12-03"):
        pay(books, 0.1)
    assert books.storage.submit(books.ledger.renew_due) == []
    books.clock.time = moment("2026-12-03 00:00")
    (done,) = books.storage.submit(books.ledger.renew_due)
    assert (done.account.name, done.period) == ("clinic", 1)
    pay(books, 0.7)
    report = books.ask(budget_report, "clinic")
    assert report.epsilon_spent == 0.7
    assert report.lifetime.epsilon == pytest.approx(1.3)  # all periods are about the same data
    assert report.lifetime.promised_epsilon == 2.0
    assert books.storage.submit(books.ledger.renew_due) == []
    assert books.problems() == []


def test_what_is_above_goes_on_counting_and_what_is_below_is_renewed_with_it(books: Books) -> None:
    books.open("team", parent="clinic", epsilon=0.6, delta=0.0, spending=NEW)
    set_policy(books, "team", renew="daily")
    pay(books, 0.6, "team")
    books.clock.time = moment("2026-11-20 08:00")
    books.storage.submit(books.ledger.renew_due)
    with pytest.raises(BudgetExceeded, match=r"0.4 is left in account 'clinic'"):
        pay(books, 0.5, "team")
    set_policy(books, renew="daily")
    books.clock.time = moment("2026-11-21 08:00")
    renewed = [done.account.name for done in books.storage.submit(books.ledger.renew_due)]
    assert "clinic" in renewed
    pay(books, 0.5, "team")
    assert books.problems() == []


# --- allowances -----------------------------------------------------------------------------------


def test_one_caller_stays_within_an_allowance_of_the_day(books: Books) -> None:
    set_policy(books, allowance=0.3)
    pay(books, 0.2)
    with pytest.raises(BudgetExceeded, match=r"'ada' may use 30.0%.*has used 20.0%.*make it 30.1%"):
        pay(books, 0.101)
    pay(books, 0.1)
    pay(books, 0.3, caller="bob")
    with pytest.raises(BudgetExceeded, match="may use"):
        pay(books, 0.001)
    books.clock.time = moment("2026-11-20 00:01")
    pay(books, 0.3)
    assert books.problems() == []


def test_an_allowance_above_counts_charges_below(books: Books) -> None:
    books.open("team", parent="clinic", epsilon=0.8, delta=0.0, spending=NEW)
    set_policy(books, allowance=0.3)
    pay(books, 0.2, "team")
    with pytest.raises(BudgetExceeded, match="account 'clinic'"):
        pay(books, 0.2)


# --- a second person ------------------------------------------------------------------------------


def ask(books: Books, epsilon: float, caller: str = "ada") -> str:
    event = PureDp(epsilon)
    done = books.storage.submit(
        lambda t: books.ledger.request(t, "clinic", event, purpose="review", caller=caller)
    )
    return done.row.number


def approve(books: Books, number: str, caller: str = "grace") -> None:
    books.storage.submit(lambda t: books.ledger.approve(t, "clinic", number, caller=caller))


def test_request_approve_spend(books: Books) -> None:
    set_policy(books, approval=0.2)
    pay(books, 0.2)  # at the threshold; above it, somebody approves
    with pytest.raises(BudgetExceeded, match="second person") as refused:
        pay(books, 0.3)
    assert event_text(PureDp(0.3)) in str(refused.value)
    number = ask(books, 0.3)
    with pytest.raises(BudgetExceeded, match="second person"):
        pay(books, 0.3)
    with pytest.raises(Refused, match="'ada' asked for this"):
        approve(books, number, "ada")
    approve(books, number)
    with pytest.raises(Refused, match="approved by 'grace' already"):
        approve(books, number, "heidi")
    for other in ({"caller": "bob"}, {"epsilon": 0.31}):  # another person, another price
        with pytest.raises(BudgetExceeded, match="second person"):
            pay(books, **{"epsilon": 0.3, **other})  # type: ignore[arg-type]
    grant = pay(books, 0.3)
    assert grant.approval.charge == grant.charge  # type: ignore[attr-defined]
    with pytest.raises(BudgetExceeded, match="second person"):
        pay(books, 0.3)  # once
    assert books.problems() == []


def test_the_price_is_checked_again_when_it_is_spent(books: Books) -> None:
    set_policy(books, approval=0.2)
    number = ask(books, 0.7)
    approve(books, number)
    pay(books, 0.2, caller="bob")
    pay(books, 0.2, caller="bob")
    with pytest.raises(BudgetExceeded, match=r"0.7, and 0.6 is left"):
        pay(books, 0.7)


def test_what_does_not_fit_is_neither_asked_nor_approved(books: Books) -> None:
    with pytest.raises(BudgetExceeded, match="at most epsilon = 1 would fit"):
        ask(books, 1.2)
    number = ask(books, 0.9)
    pay(books, 0.2)
    with pytest.raises(BudgetExceeded, match=r"at most epsilon = 0.8 would fit"):
        approve(books, number)
    with pytest.raises(InvalidInput, match="no request '99'"):
        approve(books, "99")


def test_an_approval_ends_with_its_period(books: Books) -> None:
    set_policy(books, approval=0.2)
    late, early = ask(books, 0.3), ask(books, 0.3)
    approve(books, early)
    books.renew("clinic")
    with pytest.raises(Refused, match="was renewed since"):
        approve(books, late)
    with pytest.raises(BudgetExceeded, match="second person"):
        pay(books, 0.3)


# --- any order ------------------------------------------------------------------------------------

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["ada", "bob"]),
        st.integers(1, 500).map(lambda n: n / 1000),
        st.sampled_from(["pay", "pay", "ask", "approve", "day", "renew"]),
    ),
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(STEPS, st.sampled_from([0.1, 0.35, 1.0]), st.sampled_from([0.0, 0.2, 1.0]))
def test_no_order_of_steps_gets_around_a_rule(
    steps: list[tuple[str, float, str]], allowance: float, approval: float
) -> None:
    """Thousandths, so that everything is exact: budget, allowances and approvals by definition."""
    books = Books.memory()
    books.clock.time = moment("2026-03-01 10:00")
    books.open(epsilon=1.0, delta=0.0, spending=NEW)
    set_policy(books, allowance=allowance, approval=approval, renew="monthly")
    period, windows = 0, defaultdict[tuple[str, str], int](int)
    asked: list[str] = []
    for who, amount, step in steps:
        day = shown(books.clock.time)[:10]
        try:
            if step == "day":
                books.clock.time += 86_400 * 3
            elif step == "renew":
                period = 0 if books.storage.submit(books.ledger.renew_due) else period
            elif step == "ask":
                asked.append(ask(books, amount, who))
            elif step == "approve" and asked:
                approve(books, asked.pop(0))
            elif step == "pay":
                grant = pay(books, amount, caller=who)
                period += round(1000 * amount)
                windows[who, day] += round(1000 * amount)
                assert (amount > approval) == (grant.approval is not None)  # type: ignore[attr-defined]
        except Refused:
            pass
        assert period <= 1000
        assert all(used <= round(1000 * allowance) for used in windows.values())
    rows = books.storage.submit(lambda t: books.ledger.node(t, "clinic")).standing.spent
    assert rows == (period * 1e6,)
    assert books.problems() == []
