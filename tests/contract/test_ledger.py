"""One suite for the ledger on every storage: memory, SQLite and PostgreSQL."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from experiments.lib.accounting.filters import RenyiFilter

from tests.support.journal import check_journal
from tests.unit.records.ledger.examples import (
    CHEAP,
    DATASET,
    KEY,
    Books,
    charge,
    clinic_tree,
    opening,
)
from voile.core.errors import BudgetExceeded, InvalidInput, Refused
from voile.core.guarantee import ProtectedUnit, Relation
from voile.privacy.accounting import ZeroConcentratedFilter
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
    PART,
    AccountChange,
    AdaptiveSpending,
    Charge,
    ChargedAnswer,
    Children,
    Ledger,
    NamedRecord,
    PlannedSpending,
    PublicInput,
    Question,
    WholeDataset,
    forecast,
    how_many,
    remaining,
    would_cost,
)
from voile.records.ledger.tables import (
    ACCOUNTS,
    ALERTS,
    ANSWERS,
    BALANCES,
    CHILDREN,
    ENTRIES,
    POPULATIONS,
)
from voile.records.storage import Transaction, open_storage

SAMPLED = PoissonSampled(Gaussian(2.0), 0.05, Relation.BLANK_ONE)


@pytest.fixture(params=["memory", "sqlite", pytest.param("postgres", marks=pytest.mark.real)])
def books(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Books]:
    place = {"memory": "memory:", "sqlite": str(tmp_path / "ledger.db")}.get(request.param)
    with open_storage(place or request.getfixturevalue("postgres_url"), [PART]) as storage:
        yield Books.on(storage)


def fill(books: Books, account: str, event: PrivacyEvent) -> int:
    """Charge until it is refused; how many were granted."""
    granted = 0
    while True:
        try:
            books.charge(account, event)
        except BudgetExceeded:
            return granted
        granted += 1


class TestOneAccount:
    @pytest.mark.parametrize(
        ("orders", "event"),
        [((), Gaussian(12.0)), ((16.0,), Gaussian(12.0)), ((8.0, 16.0, 24.0), SAMPLED)],
        ids=["zcdp", "one order", "three orders"],
    )
    def test_it_grants_what_the_filter_grants_to_the_last_bit(
        self, books: Books, orders: tuple[float, ...], event: PrivacyEvent
    ) -> None:
        books.open(spending=AdaptiveSpending(orders))
        twin: ZeroConcentratedFilter | RenyiFilter = (
            RenyiFilter(1.0, 1e-5, orders) if orders else ZeroConcentratedFilter(1.0, 1e-5)
        )
        for _ in range(40):
            if not twin.fits(event):
                with pytest.raises(BudgetExceeded):
                    books.charge(event=event)
                break
            twin = twin.spend(event)
            books.charge(event=event)
            spent = books.spent("clinic")
            assert spent == (twin.spent if isinstance(twin, RenyiFilter) else (twin.spent,))
        assert books.problems() == []

    def test_a_refusal_says_what_is_left_and_changes_nothing(self, books: Books) -> None:
        books.open()
        books.charge(event=Zcdp(0.02))
        before = books.spent("clinic")
        with pytest.raises(BudgetExceeded, match="nothing was charged") as caught:
            books.charge(event=Zcdp(0.02))
        assert caught.value.requested == pytest.approx(0.02)
        assert 0 < caught.value.remaining < 0.02
        assert books.spent("clinic") == before
        assert len(books.storage.submit(lambda t: t.scan(ENTRIES, "clinic"))) == 2
        assert books.problems() == []

    def test_a_small_charge_still_fits_after_a_refusal(self, books: Books) -> None:
        books.open()
        with pytest.raises(BudgetExceeded):
            books.charge(event=PureDp(2.0))
        assert books.charge(event=CHEAP).charge == "clinic#1"

    def test_everything_said_is_in_the_journal(self, books: Books) -> None:
        books.open()
        books.charge(purpose="fairness review", caller="grace", part="background")
        opened, charged = books.storage.submit(lambda t: t.scan(ENTRIES, "clinic"))
        assert (opened.act, opened.caller) == ("opened", "custodian")
        assert (charged.act, charged.account) == ("charged", "clinic")
        assert (charged.purpose, charged.caller) == ("fairness review", "grace")
        assert charged.part == "background"
        assert charged.event == '{"kind":"gaussian","noise_multiplier":20.0}'

    def test_a_clock_that_jumps_back_is_noted_and_the_journal_goes_on(self, books: Books) -> None:
        books.open()
        first = books.charge()
        books.clock.time -= 1e6
        second = books.charge()
        assert second.time == first.time
        assert (first.clock_back, second.clock_back) == (False, True)
        entries = books.storage.submit(lambda t: t.scan(ENTRIES, "clinic"))
        assert [entry.clock_back for entry in entries] == [0, 0, 1]
        assert books.problems() == []

    def test_readings(self, books: Books) -> None:
        books.open()
        most = books.ask(how_many, "clinic", CHEAP)
        assert most == ZeroConcentratedFilter(1.0, 1e-5).how_many(CHEAP)
        cost = books.ask(would_cost, "clinic", CHEAP)
        assert cost.fits
        assert cost.cost == (1 / 800,)
        books.charge()
        left = books.ask(remaining, "clinic")
        assert left.share == pytest.approx(1 - cost.consumed[0][2])
        assert 0 < left.epsilon_spent < 1.0
        ahead = books.ask(forecast, "clinic")
        assert ahead.more == most - 1
        assert ahead.hourly_rate == pytest.approx(1 / 24)
        assert ahead.exhausted_at is not None
        refused = books.ask(would_cost, "clinic", PureDp(3.0))
        assert not refused.fits
        assert "left" in refused.refused_because

    def test_a_reading_changes_nothing(self, books: Books) -> None:
        books.open()
        before = books.storage.submit(lambda t: t.scan(BALANCES))
        books.ask(would_cost, "clinic", CHEAP)
        books.ask(forecast, "clinic", CHEAP)
        assert books.storage.submit(lambda t: t.scan(BALANCES)) == before


class TestBadInput:
    @pytest.mark.parametrize("amount", [0.0, -1.0, math.nan, math.inf, -math.inf, True, "1"])
    @pytest.mark.parametrize("kind", [Gaussian, Laplace, PureDp, Zcdp])
    def test_amounts_that_are_none(self, kind: type[PureDp], amount: float) -> None:
        with pytest.raises(InvalidInput):
            kind(amount)

    @pytest.mark.parametrize("name", ["epsilon", "delta"])
    @pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf, True, "1", None])
    def test_promises_that_are_none(self, name: str, value: object) -> None:
        orders = AdaptiveSpending((8.0,))  # without them a delta of 0 makes a pure account
        with pytest.raises(InvalidInput):
            opening(**{name: value, "spending": orders})  # type: ignore[arg-type]

    @pytest.mark.parametrize("event", [PureDp(1e-200), Gaussian(1e200), PureDp(1e200)])
    def test_a_cost_that_cannot_be_told_from_nothing_or_everything(
        self, books: Books, event: PrivacyEvent
    ) -> None:
        books.open()
        with pytest.raises(InvalidInput, match="finite and above 0"):
            books.charge(event=event)
        assert books.problems() == []

    def test_an_unknown_account(self, books: Books) -> None:
        with pytest.raises(InvalidInput, match="no account 'nobody'"):
            books.charge("nobody")
        with pytest.raises(InvalidInput, match="no account"):
            books.open("child", parent="nobody")

    def test_a_name_that_is_no_text(self, books: Books) -> None:
        class Odd(str):
            pass

        books.open()
        for odd in (["clinic"], Odd("clinic"), None, 7):
            for read in (books.ledger.node, books.ledger.path):
                with pytest.raises(InvalidInput, match="is a text"):
                    books.storage.submit(lambda t, read=read, odd=odd: read(t, odd))  # type: ignore[misc]

    @pytest.mark.parametrize(
        ("part", "changes"),
        [
            ("unit", {"unit": ProtectedUnit.USER}),
            ("unit", {"unit": ProtectedUnit.COLUMNS, "columns": ("age",)}),
            ("relation", {"relation": Relation.REPLACE_ONE}),
            ("dataset", {"dataset": "clinic v2"}),
        ],
    )
    def test_what_does_not_match_is_not_charged(
        self, books: Books, part: str, changes: dict[str, object]
    ) -> None:
        books.open(spending=AdaptiveSpending((16.0,)))
        with pytest.raises(Refused, match=f"is for the {part} "):
            books.charge(**changes)  # type: ignore[arg-type]
        assert not any(books.spent("clinic"))

    def test_an_event_of_another_relation_is_not_charged(self, books: Books) -> None:
        books.open(spending=AdaptiveSpending((16.0,)))
        with pytest.raises(InvalidInput, match="is for"):
            books.charge(event=replace(SAMPLED, relation=Relation.REPLACE_ONE))
        assert not any(books.spent("clinic"))

    @pytest.mark.parametrize("event", [SAMPLED, ApproximateDp(0.1, 1e-6)])
    def test_what_the_measure_cannot_hold_is_refused(
        self, books: Books, event: PrivacyEvent
    ) -> None:
        books.open()
        with pytest.raises(Refused, match="no finite rho"):
            books.charge(event=event)

    @pytest.mark.parametrize(
        "changes",
        [{"purpose": ""}, {"caller": " "}, {"query": b"short"}, {"population": {b"x"}}],
    )
    def test_charges_that_say_nothing(self, changes: dict[str, object]) -> None:
        with pytest.raises(InvalidInput):
            charge(**changes)  # type: ignore[arg-type]

    @pytest.mark.parametrize("name", ["", "x" * 101, "a\nb", None])
    def test_names(self, name: str) -> None:
        with pytest.raises(InvalidInput):
            opening(name)

    def test_a_name_twice(self, books: Books) -> None:
        books.open()
        with pytest.raises(InvalidInput, match="already"):
            books.open("clinic", parent="clinic")

    def test_a_clock_that_says_nothing(self, books: Books) -> None:
        ledger = Ledger(clock=lambda: math.nan)
        with pytest.raises(InvalidInput, match="clock"):
            books.storage.submit(lambda t: ledger.open(t, opening(), caller="x"))

    def test_orders_that_could_never_grant_anything(self, books: Books) -> None:
        with pytest.raises(InvalidInput, match="nothing fits"):
            books.open(spending=AdaptiveSpending((2.0, 4.0)))

    def test_an_explained_row_is_not_blanked(self) -> None:
        with pytest.raises(Refused, match="replace one"):
            opening(unit=ProtectedUnit.EXPLAINED_ROW)


class TestRoots:
    def test_a_second_root_is_sent_below_the_first(self, books: Books) -> None:
        books.open("first")
        with pytest.raises(Refused, match="--parent first; in Python, parent='first'"):
            books.open("second")
        books.open("second", parent="first")

    def test_a_version_that_shares_rows_is_the_same_data(self, books: Books) -> None:
        books.open("first", shares_rows_with=("clinic v2",))
        with pytest.raises(Refused, match="'first'"):
            books.open("second", dataset="clinic v2")
        with pytest.raises(Refused, match="'first'"):
            books.open("third", dataset="clinic v3", shares_rows_with=("clinic v2",))
        books.open("third", dataset="clinic v3", shares_rows_with=("clinic v2",), parent="first")
        with pytest.raises(Refused, match="'first'"):
            books.open("fourth", dataset="clinic v3")

    def test_a_refused_root_claims_nothing(self, books: Books) -> None:
        books.open("first")
        with pytest.raises(Refused):
            books.open("second", dataset="other", shares_rows_with=(DATASET,))
        books.open("third", dataset="other")

    def test_other_data_and_other_units_have_roots_of_their_own(self, books: Books) -> None:
        books.open("rows")
        books.open("users", unit=ProtectedUnit.USER)
        books.open("another clinic", dataset="another clinic v1")
        books.charge("rows")
        assert not any(books.spent("users"))

    def test_declared_columns_are_charged_to_their_own_account(self, books: Books) -> None:
        named: dict[str, Any] = {"unit": ProtectedUnit.COLUMNS, "columns": ("income", "age")}
        books.open("rows")
        books.open("columns", **named)
        kept = books.storage.submit(lambda t: Ledger().account(t, "columns"))
        assert kept.protected.columns == ("age", "income")
        books.charge("columns", **named)
        with pytest.raises(Refused, match="is for the unit 'declared columns of a row: "):
            books.charge("columns", **named | {"columns": ("age",)})
        with pytest.raises(Refused, match="is for the unit 'row'"):
            books.charge("rows", **named)
        assert not any(books.spent("rows"))

    def test_different_columns_of_one_data_set_do_not_have_two_roots(self, books: Books) -> None:
        named: dict[str, Any] = {"unit": ProtectedUnit.COLUMNS}
        books.open("first", **named, columns=("age",))
        for columns in (("age",), ("age", "income"), ("income",)):
            with pytest.raises(Refused, match="'first'"):
                books.open("second", **named, columns=columns)
        books.open("second", **named, columns=("age",), parent="first")
        with pytest.raises(InvalidInput, match="share the unit"):
            books.open("third", **named, columns=("income",), parent="first")

    def test_columns_are_named_in_few_bytes(self, books: Books) -> None:
        with pytest.raises(InvalidInput, match="unit must be"):
            books.open(unit=ProtectedUnit.COLUMNS, columns=tuple(map(str, range(200))))

    def test_a_part_is_never_a_second_account(self, books: Books) -> None:
        books.open()
        for part in ("training", "background", "population"):
            books.charge(part=part)
        entries = books.storage.submit(lambda t: t.scan(ENTRIES, "clinic"))
        assert [entry.part for entry in entries[1:]] == ["training", "background", "population"]
        assert books.spent("clinic")[0] == pytest.approx(3 / 800)


class TestTrees:
    def test_a_charge_is_on_the_whole_path(self, books: Books) -> None:
        clinic_tree(books)
        books.charge("research", Zcdp(0.01))
        assert books.spent("clinic")[0] == books.spent("research")[0] == pytest.approx(0.01)
        assert not any(books.spent("wards"))

    def test_sequential_charges_add_parallel_ones_do_not(self, books: Books) -> None:
        clinic_tree(books)
        books.charge("north", Zcdp(0.010))
        books.charge("south", Zcdp(0.006))
        assert books.spent("wards")[0] == pytest.approx(0.010)
        assert books.spent("clinic")[0] == pytest.approx(0.010)
        books.charge("south", Zcdp(0.006))
        assert books.spent("wards")[0] == pytest.approx(0.012)
        assert books.spent("clinic")[0] == pytest.approx(0.012)
        books.charge("wards", Zcdp(0.001))
        assert books.spent("wards")[0] == pytest.approx(0.013)
        books.charge("research", Zcdp(0.002))
        assert books.spent("clinic")[0] == pytest.approx(0.015)
        assert books.problems() == []

    @pytest.mark.parametrize("short", ["clinic", "wards", "north"])
    def test_whoever_cannot_afford_it_stops_it_and_nobody_is_charged(
        self, books: Books, short: str
    ) -> None:
        budgets = {"clinic": 3.0, "wards": 3.0, "north": 3.0} | {short: 0.5}
        books.open("clinic", epsilon=budgets["clinic"])
        books.open("wards", parent="clinic", epsilon=budgets["wards"], children=Children.PARALLEL)
        books.open("north", parent="wards", epsilon=budgets["north"])
        granted = fill(books, "north", Gaussian(10.0))
        assert granted == ZeroConcentratedFilter(0.5, 1e-5).how_many(Gaussian(10.0))
        with pytest.raises(BudgetExceeded, match=f"is left in account '{short}'"):
            books.charge("north", Gaussian(10.0))
        for name in budgets:
            assert books.spent(name)[0] == pytest.approx(granted / 200)
        assert books.problems() == []

    def test_each_ward_can_use_all_that_the_wards_have(self, books: Books) -> None:
        books.open("clinic", children=Children.PARALLEL)
        books.open("north", parent="clinic")
        books.open("south", parent="clinic")
        event = Gaussian(15.0)
        most = ZeroConcentratedFilter(1.0, 1e-5).how_many(event)
        assert fill(books, "north", event) == most
        assert fill(books, "south", event) == most
        with pytest.raises(BudgetExceeded):
            books.charge("clinic", event)

    def test_children_share_unit_relation_and_measure(self, books: Books) -> None:
        books.open()
        for changes in (
            {"unit": ProtectedUnit.USER},
            {"relation": Relation.REPLACE_ONE},
            {"spending": AdaptiveSpending((8.0,))},
        ):
            with pytest.raises(InvalidInput, match="share the"):
                books.open("child", parent="clinic", **changes)

    @pytest.mark.parametrize("orders", [(), (8.0, 16.0)])
    def test_a_child_with_its_parents_promise_is_opened_as_if_all_of_it_was_stated(
        self, books: Books, orders: tuple[float, ...]
    ) -> None:
        measured = AdaptiveSpending(orders)
        books.open("clinic", epsilon=3.0, spending=measured)
        books.open("wards", parent="clinic", epsilon=2.0, children=Children.PARALLEL)
        stated = opening("a", parent="wards", epsilon=2.0)

        def both(t: Transaction) -> tuple[AccountChange, AccountChange]:
            ledger, wards = books.ledger, books.ledger.account(t, "wards")
            one = ledger.open(t, stated, caller="custodian")
            return one, ledger.open_child(t, wards, "b", caller="custodian")

        one, other = books.storage.submit(both)
        name: dict[str, Any] = {"name": "b"}
        assert replace(other.account, opened=one.account.opened) == replace(one.account, **name)
        assert (other.cost, other.period, other.alerts) == (one.cost, one.period, one.alerts)
        for table, key in ((ACCOUNTS, "name"), (BALANCES, "account"), (CHILDREN, "child")):
            rows = books.storage.submit(lambda t, table=table: t.scan(table))  # type: ignore[misc]
            (first,) = [row for row in rows if getattr(row, key) == "a"]
            (second,) = [row for row in rows if getattr(row, key) == "b"]
            own = {each: getattr(second, each) for each in ("terms", "opened")
                   if each in second._fields}  # fmt: skip
            assert second == first._replace(**{key: "b"}, **own)
        first, second = books.storage.submit(lambda t: t.scan(ENTRIES, "clinic"))[-2:]
        assert second == first._replace(number=second.number, account="b", time=second.time)
        books.charge("b", Zcdp(0.01))
        assert books.spent("clinic") == pytest.approx(books.spent("b"))
        assert books.problems() == []

    def test_such_a_child_is_refused_where_any_other_is(self, books: Books) -> None:
        books.open("clinic")
        books.open("plan", parent="clinic", epsilon=0.5, spending=PlannedSpending((CHEAP,)))

        def open_below(parent: str, name: str, caller: str = "custodian") -> None:
            def command(t: Transaction) -> None:
                above = books.ledger.account(t, parent)
                books.ledger.open_child(t, above, name, caller=caller)

            books.storage.submit(command)

        open_below("clinic", "a")
        for given, error in (
            (("clinic", "a"), "already"),
            (("clinic", ""), "name must be"),
            (("clinic", "x" * 101), "name must be"),
            (("plan", "b"), "fixed plan"),
            (("clinic", "b", " "), "caller must be"),
        ):
            with pytest.raises((InvalidInput, Refused), match=error):
                open_below(*given)
        deep = "a"
        for number in range(20):
            try:
                open_below(deep, f"below {number}")
            except InvalidInput as refused:
                assert "deep" in str(refused)  # noqa: PT017
                break
            deep = f"below {number}"
        else:
            pytest.fail("nested without end")
        assert books.problems() == []

    def test_the_first_child_is_remembered_and_never_out_of_date(self, books: Books) -> None:
        def first(t: Transaction, after: str = "c/") -> str | None:
            return books.ledger.first_child(t, "clinic", after=after)

        def opened(t: Transaction, name: str) -> str | None:
            first(t)
            above = books.ledger.account(t, "clinic")
            books.ledger.open_child(t, above, name, caller="custodian")
            return first(t)

        books.open("clinic")
        assert books.storage.submit(first) is None
        for name, expected in (("c/5", "c/5"), ("c/7", "c/5"), ("b", "c/5"), ("c/3", "c/3")):
            assert books.storage.submit(partial(opened, name=name)) == expected
            assert books.storage.submit(first) == expected
        assert books.storage.submit(partial(first, after="c/5")) == "c/7"

        def undone(t: Transaction) -> None:
            assert opened(t, "c/1") == "c/1"
            raise RuntimeError

        with pytest.raises(RuntimeError):
            books.storage.submit(undone)
        assert books.storage.submit(first) == "c/3"

    def test_limits_of_analysts_hold_together_below_the_root(self, books: Books) -> None:
        books.open("clinic", epsilon=1.0)
        for name in ("ada", "grace"):
            books.open(name, parent="clinic", epsilon=0.9)
        event = Gaussian(10.0)
        total = fill(books, "ada", event) + fill(books, "grace", event)
        assert total == ZeroConcentratedFilter(1.0, 1e-5).how_many(event)

    def test_readings_know_what_limits_an_account(self, books: Books) -> None:
        books.open("clinic", epsilon=0.5)
        books.open("ada", parent="clinic", epsilon=2.0)
        books.charge("ada", Gaussian(30.0))
        left = books.ask(remaining, "ada")
        assert left.limited_by == "clinic"
        assert left.available < left.share


class TestPlans:
    EVENTS = (Repeated(Gaussian(20.0), 3), Laplace(30.0))

    def test_only_parts_that_are_left_are_granted(self, books: Books) -> None:
        books.open(spending=PlannedSpending(self.EVENTS))
        books.charge(event=Laplace(30.0))
        books.charge(event=Gaussian(20.0))
        books.charge(event=Repeated(Gaussian(20.0), 2))
        for event in (Laplace(30.0), Gaussian(20.0), Gaussian(21.0)):
            with pytest.raises(
                BudgetExceeded, match="account 'clinic' was opened for a fixed list"
            ):
                books.charge(event=event)
        assert books.problems() == []

    def test_a_composed_charge_is_taken_whole_or_not_at_all(self, books: Books) -> None:
        books.open(spending=PlannedSpending(self.EVENTS))
        with pytest.raises(BudgetExceeded):
            books.charge(event=Composed((Laplace(30.0), Gaussian(21.0))))
        books.charge(event=Composed((Laplace(30.0), Gaussian(20.0))))

    def test_a_plan_beyond_its_total_is_not_opened(self, books: Books) -> None:
        with pytest.raises(BudgetExceeded, match="this plan needs"):
            books.open(spending=PlannedSpending((Repeated(Gaussian(2.0), 30),)))
        books.open()

    def test_it_is_charged_whole_to_the_filter_above(self, books: Books) -> None:
        books.open("clinic")
        books.open("study", parent="clinic", spending=PlannedSpending(self.EVENTS))
        paid = books.spent("clinic")
        assert paid[0] == pytest.approx(3 / 800 + 1 / 1800)
        books.charge("study", Gaussian(20.0))
        assert books.spent("clinic") == paid
        assert books.problems() == []

    def test_a_filter_that_cannot_afford_the_plan_refuses_it(self, books: Books) -> None:
        books.open("clinic", epsilon=0.1)
        with pytest.raises(BudgetExceeded, match="is left in account 'clinic'"):
            books.open("study", parent="clinic", spending=PlannedSpending(self.EVENTS))
        with pytest.raises(InvalidInput, match="no account"):
            books.charge("study", Gaussian(20.0))
        assert books.problems() == []

    def test_the_filters_measure_must_hold_the_plan(self, books: Books) -> None:
        books.open("clinic")
        with pytest.raises(Refused, match="no finite rho"):
            books.open("study", parent="clinic", spending=PlannedSpending((Repeated(SAMPLED, 3),)))

    def test_nothing_is_opened_below_a_plan(self, books: Books) -> None:
        books.open("clinic", spending=PlannedSpending(self.EVENTS))
        with pytest.raises(Refused, match="is a fixed plan"):
            books.open("ada", parent="clinic")

    def test_plans_side_by_side_cost_the_larger_one(self, books: Books) -> None:
        books.open("clinic", children=Children.PARALLEL)
        books.open("north", parent="clinic", spending=PlannedSpending((Gaussian(10.0),)))
        books.open("south", parent="clinic", spending=PlannedSpending((Gaussian(20.0),)))
        assert books.spent("clinic")[0] == pytest.approx(1 / 200)
        assert books.problems() == []

    def test_a_renewed_plan_is_paid_for_again(self, books: Books) -> None:
        books.open("clinic")
        books.open("study", parent="clinic", spending=PlannedSpending(self.EVENTS))
        books.charge("study", Laplace(30.0))
        paid = books.spent("clinic")[0]
        books.renew("study")
        assert books.spent("clinic")[0] == pytest.approx(2 * paid)
        books.charge("study", Laplace(30.0))
        assert books.problems() == []


class TestRenewal:
    def test_it_needs_a_reason_and_a_name(self, books: Books) -> None:
        books.open()
        for reason, caller in (("", "custodian"), ("new cohort", "")):
            with pytest.raises(InvalidInput):
                books.storage.submit(
                    lambda t, r=reason, c=caller: books.ledger.renew(  # type: ignore[misc]
                        t, "clinic", reason=r, caller=c
                    )
                )

    def test_a_new_period_for_the_account_and_all_below(self, books: Books) -> None:
        clinic_tree(books)
        books.charge("north", Zcdp(0.01))
        books.charge("research", Zcdp(0.01))
        books.renew("wards")
        assert not any(books.spent("wards") + books.spent("north"))
        assert books.spent("clinic")[0] == pytest.approx(0.02)
        entry = books.storage.submit(lambda t: t.scan(ENTRIES, "clinic"))[-1]
        assert (entry.act, entry.account, entry.period) == ("renewed", "wards", 1)
        assert entry.purpose == "a new year"
        assert books.problems() == []

    def test_accounts_above_go_on_counting(self, books: Books) -> None:
        books.open("clinic", epsilon=1.0)
        books.open("ada", parent="clinic", epsilon=1.0)
        event = Gaussian(10.0)
        granted = fill(books, "ada", event)
        books.renew("ada")
        assert granted > 0
        assert fill(books, "ada", event) == 0

    def test_a_ward_that_is_renewed_does_not_forget_what_the_wards_paid(self, books: Books) -> None:
        books.open("clinic", children=Children.PARALLEL)
        books.open("north", parent="clinic")
        event = Gaussian(10.0)
        assert fill(books, "north", event) > 0
        books.renew("north")
        assert fill(books, "north", event) == 0

    def test_after_a_renewal_the_peaks_of_the_old_period_hide_nothing(self, books: Books) -> None:
        """South spends below north's old peak: in the new period it still costs the root."""
        books.open("clinic")
        books.open("wards", parent="clinic", children=Children.PARALLEL)
        books.open("north", parent="wards")
        books.open("south", parent="wards")
        books.charge("north", Zcdp(0.015))
        books.renew("clinic")
        books.charge("south", Zcdp(0.01))
        assert books.spent("clinic")[0] == pytest.approx(0.01)
        assert books.problems() == []


