"""From Gaussian, concentrated and Rényi statements to (epsilon, delta), and back.

Each function is safe in one direction: an epsilon or delta is never too small, a budget never too
large. The formulas hold for every order, so a search over orders that stops early is still true.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from voile.core.errors import InvalidInput
from voile.core.guarantee import floored_delta

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
