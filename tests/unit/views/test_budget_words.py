"""What people read about an account: nothing that means nothing, and why two figures differ."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.budget_schema import SCHEMA
from tests.support.pages import budget_html
from tests.unit.app.budget_examples import House

from voile.privacy.events import Gaussian, Repeated, Zcdp
from voile.records.ledger import BudgetReport, PlannedSpending, budget_report
from voile.views.text import summary, two_readings


def report_on(house: House, name: str) -> BudgetReport:
    return house.storage.submit(lambda t: budget_report(house.vault.ledger, t, name))


def planned(folder: Path, used: int) -> BudgetReport:
    house = House.create("memory:", folder)
    house.open("study", epsilon=2.0, spending=PlannedSpending((Repeated(Gaussian(10.0), 3),)))
    for number in range(used):
        house.answer(f"part {number}", account="study", event=Gaussian(10.0))
    return report_on(house, "study")


def test_a_plan_says_how_much_of_it_is_used_and_nothing_that_means_nothing(tmp_path: Path) -> None:
    found = planned(tmp_path, 1)
    lines = dict(summary(found))
    assert lines["parts of the plan used"] == "1 of 3"
    assert lines["the whole plan amounts to"].startswith("at most ε = 2, δ = ")
    assert lines["used up"] == "no: 2 to come, and nothing else fits"
    page = budget_html(found)
    assert "1 of 3 parts of the plan are used.</p>" in page
    for senseless in ("no such reading", "basic composition", "limited to", "not in sight"):
        assert senseless not in page + str(lines)
    assert "plan" not in found.to_dict()
    assert set(found.to_dict()) == set(SCHEMA["properties"])


def test_a_plan_that_is_used_up_is_not_advised_to_save(tmp_path: Path) -> None:
    found = planned(tmp_path, 3)
    assert dict(summary(found))["used up"] == "all of it"
    (advice,) = found.advice
    assert "counted as a whole" in advice
    assert two_readings(found) == ""


def charged(folder: Path, rho: float, **opened: Any) -> BudgetReport:
    house = House.create("memory:", folder)
    house.open("clinic", epsilon=2.0, **opened)
    house.answer("row 1", account="clinic", event=Zcdp(rho))
    return report_on(house, "clinic")


def test_a_share_of_the_budget_and_a_share_of_epsilon_are_put_together(tmp_path: Path) -> None:
    found = charged(tmp_path, 0.005)
    said = two_readings(found)
    assert f"{found.consumed:.1%} of the budget and ε = " in said
    assert "both are right" in said
    assert "a quarter" in said
    assert said.replace("'", "&#39;") in budget_html(found)
    assert dict(summary(found))["left"] == f"{1 - found.consumed:.1%}"


def test_a_filter_that_is_used_up_is_used_up(tmp_path: Path) -> None:
    house = House.create("memory:", tmp_path)
    house.open("clinic", epsilon=2.0)
    (budget,) = house.storage.submit(lambda t: house.vault.ledger.node(t, "clinic").account.budgets)
    house.answer("row 1", account="clinic", event=Zcdp(budget * (1 - 1e-9)))
    found = report_on(house, "clinic")
    assert f"{found.consumed:.1%}" == "100.0%"
    assert dict(summary(found))["used up"] == "all of it"
    assert two_readings(found) == ""