class TestAlerts:
    def test_each_threshold_once(self, books: Books) -> None:
        books.open()
        budget = ZeroConcentratedFilter(1.0, 1e-5).budget
        said = [
            alert.threshold
            for _ in range(99)
            for alert in books.charge(event=Zcdp(budget / 100)).alerts
        ]
        assert said == [50, 75, 90]
        rows = books.storage.submit(lambda t: t.scan(ALERTS, "clinic"))
        assert [(row.threshold, row.number) for row in rows] == [(50, 50), (75, 75), (90, 90)]

    def test_one_large_charge_reaches_several(self, books: Books) -> None:
        books.open()
        budget = ZeroConcentratedFilter(1.0, 1e-5).budget
        alerts = books.charge(event=Zcdp(0.95 * budget)).alerts
        assert [alert.threshold for alert in alerts] == [50, 75, 90]
        assert "CRITICAL" in str(alerts[-1])

    def test_all_accounts_on_the_path_and_anew_after_a_renewal(self, books: Books) -> None:
        books.open("clinic", epsilon=1.0)
        books.open("ada", parent="clinic", epsilon=1.0)
        budget = ZeroConcentratedFilter(1.0, 1e-5).budget
        first = books.charge("ada", Zcdp(0.6 * budget)).alerts
        assert [(a.account, a.threshold) for a in first] == [("ada", 50), ("clinic", 50)]
        books.renew("clinic")
        again = books.charge("ada", Zcdp(0.6 * budget)).alerts
        assert [(a.account, a.period) for a in again] == [("ada", 1), ("clinic", 1)]

    def test_a_refused_charge_alerts_nobody(self, books: Books) -> None:
        books.open("clinic", epsilon=0.1)
        books.open("ada", parent="clinic", epsilon=1.0)
        with pytest.raises(BudgetExceeded):
            books.charge("ada", Gaussian(5.0))
        assert books.storage.submit(lambda t: t.scan(ALERTS)) == []


