"""Policies that propose how much to spend on the next answer.

A policy proposes an epsilon or an event for the next query from public facts (how many asked when,
which kind of query, what is left). It only proposes: the account decides, and no policy can
overspend it.

- `FixedEvent`: the same event for every query, until the account refuses.
- `UniformOverHorizon`: an equal share of the budget for each of a number of queries.
- `DynamicAllocation`: Algorithm 2 of the recommender framework, as published.
- `EqualVariance`: ours; see the class.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from voile.core.errors import InvalidInput
from voile.privacy.accounting import ZeroConcentratedFilter
from voile.privacy.allocation import HOUR, PublishedAllocation, Query, hour_of
from voile.privacy.events import Gaussian, PrivacyEvent

DAY: Final = 24 * HOUR
_LATEST: Final = 300


@dataclass(frozen=True)
class Situation:
    """A query, the ones before it (the latest last), and where the account stands."""

    query: Query
    history: Sequence[Query]
    account: ZeroConcentratedFilter


class AllocationPolicy(Protocol):
    """Proposes what to spend on a query, given the ones before it and what is left."""

    def propose(self, situation: Situation) -> PrivacyEvent | None:
        """An event, or None if the policy would rather not answer."""


@dataclass(frozen=True)
class FixedEvent:
    """The same event for every query."""

    event: PrivacyEvent

    def propose(self, situation: Situation) -> PrivacyEvent | None:
        return self.event if situation.account.fits(self.event) else None


@dataclass(frozen=True)
class UniformOverHorizon:
    """An equal share of the whole budget for each of `horizon` queries; then nothing."""

    horizon: int

    def __post_init__(self) -> None:
        if self.horizon < 1:
            raise InvalidInput(f"the horizon is at least one query, found {self.horizon}")

    def propose(self, situation: Situation) -> PrivacyEvent | None:
        if len(situation.history) >= self.horizon:
            return None
        # A billionth less, for the rounding up of every sum.
        return _gaussian(situation.account.budget / self.horizon * (1 - 1e-9))


@dataclass
class DynamicAllocation(PublishedAllocation):
    """Algorithm 2 of the recommender framework, as published."""

    def propose(self, situation: Situation) -> PrivacyEvent | None:
        return self.event(situation.query, situation.history)


# --- ours -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EqualVariance:
    """Equal-variance spending under the filter, against a target, planned anew before each answer.

    An answer is useful if its noise is at most the target. Under a filter the cost of an answer is
    1/(2z²) for the noise multiplier z, so the number of useful answers is largest if each has the
    target noise exactly: less noise is paid for by answers that come later.

    Only where the forecast says that the budget outlasts the load is noise reduced, for everybody
    alike: what is left is shared out over the number of queries expected until the horizon, plus
    two standard deviations and a fraction kept back. A wrong forecast costs noise, never privacy.

    Args:
        target: the largest useful noise multiplier.
        until: the end of the planning horizon, seconds since 1970; None spends at the target.
        reserve: fraction of what is left that a forecast may not touch.
    """

    target: float
    until: float | None = None
    reserve: float = 0.2

    def __post_init__(self) -> None:
        Gaussian(self.target)
        if not 0 <= self.reserve < 1:
            raise InvalidInput(f"reserve must be in [0, 1), found {self.reserve}")

    def propose(self, situation: Situation) -> PrivacyEvent | None:
        useful = 1 / (2 * self.target**2)
        left = situation.account.budget - situation.account.spent
        if self.until is None:
            return Gaussian(self.target)
        expected = 1 + expected_queries(situation.query.time, self.until, situation.history)
        return _gaussian(max(useful, (1 - self.reserve) * left / expected))


def expected_queries(now: float, until: float, history: Sequence[Query]) -> float:
    """How many queries will still come, with two standard deviations on top.

    The mean rate of the last week (at least a day's worth of time is assumed to have been seen, so
    that a burst at the start does not look like a habit). The rest of the horizon that is no whole
    day is weighted by how the latest queries were spread over the hours. Counts are taken as
    Poisson.
    """
    if until <= now:
        return 0.0
    first = bisect_left(history, now - 7 * DAY, key=lambda each: each.time)
    if first == len(history):
        return (until - now) / HOUR
    rate = (len(history) - first) / max(now - history[first].time, DAY)
    days, rest = divmod(until - now, DAY)
    hours = {(hour_of(now) + n) % 24 for n in range(math.ceil(rest / HOUR))}
    latest = history[max(first, len(history) - _LATEST) :]
    # One imagined query each: an hour without queries is not without chance.
    seen = len(hours) + sum(hour_of(each.time) in hours for each in latest)
    expected = rate * DAY * (days + seen / (24 + len(latest)))
    return expected + 2 * math.sqrt(expected)


def _gaussian(rho: float) -> PrivacyEvent | None:
    """The Gaussian event that costs this much."""
    return Gaussian(math.sqrt(1 / (2 * rho)) * (1 + 1e-12)) if rho > 0 else None
