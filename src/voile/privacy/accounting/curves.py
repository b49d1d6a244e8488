"""What one event costs, in each of the measures that accountants add up."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

from voile.core.errors import Refused
from voile.core.guarantee import Relation
from voile.privacy.events import (
    ApproximateDp,
    BoundedRange,
    Composed,
    Gaussian,
    Laplace,
    Leaf,
    Parallel,
    PoissonSampled,
    PrivacyEvent,
    PureDp,
    Repeated,
    Zcdp,
)


def rho(event: PrivacyEvent) -> float:
    """Zero-concentrated privacy; refuses events that have no finite rho."""
    match event:
        case Gaussian(multiplier):
            return 1 / (2 * multiplier**2)
        case Laplace(multiplier):
            return _pure_rho(1 / multiplier)
        case PureDp(epsilon):
            return _pure_rho(epsilon)
        case BoundedRange(epsilon):
            return epsilon**2 / 8
        case Zcdp(value):
            return value
        case ApproximateDp() | PoissonSampled():
            raise Refused(
                f"{type(event).__name__} has no finite rho: zero-concentrated accounting cannot "
                "hold it; use a Rényi account (for sampled Gaussian noise) or a fixed plan"
            )
        case Repeated(inner, times):
            return times * rho(inner)
        case Composed(events):
            return math.fsum(rho(inner) for inner in events)
        case Parallel(events):
            return max(rho(inner) for inner in events)


def renyi(event: PrivacyEvent, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """The Rényi divergence at each order."""
    match event:
        case Gaussian(multiplier):
            return orders / (2 * multiplier**2)
        case Laplace(multiplier):
            return _laplace_renyi(multiplier, orders)
        case PureDp(epsilon):
            return _pure_renyi(epsilon, orders)
        case BoundedRange(epsilon):
            return np.minimum(orders * epsilon**2 / 8, _pure_renyi(epsilon, orders))
        case Zcdp(value):
            return orders * value
        case PoissonSampled():
            return _sampled_renyi(event, orders)
        case ApproximateDp():
            raise Refused("ApproximateDp has no Rényi divergence: its privacy loss is unbounded")
        case Repeated(inner, times):
            return times * renyi(inner, orders)
        case Composed(events):
            return np.asarray(sum(renyi(inner, orders) for inner in events))
        case Parallel(events):
            return np.asarray(np.max([renyi(inner, orders) for inner in events], axis=0))


def branches(event: PrivacyEvent, *, most: int = 1000) -> list[dict[Leaf, int]]:
    """What one record can meet: a multiset of leaves for each way through parallel parts."""
    match event:
        case Repeated(inner, times):
            return [{leaf: n * times for leaf, n in way.items()} for way in branches(inner)]
        case Parallel(events):
            ways = [way for inner in events for way in branches(inner)]
            return [dict(way) for way in {frozenset(way.items()) for way in ways}]
        case Composed(events):
            ways = [{}]
            for inner in events:
                ways = [_added(way, more) for way in ways for more in branches(inner)]
                if len(ways) > most:
                    raise Refused(f"more than {most} ways through nested parallel compositions")
            return ways
        case _:
            return [{event: 1}]


def _added(first: dict[Leaf, int], second: dict[Leaf, int]) -> dict[Leaf, int]:
    return {leaf: first.get(leaf, 0) + second.get(leaf, 0) for leaf in {**first, **second}}


def _pure_rho(epsilon: float) -> float:
    """epsilon²/2 (Bun and Steinke 2016, Proposition 3.3)."""
    return epsilon**2 / 2


def _pure_renyi(epsilon: float, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """Randomised response is the worst that a pure epsilon allows, at every order."""
    log_p, log_q = -math.log1p(math.exp(-epsilon)), -math.log1p(math.exp(epsilon))
    terms = np.logaddexp(
        orders * log_p + (1 - orders) * log_q, orders * log_q + (1 - orders) * log_p
    )
    return np.asarray(terms / (orders - 1))


def _laplace_renyi(multiplier: float, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """(Mironov 2017, Table II)."""
    up = np.log(orders / (2 * orders - 1)) + (orders - 1) / multiplier
    down = np.log((orders - 1) / (2 * orders - 1)) - orders / multiplier
    return np.asarray(np.logaddexp(up, down) / (orders - 1))


def _sampled_renyi(event: PoissonSampled, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """(Mironov, Talwar and Zhang 2019), exact at whole orders, for removing one record."""
    if event.relation is Relation.REPLACE_ONE:
        raise Refused("sampled noise under 'replace one' needs a fixed plan (PLD accounting)")
    if not np.array_equal(orders, np.round(orders)) or orders.min() < 2:
        raise Refused("sampled noise is accounted at whole orders from 2 on")
    if event.probability == 1:
        return renyi(event.event, orders)
    return np.array([_sampled_at(event, int(order)) for order in orders])


def _sampled_at(event: PoissonSampled, order: int) -> float:
    k = np.arange(order + 1)
    log_binomial = gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1)
    q, z = event.probability, event.event.noise_multiplier
    terms = log_binomial + k * math.log(q) + (order - k) * math.log1p(-q) + k * (k - 1) / (2 * z**2)
    return float(logsumexp(terms)) / (order - 1)