def question(**changes: object) -> Question:
    given: dict[str, object] = {
        "account": "clinic",
        "model": "sha256:1",
        "explainer": "interventional",
        "level": "detailed",
        "parameters": '{"rows":100}',
        "about": PublicInput(b"row 1"),
    }
    return Question(**(given | changes))  # type: ignore[arg-type]


def settle(
    books: Books,
    asked_: Question,
    answer: bytes,
    *,
    caller: str = "ada",
    fresh: bool = False,
    **changes: object,
) -> ChargedAnswer:
    def command(t: Transaction) -> ChargedAnswer:
        account = books.ledger.account(t, asked_.account)
        asked = KEY.digest_question(asked_, account, caller)
        request: Charge = charge(
            asked_.account,
            query=asked.digest,
            caller=caller,
            protected=account.protected,
            **changes,  # type: ignore[arg-type]
        )
        return books.ledger.settle(t, request, asked, answer, fresh=fresh)

    return books.storage.submit(command)


class TestReplay:
    def test_the_same_question_has_the_same_answer_at_no_cost(self, books: Books) -> None:
        books.open()
        first = settle(books, question(), b"one")
        spent = books.spent("clinic")
        again = settle(books, question(), b"two", caller="grace")
        assert (first.answer, first.replayed) == (b"one", False)
        assert (again.answer, again.replayed) == (b"one", True)
        assert again.charge == first.charge == "clinic#1"
        assert books.spent("clinic") == spent

    @pytest.mark.parametrize(
        "changes",
        [
            {"model": "sha256:2"},
            {"explainer": "other"},
            {"level": "summary"},
            {"parameters": '{"rows":101}'},
            {"about": PublicInput(b"row 2")},
            {"about": NamedRecord("row 1", DATASET)},
        ],
        ids=["model", "explainer", "level", "parameters", "input", "record"],
    )
    def test_another_question_is_charged(self, books: Books, changes: dict[str, object]) -> None:
        books.open()
        settle(books, question(), b"one")
        assert settle(books, question(**changes), b"two").answer == b"two"

    def test_fresh_noise_must_be_asked_for_and_is_charged(self, books: Books) -> None:
        books.open()
        settle(books, question(), b"one")
        fresh = settle(books, question(), b"two", fresh=True)
        assert (fresh.answer, fresh.charge) == (b"two", "clinic#2")
        assert settle(books, question(), b"three").answer == b"two"
        assert len(books.storage.submit(lambda t: t.scan(ANSWERS))) == 2

    @pytest.mark.parametrize("unit", [ProtectedUnit.EXPLAINED_ROW, ProtectedUnit.USER])
    def test_two_people_with_equal_features_get_independent_noise(
        self, books: Books, unit: ProtectedUnit
    ) -> None:
        """The rows are equal, their names are not: both are charged, whatever the values are."""
        books.open(unit=unit, relation=Relation.REPLACE_ONE)
        for number, person in enumerate(("patient 1", "patient 2"), start=1):
            about = NamedRecord(person, DATASET)
            settled = settle(books, question(about=about), f"noise {person}".encode())
            assert settled.answer == f"noise {person}".encode()
            assert settled.charge == f"clinic#{number}"

    @pytest.mark.parametrize("unit", [ProtectedUnit.EXPLAINED_ROW, ProtectedUnit.USER])
    def test_for_people_replay_is_scoped_to_the_caller(
        self, books: Books, unit: ProtectedUnit
    ) -> None:
        books.open(unit=unit, relation=Relation.REPLACE_ONE)
        asked = question(about=NamedRecord("patient 1", DATASET))
        settle(books, asked, b"for ada")
        assert settle(books, asked, b"again", caller="ada").answer == b"for ada"
        assert settle(books, asked, b"for grace", caller="grace").answer == b"for grace"

    @pytest.mark.parametrize("about", [None, PublicInput(b"the values of a row")])
    def test_values_never_name_a_person(self, books: Books, about: PublicInput | None) -> None:
        books.open(unit=ProtectedUnit.EXPLAINED_ROW, relation=Relation.REPLACE_ONE)
        settle(books, question(about=about), b"one")
        assert settle(books, question(about=about), b"two").answer == b"two"

    @pytest.mark.parametrize("unit", [ProtectedUnit.ROW, ProtectedUnit.USER])
    def test_what_all_records_make_together_is_recognised_whoever_asks(
        self, books: Books, unit: ProtectedUnit
    ) -> None:
        books.open(unit=unit, relation=Relation.REPLACE_ONE)
        asked = question(about=WholeDataset(b"popularity of items"))
        settle(books, asked, b"one")
        assert settle(books, asked, b"two", caller="grace").answer == b"one"

    def test_a_record_of_another_version_is_not_of_this_account(self, books: Books) -> None:
        books.open()
        with pytest.raises(InvalidInput, match="the record is of"):
            settle(books, question(about=NamedRecord("patient 1", "clinic v0")), b"")

    def test_a_refused_question_keeps_no_answer(self, books: Books) -> None:
        books.open(epsilon=0.1)
        with pytest.raises(BudgetExceeded):
            settle(books, question(), b"one", event=Gaussian(1.0))
        assert books.storage.submit(lambda t: t.scan(ANSWERS)) == []

    def test_what_was_answered_is_answered_for_ever(self, books: Books) -> None:
        books.open()
        settle(books, question(), b"one")
        fill(books, "clinic", CHEAP)
        books.renew("clinic")
        assert settle(books, question(), b"two").answer == b"one"

    def test_a_charge_for_another_question_is_refused(self, books: Books) -> None:
        books.open()
        account = books.storage.submit(lambda t: books.ledger.account(t, "clinic"))
        asked = KEY.digest_question(question(), account, "ada")
        for request in (charge(), charge(query=asked.digest, caller="eve")):
            with pytest.raises(InvalidInput, match="not for the question"):
                books.storage.submit(
                    lambda t, r=request: books.ledger.settle(t, r, asked, b"")  # type: ignore[misc]
                )


