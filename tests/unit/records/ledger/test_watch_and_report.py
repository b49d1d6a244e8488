"""The reconstruction watch, the risk levels, and the report."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from tests.support.budget_schema import SCHEMA
from tests.support.pages import budget_html
from tests.unit.records.ledger.examples import DATASET, KEY, Books, charge, clinic_tree

from voile.core.errors import BudgetExceeded
from voile.privacy.accounting import ZeroConcentrated, ZeroConcentratedFilter
from voile.privacy.events import Gaussian, PureDp, Repeated, Zcdp
from voile.records.ledger import (
    THRESHOLDS,
    BudgetReport,
    Children,
    PlannedSpending,
    Risk,
    budget_report,
    watch,
)
from voile.records.ledger.report import COLLUSION, FORMAT

TINY = Gaussian(1000.0)


@pytest.fixture
def books() -> Books:
    made = Books.memory()
    made.open()
    return made


def about(books: Books, people: range, caller: str = "ada", name: str = "q") -> None:
    digest = hashlib.sha256(f"{name}{people}{caller}".encode()).digest()
    records = KEY.records([f"p{n}" for n in people], DATASET)
    books.charge(event=TINY, caller=caller, query=digest, population=records)


def rules(books: Books) -> list[str]:
    return [finding.rule for finding in books.ask(watch, "clinic")]


class TestWatch:
    def test_populations_that_differ_by_few_records(self, books: Books) -> None:
        about(books, range(100))
        about(books, range(101), caller="grace")
        (finding,) = books.ask(watch, "clinic")
        assert finding.rule == "differencing"
        assert finding.callers == ("ada", "grace")
        assert "1 record" in finding.detail

    def test_equal_and_very_different_populations_are_no_differences(self, books: Books) -> None:
        about(books, range(100))
        about(books, range(100), name="another question")
        about(books, range(50, 150))
        assert rules(books) == []

    def test_many_questions_about_the_same_records(self, books: Books) -> None:
        for number in range(5):
            about(books, range(100), name=f"question {number}")
        assert rules(books) == ["overlap"]

    def test_the_same_questions_by_five_people_are_no_overlap(self, books: Books) -> None:
        for number in range(5):
            about(books, range(100), caller=f"analyst {number}")
        assert rules(books) == []

    def test_fast_consumption(self, books: Books) -> None:
        books.charge(event=Zcdp(0.01))
        assert rules(books) == ["exhaustion"]

    def test_slow_consumption_is_fine(self, books: Books) -> None:
        for number in range(10):
            books.charge(event=Zcdp(0.001), query=hashlib.sha256(bytes([number])).digest())
            books.clock.time += 86400
        assert rules(books) == []

    def test_one_question_over_and_over(self, books: Books) -> None:
        for _ in range(3):
            books.charge(event=TINY)
            books.clock.time += 86400
        assert rules(books) == ["averaging"]

    def test_it_never_causes_a_refusal(self) -> None:
        """A suspicious ledger and an innocent one grant the same, to the last charge."""
        granted = []
        for suspicious in (False, True):
            books = Books.memory()
            books.open()
            count = 0
            while True:
                people = (
                    range(100, 101 + count % 2) if suspicious else range(50 * count, 50 * count + 9)
                )
                records = KEY.records(map(str, people), DATASET)
                try:
                    books.charge(event=Gaussian(20.0), population=records)
                except BudgetExceeded:
                    break
                count += 1
            granted.append(count)
        assert granted[0] == granted[1] > 5


@pytest.mark.parametrize(
    ("share", "risk"),
    [(0, "LOW"), (0.4999, "LOW"), (0.5, "MEDIUM"), (0.75, "MEDIUM"), (0.7501, "HIGH"), (1, "HIGH")],
)
def test_risk_as_in_the_guide(share: float, risk: str) -> None:
    assert Risk.from_spending(share, 1.0, 1e-6) == risk
    assert Risk.from_spending(share, 100.0, 1e-6) is Risk.HIGH, "a promise that is close to none"
    assert Risk.from_spending(share, 1.0, 0.01) is Risk.HIGH


def report(books: Books, name: str = "clinic", **more: Any) -> BudgetReport:
    found = books.ask(budget_report, name, **more)
    jsonschema.validate(json.loads(json.dumps(found.to_dict(), allow_nan=False)), SCHEMA)
    return found  # type: ignore[no-any-return]


class TestReport:
    def test_an_empty_account(self, books: Books) -> None:
        found = report(books)
        assert (found.risk, found.charges, found.consumed) == (Risk.LOW, 0, 0.0)
        assert found.basic_epsilon_spent == 0.0
        assert found.advice == ("Nothing to do: less than half of the budget is used.",)

    def test_basic_and_own_composition(self, books: Books) -> None:
        for _ in range(20):
            books.charge(event=PureDp(0.03))
        found = report(books)
        assert found.basic_epsilon_spent == pytest.approx(0.6)
        own = ZeroConcentrated().compose(PureDp(0.03), 20).epsilon(1e-5)
        assert found.epsilon_spent == pytest.approx(own)

    def test_parallel_accounts_are_parallel_under_basic_composition_too(self) -> None:
        books = Books.memory()
        clinic_tree(books)
        for name, times in (("north", 3), ("south", 5), ("research", 2)):
            for _ in range(times):
                books.charge(name, PureDp(0.01))
        assert report(books).basic_epsilon_spent == pytest.approx(0.07)
        assert report(books, "wards").basic_epsilon_spent == pytest.approx(0.05)

    def test_the_lifetime_is_composed_over_all_renewals(self, books: Books) -> None:
        for _ in range(3):
            for _ in range(10):
                books.charge(event=PureDp(0.05))
            books.renew("clinic")
        found = report(books)
        assert found.epsilon_spent == 0.0
        assert found.lifetime.periods == 4
        assert found.lifetime.basic_epsilon == pytest.approx(1.5)
        whole = ZeroConcentrated().compose(PureDp(0.05), 30).epsilon(1e-5)
        assert found.lifetime.epsilon == pytest.approx(whole)
        assert found.lifetime.promised_epsilon == 4.0

    def test_a_plan_below_counts_when_it_is_paid(self, books: Books) -> None:
        plan = PlannedSpending((Repeated(PureDp(0.02), 3),))
        books.open("study", parent="clinic", spending=plan)
        books.charge("study", PureDp(0.02))
        assert report(books).basic_epsilon_spent == pytest.approx(0.06)
        assert report(books, "study").consumed == pytest.approx(1 / 3)
        assert report(books, "study").curve[-1].share == pytest.approx(1 / 3)

    def test_the_curve_ends_where_the_account_stands(self, books: Books) -> None:
        for _ in range(8):
            books.charge()
        found = report(books)
        assert [point.share for point in found.curve] == sorted(p.share for p in found.curve)
        assert found.curve[-1].share == pytest.approx(found.consumed)

    def test_what_must_be_true_besides_is_said(self) -> None:
        books = Books.memory()
        clinic_tree(books)
        said = report(books).assumptions
        assert COLLUSION in said
        assert any("'wards' are charged in parallel" in line for line in said)

    def test_advice_lowers_risk(self, books: Books) -> None:
        budget = ZeroConcentratedFilter(1.0, 1e-5).budget
        books.charge(event=Zcdp(0.9 * budget))
        found = report(books)
        assert found.risk is Risk.HIGH
        assert len(found.advice) >= 4
        assert not any("ncrease" in line for line in found.advice)

    def test_names_are_escaped_on_the_page(self) -> None:
        books = Books.memory()
        books.open("<b>clinic</b>", children=Children.PARALLEL)
        page = budget_html(report(books, "<b>clinic</b>", custodian=True))
        assert "<b>clinic" not in page
        assert "&lt;b&gt;clinic" in page


def test_the_published_schema_knows_all_that_a_report_may_say() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    said = SCHEMA["properties"]
    assert said["format"] == {"const": FORMAT}
    assert said["risk"] == {"enum": [risk.value for risk in Risk]}
    assert said["children"] == {"enum": [kind.value for kind in Children]}
    assert said["alerts"]["items"]["properties"]["threshold"] == {"enum": list(THRESHOLDS)}
    assert not SCHEMA["additionalProperties"]
    assert charge().account == "clinic"
