"""Whose budget a protected row is charged to: named records in parallel, unnamed ones to all."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.protecting import explained_row_of
from tests.unit.app.budget_examples import House
from tests.unit.app.explain.examples import (
    ROWS,
    SCHEMA,
    Costly,
    asking,
    balances,
    clipped,
    exact,
    house_in,
    people,
    records,
)
from tests.unit.records.ledger.examples import DATASET, KEY

from voile.app.explain.per_record import watched_records
from voile.core.errors import BudgetExceeded, InvalidInput
from voile.privacy.accounting.measures import plus
from voile.records.audit_log import BudgetOpenedRecord, RefusalRecord
from voile.records.ledger import AdaptiveSpending, NamedRecord, budget_report, remaining
from voile.records.ledger.tree import RunningTotals
from voile.release import PUBLIC, TopFeaturesOfRow

ORDER = AdaptiveSpending((40.0,))
"""Where pure epsilons are cheap: 1.4 fits into 2, twice 1.4 does not."""


@pytest.fixture
def house(tmp_path: Path) -> House:
    return house_in(tmp_path)


def top_one(epsilon: float = 1.4) -> Costly:
    release = TopFeaturesOfRow(
        exact(),
        schema=SCHEMA,
        k=1,
        epsilon=epsilon,
        protected=explained_row_of(DATASET),
        origins=(PUBLIC,),
        model="model v3",
        name="exact Shapley",
    )
    return Costly(release)  # type: ignore[arg-type]


def of_two(house: House, **changes: Any) -> None:
    people(house, epsilon=2.0, delta=1e-6, spending=ORDER, **changes)


def exact_delta_of_twice(epsilon: float, features: int, claimed: float) -> float:
    """Hockey-stick divergence of two answers by randomised response about one row."""
    right = math.exp(epsilon) / (math.exp(epsilon) + features - 1)
    wrong = right / math.exp(epsilon)
    odds = {(right, wrong): 1, (wrong, right): 1, (wrong, wrong): features - 2}
    return sum(
        n * m * max(0.0, p * r - math.exp(claimed) * q * s)
        for (p, q), n in odds.items()
        for (r, s), m in odds.items()
    )


def test_why_a_row_without_a_name_is_everybodys() -> None:
    """One person's row, once by name and once without: both granted would break the promise."""
    assert exact_delta_of_twice(1.4, features=12, claimed=2.0) == pytest.approx(0.040, abs=1e-3)


@pytest.mark.parametrize("names", [(["ada"], [None]), ([None], ["ada"]), ([None], [None])])
def test_a_row_without_a_name_may_be_that_of_somebody_named(
    house: House, names: tuple[list[str | None], list[str | None]]
) -> None:
    of_two(house)
    release = top_one()
    explain = asking(house, release, "people")
    first, second = names
    explain(ROWS[:1], identifiers=first)
    before = balances(house)
    with pytest.raises(BudgetExceeded):
        explain(ROWS[:1], identifiers=second)
    assert release.drawn == 1
    assert balances(house) == before
    assert isinstance(records(house)[-1], RefusalRecord)
    assert house.verify().verified


def test_different_names_still_pay_in_parallel(house: House) -> None:
    of_two(house)
    explained = asking(house, top_one(), "people")(ROWS, identifiers=["ada", "bob", "eve"])
    assert len(explained.charges) == 3
    assert house.verify().verified


@pytest.mark.parametrize("names", [[None, None], ["ada", None], [None, "ada"], ["ada", "bob", ""]])
def test_rows_of_one_call_are_added_up_before_anything_is_computed(
    house: House, names: list[str | None]
) -> None:
    of_two(house)
    release = top_one()
    before = balances(house)
    with pytest.raises(BudgetExceeded):
        asking(house, release, "people")(ROWS[: len(names)], identifiers=names)
    assert release.drawn == 0
    assert balances(house) == before  # no account was left behind
    assert sum(isinstance(each, BudgetOpenedRecord) for each in records(house)) == 1


def test_a_call_with_and_without_names_counts_both(house: House) -> None:
    """What everybody can have met is what has no name, plus the dearest record."""
    people(house, epsilon=30.0)
    asking(house, clipped(), "people")(ROWS, identifiers=["ada", None, "bob"])
    asking(house, clipped(), "people")(ROWS[:1], identifiers=["bob"], fresh=True)
    standing = RunningTotals.unpack(balances(house)["people"])
    below = [RunningTotals.unpack(s).spent for name, s in balances(house).items() if "/" in name]
    assert standing.peak == max(below)
    assert standing.spent == plus(standing.direct, standing.peak)
    assert min(standing.direct) > 0
    assert house.verify().verified


def test_reports_and_forecasts_count_rows_without_a_name(house: House) -> None:
    people(house, epsilon=6.0)
    explain = asking(house, clipped(), "people")
    explain(ROWS[:1], identifiers=["ada"])
    ledger = house.vault.ledger

    def spent() -> tuple[float, float]:
        report = house.storage.submit(lambda t: budget_report(ledger, t, "people"))
        assert report.epsilon_spent is not None
        assert report.basic_epsilon_spent is not None
        return report.epsilon_spent, report.basic_epsilon_spent

    named = spent()
    explain(ROWS[:1])
    both = spent()
    assert both[0] > 1.2 * named[0]
    assert both[1] > 1.9 * named[1]
    child = next(name for name in balances(house) if "/" in name)
    left = house.storage.submit(lambda t: remaining(ledger, t, child))
    assert left.limited_by == "people"  # direct spending leaves less for every child
    assert left.available < left.share


# --- who is who ----------------------------------------------------------------------------------

SPELLINGS = [7, 7.0, "7", " 7", "7 ", "7.0", "7.", np.int64(7), np.float32(7), "\ufeff7", "7\u200b"]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_one_person_has_one_budget_however_the_name_is_spelled(
    house: House, spelling: object
) -> None:
    of_two(house)
    explain = asking(house, top_one(), "people")
    explain(ROWS[:1], identifiers=[7])
    assert explain(ROWS[:1], identifiers=[spelling]).replayed
    with pytest.raises(BudgetExceeded):
        explain(ROWS[:1], identifiers=[spelling], fresh=True)


def test_what_cannot_name_anybody_is_refused_with_its_row(house: House) -> None:
    people(house)
    release = Costly(clipped())
    with pytest.raises(InvalidInput, match="row 2: an identifier is an integer or a text"):
        asking(house, release, "people")(ROWS[:2], identifiers=["ada", 7.5])
    assert release.drawn == 0


@given(st.text(max_size=8))
@settings(max_examples=50)
def test_a_record_cannot_be_named_but_canonically(text: str) -> None:
    try:
        once = NamedRecord(text, DATASET)
    except InvalidInput:
        return
    assert NamedRecord(f" {once.identifier}\t", DATASET) == once
    assert KEY.records([text], DATASET) == {KEY.record(once)}


def test_names_of_a_population_are_watched_where_they_can_be_read() -> None:
    """Its records are protected: what stands in one of them must not make anything fail."""
    found = watched_records(KEY, ["ada", " ada", None, 7, 7.0, 7.5, b"x", ""], DATASET)
    assert found == KEY.records(["ada", "7"], DATASET)
