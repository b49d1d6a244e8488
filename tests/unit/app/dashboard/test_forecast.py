"""How a budget may go on, from how it went."""

from __future__ import annotations

import numpy as np
import pytest

from voile.app.dashboard.forecast import DAY, fan_of
from voile.records.ledger import RecentUse, SharePoint


def use(steps: list[float], days: float = 10.0, *, exact: bool = True) -> RecentUse:
    points = (SharePoint(0.0, 0.0), SharePoint(days * DAY, sum(steps)))
    return RecentUse(points, len(steps), tuple(steps), whole=True, exact=exact)


def test_a_steady_use_goes_on() -> None:
    fan = fan_of(use([0.02] * 20))
    assert fan is not None
    assert fan.daily == pytest.approx(0.04)
    assert fan.ends == pytest.approx(25 * DAY)
    assert fan.points[0].mean == pytest.approx(0.6)
    assert fan.points[0].low == fan.points[0].high == pytest.approx(0.6)
    assert all(each.low <= each.mean <= each.high for each in fan.points)
    widths = [each.high - each.low for each in fan.points[:6]]
    assert widths == sorted(widths)


def test_nothing_is_foretold_from_little() -> None:
    assert fan_of(use([0.1, 0.1])) is None
    assert fan_of(use([0.0, 0.0, 0.0])) is None
    assert fan_of(use([0.02] * 20, exact=False)) is None


def test_the_fan_holds_most_of_what_comes() -> None:
    """Simulated charges, as they are assumed to come: 95 of 100 lie within, up to the trial's own
    error (1,000 runs; a proportion below 0.91 would be 5.8 standard errors away)."""
    generator, rate, days = np.random.default_rng(7), 4.0, 5.0
    steps = list(generator.choice([0.002, 0.004], size=200))
    fan = fan_of(use(steps, days=50.0))
    assert fan is not None
    now = 1 - sum(steps)
    point = min(fan.points, key=lambda each: abs(each.time - (50 + days) * DAY))
    ahead = (point.time / DAY - 50.0) * rate
    ends = [
        now - float(np.sum(generator.choice(steps, size=generator.poisson(ahead))))
        for _ in range(1000)
    ]
    inside = np.mean([point.low <= each <= point.high for each in ends])
    assert inside > 0.91