def test_populations_stay_in_the_ledger_as_keyed_digests(books: Books) -> None:
    books.open()
    books.charge(population=KEY.records(["p1", "p2", "p1"], DATASET))
    (row,) = books.storage.submit(lambda t: t.scan(POPULATIONS))
    assert (row.root, row.number, len(row.records)) == ("clinic", 1, 32)
    entry = books.storage.submit(lambda t: t.scan(ENTRIES, "clinic"))[-1]
    assert entry.population == 2
    assert b"p1" not in row.records


def test_an_undone_opening_is_not_remembered(books: Books) -> None:
    """The ledger remembers terms; an opening that was undone must not be among them."""

    def open_and_fail(t: Transaction) -> None:
        books.ledger.open(t, opening(epsilon=100.0), caller="x")
        books.ledger.charge(t, charge())
        raise RuntimeError

    with pytest.raises(RuntimeError):
        books.storage.submit(open_and_fail)
    books.open(epsilon=0.1)
    with pytest.raises(BudgetExceeded):
        books.charge(event=Gaussian(1.0))


def test_running_sums_are_those_in_the_database_whoever_wrote_them(books: Books) -> None:
    """A ledger remembers sums it wrote; here another one writes in between, and one is undone."""
    alone, other = Books.memory(), Ledger(books.clock)
    for each in (books, alone):
        each.open(epsilon=5.0)

    def undone(t: Transaction) -> None:
        books.ledger.charge(t, charge())
        raise RuntimeError

    for _ in range(4):
        with pytest.raises(RuntimeError):
            books.storage.submit(undone)
        books.charge()
        books.storage.submit(lambda t: other.charge(t, charge()))
        alone.charge()
        alone.charge()
        assert books.spent("clinic") == alone.spent("clinic")
        assert books.problems() == []


