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
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol

from voile.core.errors import InvalidInput
from voile.privacy.accounting import ZeroConcentratedFilter
from voile.privacy.accounting.conversion import gaussian_noise_multiplier
from voile.privacy.events import Gaussian, PrivacyEvent

HOUR: Final = 3600.0
DAY: Final = 24 * HOUR
_LATEST: Final = 300


class QueryType(StrEnum):
    """The three kinds of query of Algorithm 2."""

    INDIVIDUAL = "individual"
    BATCH = "batch"
    AGGREGATE = "aggregate"


@dataclass(frozen=True)
class Query:
    """What a policy may know about a query: public facts."""

    time: float
    kind: QueryType = QueryType.INDIVIDUAL
    features: int = 10

    def __post_init__(self) -> None:
        if not math.isfinite(self.time) or self.features < 1:
            raise InvalidInput(
                f"a query has a finite time and at least one feature, found {self.time}, "
                f"{self.features}"
            )


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


# --- Algorithm 2 of the recommender framework ----------------------------------------------------

BASE_COST: Final = {QueryType.INDIVIDUAL: 2.0, QueryType.BATCH: 1.5, QueryType.AGGREGATE: 1.0}
SAFETY_FACTOR: Final = 0.8
MAX_QUERY_HORIZON: Final = 100
AVERAGE_SENSITIVITY_SQUARED: Final = 2.5
"""As printed. The mean of 4, 2.25 and 1 is 2.4167, and it leaves out the weight of the features."""


def cost_weight(query: Query) -> float:
    """Δbase·(1 + ln(1 + k)/ln 10): the paper's "sensitivity".

    It bounds nothing: no data set is looked at. Here it is what it is good for, a weight that gives
    larger queries a larger share.
    """
    return BASE_COST[query.kind] * (1 + math.log(1 + query.features) / math.log(10))


def predicted_load(query: Query, history: Sequence[Query]) -> float:
    """PredictFutureLoad: a rate an hour times a seasonal factor, called a number of queries."""
    if len(history) < 10:
        return 5.0 * len(history)
    recent = history[-24:]
    hours = (recent[-1].time - recent[0].time) / HOUR
    rate = len(recent) / max(hours, 1.0)
    return min(rate * seasonal_factor(query, history), MAX_QUERY_HORIZON)


def seasonal_factor(query: Query, history: Sequence[Query]) -> float:
    """max(24·N_h/N, 0.1) at the hour of the query."""
    if len(history) < 24:
        return 1.0
    hour = _hour(query.time)
    same = sum(_hour(each.time) == hour for each in history)
    return max(24 * same / len(history), 0.1)


@dataclass
class DynamicAllocation:
    """Algorithm 2, step by step, under the basic composition it assumes.

    Slips of the published algorithm, kept as they are:

    - With no history the predicted load is 0, so the first query gets 0.8 of everything, and each
      later one a share of what is left: allocations decay geometrically and nothing is refused.
    - An hourly *rate* is used as a *number* of queries still to come.
    - Its "sensitivity" is a heuristic of query type and number of features (`cost_weight`).
    - The printed mean 2.5 of the squared base values is 2.4167.
    - Epsilons are subtracted (basic composition), although the text announces concentrated privacy.

    Attributes:
        total: the epsilon to give out.
        delta: of each answer.
        left: what was not given out yet.
    """

    total: float
    delta: float
    left: float = field(init=False)

    def __post_init__(self) -> None:
        gaussian_noise_multiplier(self.total, self.delta)  # refuses what is no target
        self.left = self.total

    def allocate(self, query: Query, history: Sequence[Query]) -> float:
        """The epsilon for this query; it is taken off what is left."""
        current = cost_weight(query) ** 2
        future = predicted_load(query, history) * AVERAGE_SENSITIVITY_SQUARED
        allocation = current / (current + future) * self.left * SAFETY_FACTOR
        self.left -= allocation
        return allocation

    def propose(self, situation: Situation) -> PrivacyEvent | None:
        epsilon = self.allocate(situation.query, situation.history)
        if epsilon < 1e-12:
            return None
        return Gaussian(gaussian_noise_multiplier(epsilon, self.delta))


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
    hours = {(_hour(now) + n) % 24 for n in range(math.ceil(rest / HOUR))}
    latest = history[max(first, len(history) - _LATEST) :]
    # One imagined query each: an hour without queries is not without chance.
    seen = len(hours) + sum(_hour(each.time) in hours for each in latest)
    expected = rate * DAY * (days + seen / (24 + len(latest)))
    return expected + 2 * math.sqrt(expected)


def _hour(time: float) -> int:
    return int(time // HOUR) % 24


def _gaussian(rho: float) -> PrivacyEvent | None:
    """The Gaussian event that costs this much."""
    return Gaussian(math.sqrt(1 / (2 * rho)) * (1 + 1e-12)) if rho > 0 else None
