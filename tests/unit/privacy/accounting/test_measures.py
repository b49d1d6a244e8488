"""What a refusal says about a budget, in the account's own measure."""

from __future__ import annotations

import re

import pytest

from voile.privacy.accounting.measures import Measure, Sums, describe_shortfall, plus

MEASURES = [Measure(), Measure((14.0,)), Measure((4.0, 16.0, 64.0))]
DELTA = 1e-5


def figures(said: str) -> tuple[float, float]:
    found = re.fullmatch(
        r"Budget exceeded: this release needs epsilon = (\S+), and (\S+) is left", said
    )
    assert found is not None, said
    return float(found[1]), float(found[2])


@pytest.mark.parametrize("measure", MEASURES, ids=lambda measure: measure.name)
@pytest.mark.parametrize("promise", [0.3, 1.0, 8.0])
@pytest.mark.parametrize("used", [0.0, 0.37, 0.9, 0.999999])
@pytest.mark.parametrize("more", [1e-9, 1e-3, 0.5, 40.0])
def test_no_need_is_understated_and_no_rest_overstated(
    measure: Measure, promise: float, used: float, more: float
) -> None:
    budgets = measure.budgets(promise, DELTA)
    before: Sums = tuple(used * max(each, 0.0) for each in budgets)
    left: Sums = tuple(max(all_ - own, 0.0) for own, all_ in zip(before, budgets, strict=True))
    cost: Sums = tuple(each * (1 + more) + 1e-12 for each in left)
    assert all(a > b for a, b in zip(plus(before, cost), budgets, strict=True)), "it does not fit"
    need, rest = figures(describe_shortfall(measure, cost, before, budgets, DELTA))
    assert need >= measure.epsilon(cost, DELTA)
    assert need == pytest.approx(measure.epsilon(cost, DELTA), rel=0.01)
    assert rest <= measure.epsilon(left, DELTA)
    assert rest == pytest.approx(measure.epsilon(left, DELTA), rel=0.01)
    assert need > rest, "two figures that differ do not look alike"


def test_a_budget_that_is_used_up_has_nothing_left() -> None:
    budgets = Measure().budgets(1.0, DELTA)
    said = describe_shortfall(Measure(), (0.01,), budgets, budgets, DELTA)
    assert figures(said)[1] == 0