# --- other terms for an account that was never used -----------------------------------------------


def reopen(books: Books, name: str = "clinic", **changes: Any) -> None:
    asked = opening(name, **changes)
    books.storage.submit(lambda t: books.ledger.reopen(t, asked, caller="custodian"))


def checked(books: Books) -> list[str]:
    return books.storage.submit(lambda t: check_journal(t, books.ledger.nodes(t)))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (AdaptiveSpending(), PlannedSpending((CHEAP, CHEAP))),
        (PlannedSpending((CHEAP, Laplace(50.0))), PlannedSpending((CHEAP, CHEAP, Laplace(60.0)))),
        (PlannedSpending((CHEAP,)), AdaptiveSpending((32.0, 64.0))),
    ],
)
def test_an_unused_account_is_opened_again_under_other_terms(
    books: Books, first: Any, second: Any
) -> None:
    books.open(epsilon=3.0, spending=first)
    for epsilon in (2.0, 1.0):
        reopen(books, epsilon=epsilon, spending=second)
    fresh = Books.memory()
    fresh.open(epsilon=1.0, spending=second)
    assert fill(books, "clinic", CHEAP) == fill(fresh, "clinic", CHEAP) > 0
    assert books.storage.submit(lambda t: books.ledger.account(t, "clinic").epsilon) == 1.0
    assert checked(books) == []


