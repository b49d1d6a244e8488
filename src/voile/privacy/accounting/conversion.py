"""What one event costs, in each of the measures that accountants add up, and what that comes to:
from Gaussian, concentrated and Rényi statements to (epsilon, delta), and back.

Each function is safe in one direction: an epsilon or delta is never too small, a budget never too
large. The formulas hold for every order, so a search over orders that stops early is still true.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import Relation, floored_delta
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

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(80)


def check_target(epsilon: float, delta: float, *, pure: bool = False) -> float:
    """Refuse an (epsilon, delta) that nothing can aim at; delta = 0 only where noise can reach it.

    Returns the delta to aim at and to state: at least `SMALLEST_DELTA`, or 0.
    """
    if isinstance(epsilon, bool) or not math.isfinite(epsilon) or epsilon <= 0:
        raise InvalidInput(f"epsilon must be finite and above 0, found {epsilon}")
    if not 0 <= delta < 1 or (delta == 0 and not pure):
        wanted = "[0, 1)" if pure else "(0, 1)"
        raise InvalidInput(f"delta must be in {wanted}, found {delta}")
    return floored_delta(delta)


def gaussian_delta(noise_multiplier: float, epsilon: float) -> float:
    """The exact delta of one Gaussian mechanism at epsilon (Balle and Wang 2018, Theorem 8)."""
    mu = 1 / noise_multiplier
    if mu < 1:
        return _small_gaussian_delta(mu, epsilon)
    from scipy.special import log_ndtr

    upper, lower = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
    return max(0.0, math.exp(log_ndtr(upper)) - math.exp(epsilon + log_ndtr(lower)))


def _small_gaussian_delta(mu: float, epsilon: float) -> float:
    """The same without the difference of two nearly equal numbers, which would lose digits.

    The privacy loss is normal with mean μ²/2 and deviation μ, and delta is the mean of
    1 − e^(ε − loss) where that is positive: an integral of positive terms, here over loss = ε + μy.
    """
    start = epsilon / mu - mu / 2
    end = min(12.0, 40 / start) if start > 0 else 12.0 - start
    y = (_NODES + 1) * end / 2
    terms = -np.expm1(-mu * y) * np.exp(-((y + start) ** 2) / 2)
    # A dot product is summed in another order on another processor; this sum is exact on all.
    return math.fsum((_WEIGHTS * terms).tolist()) * end / 2 / math.sqrt(2 * math.pi)


def gaussian_epsilon(noise_multiplier: float, delta: float) -> float:
    """The smallest epsilon at which one Gaussian mechanism has this delta."""
    if gaussian_delta(noise_multiplier, 0.0) <= delta:
        return 0.0
    high = 1.0
    while gaussian_delta(noise_multiplier, high) > delta:
        high *= 2
    # Delta falls with epsilon. The factor below is above the tolerance of the root, so that the
    # figure errs towards too much.
    root = _root(lambda e: gaussian_delta(noise_multiplier, e) - delta, 0.0, high)
    return root * (1 + 1e-11)


@lru_cache(maxsize=4096)
def gaussian_noise_multiplier(epsilon: float, delta: float) -> float:
    """The smallest noise multiplier that gives (epsilon, delta), for every epsilon.

    √(2 ln(1.25/δ))/ε is a theorem only below epsilon 1, where it is also larger than needed.

    >>> noise = gaussian_noise_multiplier(1.0, 1e-5)
    >>> noise < math.sqrt(2 * math.log(1.25 / 1e-5)), gaussian_delta(noise, 1.0) <= 1e-5
    (True, True)
    """
    check_target(epsilon, delta)
    low = high = 1.0
    while gaussian_delta(high, epsilon) > delta:
        high *= 2
    while gaussian_delta(low, epsilon) <= delta:
        low /= 2
    # A little more noise than the root: rounding in it must not cost privacy.
    return _root(lambda z: gaussian_delta(z, epsilon) - delta, low, high) * (1 + 1e-10)


def renyi_to_epsilon(order: float, divergence: float, delta: float) -> float:
    """(Canonne, Kamath and Steinke 2020, Proposition 12), at one order above 1."""
    slack = math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)
    return max(0.0, divergence + slack)


def renyi_budget(order: float, epsilon: float, delta: float) -> float:
    """The largest divergence of this order that still implies (epsilon, delta)."""
    return epsilon - math.log1p(-1 / order) + (math.log(delta) + math.log(order)) / (order - 1)


def zcdp_to_epsilon(rho: float, delta: float) -> float:
    """The conversion above at its best order."""
    if rho == 0:
        return 0.0

    def at(log_excess: float) -> float:
        order = 1 + math.exp(log_excess)
        return renyi_to_epsilon(order, order * rho, delta)

    return _least(at)


@lru_cache(maxsize=4096)
def zcdp_budget(epsilon: float, delta: float) -> float:
    """The largest rho that still implies (epsilon, delta)."""
    check_target(epsilon, delta)

    def at(log_excess: float) -> float:
        order = 1 + math.exp(log_excess)
        return -renyi_budget(order, epsilon, delta) / order

    return max(0.0, -_least(at))


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    from scipy.optimize import brentq

    return float(brentq(function, low, high, xtol=1e-14, rtol=1e-13))


def _least(function: Callable[[float], float]) -> float:
    """The smallest value of a function of log(order − 1)."""
    from scipy.optimize import minimize_scalar

    # Every order gives a true bound, so a search that stops early is loose and never wrong.
    best = minimize_scalar(function, bounds=(-14, 25), method="bounded", options={"xatol": 1e-9})
    return float(best.fun)


# --- What events cost: their rho, and their Rényi divergence at some orders -----------------------


_LOG_2 = math.log(2)


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
            # One record is in one part only, and parts are fixed beforehand: the worst part counts.
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
            # A bounded range is also a pure epsilon: both bounds hold, so the smaller one does.
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
    """Randomised response is the worst that a pure epsilon allows, at every order.

    log(1 + x)/(α−1) with x = 2·sinh(αε/2)·sinh((α−1)ε/2)/cosh(ε/2): no difference of nearly equal
    numbers, so that no charge is lost or negative, however small epsilon is.
    """
    half = epsilon / 2
    log_cosh = half + math.log1p(math.exp(-epsilon)) - _LOG_2
    log_x = _LOG_2 + _log_sinh(orders * half) + _log_sinh((orders - 1) * half) - log_cosh
    return np.asarray(np.logaddexp(0.0, log_x) / (orders - 1))


def _laplace_renyi(multiplier: float, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """(Mironov 2017, Table II).

    Where both exponents are small, the sum is 1 + x, and x is a sum of two terms that are not
    negative: the linear parts of the exponentials cancel.
    """
    up, down = (orders - 1) / multiplier, orders / multiplier
    share = orders / (2 * orders - 1)
    small = np.minimum(up, 1.0), np.minimum(down, 1.0)
    near = np.log1p(share * _beyond_linear(small[0]) + (1 - share) * _beyond_linear(-small[1]))
    far = np.logaddexp(np.log(share) + up, np.log1p(-share) - down)
    return np.asarray(np.where(down < 1, near, far) / (orders - 1))


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
    """log(1 + x)/(α−1): without their exponentials the binomial terms add up to one.

    x = Σ_{k≥2} C(α,k)·(1−q)^{α−k}·q^k·(exp(k(k−1)/(2z²)) − 1), of which no term is negative.
    """
    from scipy.special import gammaln, logsumexp

    k = np.arange(2, order + 1)
    log_binomial = gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1)
    q, z = event.probability, event.event.noise_multiplier
    exponent = k * (k - 1) / (2 * z**2)
    terms = log_binomial + k * math.log(q) + (order - k) * math.log1p(-q)
    log_x = logsumexp(terms + exponent + np.log(-np.expm1(-exponent)))
    return float(np.logaddexp(0.0, log_x)) / (order - 1)


def _log_sinh(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(x + np.log(-np.expm1(-2 * x)) - _LOG_2)


def _beyond_linear(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """e^x − 1 − x, by its series where the difference would cancel."""
    series = np.ones_like(x)
    for k in range(10, 2, -1):
        series = 1 + x / k * series
    return np.asarray(np.where(np.abs(x) < 0.1, x**2 / 2 * series, np.expm1(x) - x))
