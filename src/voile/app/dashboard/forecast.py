"""How fast a budget is used, and how far it may be used by when.

Charges come one by one and each takes its share. If they keep coming as they came (a compound
Poisson process), the share used after a time has a known mean and variance: both grow with the
time, by the rate of the charges, their mean and the mean of their squares. The fan is that mean,
with two and with one standard deviation beside it. A forecast, and no promise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from voile.records.ledger import RecentUse

DAY: Final = 86_400.0
_STEPS: Final = 24
_FURTHEST: Final = 400.0
"""Days that are looked ahead at most."""


@dataclass(frozen=True)
class FanPoint:
    """What may be left at a moment: the mean, and around it."""

    time: float
    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Fan:
    """What may be left of a budget.

    Args:
        points: from now on; low and high are two standard deviations away.
        daily: share of the budget that a day takes.
        ends: when it is used up, at this rate; None if that is out of sight.
    """

    points: tuple[FanPoint, ...]
    daily: float
    ends: float | None


def fan_of(use: RecentUse) -> Fan | None:
    """From the charges that are known; None where too few are."""
    now = use.points[-1]
    seconds = now.time - use.points[0].time
    if not use.exact or use.charges < 3 or seconds <= 0 or sum(use.steps) <= 0:
        return None
    rate = sum(use.steps) / seconds
    square = sum(step * step for step in use.steps) / seconds
    left = 1 - now.share
    until = min(left / rate, max(seconds, DAY), _FURTHEST * DAY) if left > 0 else 0.0
    points = []
    for step in range(_STEPS + 1):
        ahead = until * step / _STEPS
        mean, spread = left - rate * ahead, 2 * math.sqrt(square * ahead)
        points.append(
            FanPoint(now.time + ahead, *(_share(mean + each) for each in (0, -spread, spread)))
        )
    ends = now.time + left / rate
    return Fan(tuple(points), rate * DAY, ends if ends - now.time < _FURTHEST * DAY else None)


def _share(value: float) -> float:
    return min(1.0, max(0.0, value))