def test_what_was_charged_renewed_or_has_accounts_below_keeps_its_terms(books: Books) -> None:
    books.open("charged", dataset="a")
    books.charge("charged", dataset="a")
    books.open("renewed", dataset="b")
    books.storage.submit(lambda t: books.ledger.renew(t, "renewed", reason="x", caller="x"))
    books.open("above", dataset="c")
    books.open("below", dataset="c", parent="above")
    books.open("fresh", dataset="d")
    for name, dataset in (("charged", "a"), ("renewed", "b"), ("above", "c"), ("below", "c")):
        with pytest.raises(Refused, match="cannot get new terms"):
            reopen(books, name, dataset=dataset, epsilon=9.0)
    for other in ({"dataset": "e"}, {"dataset": "d", "unit": ProtectedUnit.USER}):
        with pytest.raises(Refused, match="the same unit of the same data set"):
            reopen(books, "fresh", **other)
    with pytest.raises(InvalidInput, match="no account 'unknown'"):
        reopen(books, "unknown")
    assert checked(books) == []


def test_an_opening_in_the_middle_of_a_journal_is_noticed(books: Books) -> None:
    """Nobody gets rid of charges by a second opening."""
    books.open()
    reopen(books, epsilon=0.5)
    books.charge()
    first = books.storage.submit(lambda t: t.scan(ENTRIES, "clinic"))[0]
    books.storage.submit(lambda t: t.insert(ENTRIES, first._replace(number=3)))
    assert any("was opened twice" in each for each in checked(books))
