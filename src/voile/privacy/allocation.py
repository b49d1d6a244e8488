"""How much to spend on each of a planned number of questions: proposals from public facts.

An allocation only proposes. The account decides, and no proposal can overspend it.

- `equal_noise`: every question gets the same noise, which answers most questions at a given noise.
- `PublishedAllocation`: Algorithm 2 of the recommender framework with its prediction of future
  load (PBMS), as published, slips included.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from voile.core.errors import InvalidInput
from voile.privacy.events import Gaussian, PrivacyEvent, Repeated

HOUR: Final = 3600.0
_MOST_NOISE: Final = 1e6


def _noise_for(epsilon: float, delta: float) -> float:
    # Imported here: commands name the kinds of query, and commands load nothing heavy.
    from voile.privacy.accounting.conversion import gaussian_noise_multiplier

    return gaussian_noise_multiplier(epsilon, delta)


class QueryType(StrEnum):
    """The three kinds of query of Algorithm 2."""

    INDIVIDUAL = "individual"
    BATCH = "batch"
    AGGREGATE = "aggregate"


@dataclass(frozen=True)
class Query:
    """What an allocation may know about a query: public facts.

    >>> Query(0.0, QueryType.BATCH, features=12).kind.value
    'batch'
    """

    time: float
    kind: QueryType = QueryType.INDIVIDUAL
    features: int = 10

    def __post_init__(self) -> None:
        if not math.isfinite(self.time) or self.features < 1:
            raise InvalidInput(
                f"a query has a finite time and at least one feature, found {self.time}, "
                f"{self.features}"
            )


def equal_noise(fits: Callable[[PrivacyEvent], bool], count: int) -> Gaussian | None:
    """The least noise with which so many questions fit together; None if none is enough.

    Args:
        fits: whether an account could grant an event now.

    >>> found = equal_noise(lambda event: event.times / event.event.noise_multiplier**2 <= 1, 100)
    >>> round(found.noise_multiplier, 3)
    10.0
    """
    low, high = -10.0, math.log(_MOST_NOISE)
    if not fits(Repeated(Gaussian(math.exp(high)), count)):
        return None
    while high - low > 1e-9:
        middle = (low + high) / 2
        fine = fits(Repeated(Gaussian(math.exp(middle)), count))
        low, high = (low, middle) if fine else (middle, high)
    return Gaussian(math.exp(high))


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
    hour = hour_of(query.time)
    same = sum(hour_of(each.time) == hour for each in history)
    return max(24 * same / len(history), 0.1)


def hour_of(time: float) -> int:
    """The hour of the day, UTC."""
    return int(time // HOUR) % 24


@dataclass
class PublishedAllocation:
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

    >>> round(PublishedAllocation(total=1.0, delta=1e-5).allocate(Query(0.0), []), 3)
    0.8
    """

    total: float
    delta: float
    left: float = field(init=False)

    def __post_init__(self) -> None:
        _noise_for(self.total, self.delta)  # refuses what is no target
        self.left = self.total

    def allocate(self, query: Query, history: Sequence[Query]) -> float:
        """The epsilon for this query; it is taken off what is left."""
        current = cost_weight(query) ** 2
        future = predicted_load(query, history) * AVERAGE_SENSITIVITY_SQUARED
        allocation = current / (current + future) * self.left * SAFETY_FACTOR
        self.left -= allocation
        return allocation

    def event(self, query: Query, history: Sequence[Query]) -> Gaussian | None:
        """The noise that this epsilon allows; None if almost nothing is left."""
        epsilon = self.allocate(query, history)
        if epsilon < 1e-12:
            return None
        return Gaussian(_noise_for(epsilon, self.delta))
