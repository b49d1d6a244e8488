"""What a journal says about an account, however long it is."""

from __future__ import annotations

from itertools import pairwise

import pytest
from tests.unit.records.ledger.examples import Books, clinic_tree, opening

from voile.core.guarantee import SMALLEST_DELTA
from voile.privacy.events import Gaussian
from voile.records.ledger import Children, PlannedSpending, budget_report
from voile.records.ledger.history import MOST_POINTS

TINY = Gaussian(2000.0)


@pytest.fixture
def books() -> Books:
    return Books.memory()


@pytest.mark.parametrize("charges", [1, MOST_POINTS, 2 * MOST_POINTS + 1, 5 * MOST_POINTS])
def test_a_curve_is_thinned_out_evenly_and_keeps_its_ends(books: Books, charges: int) -> None:
    books.open("clinic", epsilon=100.0)
    for _ in range(charges):
        books.charge(event=TINY)
    found = books.ask(budget_report, "clinic")
    assert found.charges == charges
    curve = found.curve
    assert len(curve) <= MOST_POINTS + 1
    assert (curve[0].share, curve[0].act) == (0.0, "opened")
    assert curve[-1].share == pytest.approx(found.consumed)
    gaps = {round(later.time - one.time) for one, later in pairwise(curve[1:-1])}
    assert len(gaps) <= 1  # the clock of the tests ticks once a charge


def test_a_renewal_above_starts_the_period_anew_and_the_lifetime_goes_on(books: Books) -> None:
    clinic_tree(books)
    for _ in range(3):
        books.charge("north", TINY)
        books.charge("research", TINY)
    books.renew("clinic")
    books.charge("north", TINY)
    found = books.ask(budget_report, "north")
    assert found.charges == 1
    assert found.lifetime.basic_epsilon > 3 * found.basic_epsilon_spent
    assert found.lifetime.epsilon > found.epsilon_spent
    assert books.ask(budget_report, "clinic").charges == 1


def test_a_plan_that_runs_again_is_paid_again_over_the_lifetime(books: Books) -> None:
    books.open("clinic", epsilon=3.0)
    books.open("study", parent="clinic", epsilon=1.0, spending=PlannedSpending((Gaussian(40.0),)))
    once = books.ask(budget_report, "clinic").lifetime
    books.renew("study")
    twice = books.ask(budget_report, "clinic").lifetime
    books.renew("clinic")
    assert books.ask(budget_report, "clinic").lifetime.epsilon == twice.epsilon
    assert twice.epsilon > 1.3 * once.epsilon  # about the square root of two
    assert twice.basic_epsilon > 1.9 * once.basic_epsilon


def test_many_accounts_below_are_one_parallel_step(books: Books) -> None:
    books.open("records", epsilon=3.0, children=Children.PARALLEL)
    for number in range(300):
        books.open(f"record {number}", parent="records", epsilon=1.0)
        books.charge(f"record {number}", TINY)
    whole = books.ask(budget_report, "records")
    one = books.ask(budget_report, "record 7")
    assert whole.charges == 300
    assert whole.basic_epsilon_spent == pytest.approx(one.basic_epsilon_spent)


def test_an_account_promises_no_delta_below_the_smallest() -> None:
    assert opening(delta=5e-324).delta == SMALLEST_DELTA
