"""What a charged event says that an attacker can bet against: points of its trade-off curve.

For neighbours with outputs P and Q, every set E of outputs and every weight w ≥ 1 the event states
P(E) − w·Q(E) ≤ bound. At w = 1 the bound is the total variation. All of it follows from the event,
never from one (epsilon, delta): many mechanisms share one of those.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from voile.core.errors import Refused
from voile.privacy.accounting import PrivacyLoss, privacy_loss
from voile.privacy.accounting.conversion import gaussian_delta, zcdp_to_epsilon
from voile.privacy.accounting.curves import branches, rho
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

TAIL: Final = 1 / 8
"""The second point of the curve lies where what is left to tell is this share of the variation."""


@dataclass(frozen=True)
class CurvePoint:
    """One point of a trade-off curve: P(E) − weight·Q(E) ≤ bound for every E.

    Args:
        swapped: P is the output without the record, Q the one with it.
    """

    weight: float
    bound: float
    swapped: bool = False


def curve_points(event: PrivacyEvent) -> tuple[CurvePoint, ...]:
    """The total variation, and in both directions a point further out, where there is one."""
    variation = total_variation(event)
    if any(isinstance(leaf, Zcdp) for way in branches(event) for leaf in way):
        return (CurvePoint(1.0, variation),)  # no noise law is named, so nothing more is known
    epsilon = PrivacyLoss().compose(event).epsilon(TAIL * variation)
    if not math.isfinite(epsilon) or epsilon > 20:
        return (CurvePoint(1.0, variation),)
    weight, bound = math.exp(epsilon), hockey_stick(event, epsilon)
    return (
        CurvePoint(1.0, variation),
        CurvePoint(weight, bound),
        CurvePoint(weight, bound, swapped=True),
    )


def total_variation(event: PrivacyEvent) -> float:
    """How much better than a fair coin anybody can tell neighbours apart; never too small."""
    return hockey_stick(event, 0.0)


def hockey_stick(event: PrivacyEvent, epsilon: float) -> float:
    """The largest P(E) − e^epsilon·Q(E), over all ways through parallel parts; never too small."""
    return max(_of_way(way, epsilon) for way in branches(event))


def _of_way(way: dict[Leaf, int], epsilon: float) -> float:
    gaussian = [(leaf, n) for leaf, n in way.items() if isinstance(leaf, Gaussian)]
    if len(gaussian) == len(way):
        # Gaussian releases compose exactly: squares of μ add up.
        squares = math.fsum(n / leaf.noise_multiplier**2 for leaf, n in gaussian)
        return gaussian_delta(1 / math.sqrt(squares), epsilon)
    if any(isinstance(leaf, Zcdp) for leaf in way):
        # KL ≤ rho; the bounds of Pinsker, and of Bretagnolle and Huber. They hold at epsilon 0,
        # and further out there is nothing more to tell.
        whole = rho(Composed(tuple(Repeated(leaf, n) for leaf, n in way.items())))
        return min(math.sqrt(whole / 2), math.sqrt(-math.expm1(-whole)))
    (leaf, times), *others = way.items()
    if isinstance(leaf, BoundedRange) and times == 1 and not others and epsilon == 0:
        # The loss lies in an interval of length ε: at worst at ±ε/2 (Dong, Durfee and Rogers 2020).
        return math.tanh(leaf.epsilon / 4)
    return privacy_loss.delta(way, epsilon)


def with_noise(event: PrivacyEvent, factor: float) -> PrivacyEvent:
    """The same family with `factor` times the noise."""
    match event:
        case Gaussian(multiplier):
            return Gaussian(multiplier * factor)
        case Laplace(multiplier):
            return Laplace(multiplier * factor)
        case PureDp(epsilon):
            return PureDp(epsilon / factor)
        case BoundedRange(epsilon):
            return BoundedRange(epsilon / factor)
        case ApproximateDp(epsilon, delta):
            return ApproximateDp(epsilon / factor, delta)
        case Zcdp(value):
            return Zcdp(value / factor**2)
        case PoissonSampled(Gaussian(multiplier), probability, relation):
            return PoissonSampled(Gaussian(multiplier * factor), probability, relation)
        case Repeated(inner, times):
            return Repeated(with_noise(inner, factor), times)
        case Composed(events):
            return Composed(tuple(with_noise(inner, factor) for inner in events))
        case Parallel(events):
            return Parallel(tuple(with_noise(inner, factor) for inner in events))


def epsilon_of(event: PrivacyEvent, delta: float) -> float:
    """At delta, by privacy-loss distributions; by concentration where no noise law is named."""
    try:
        return PrivacyLoss().compose(event).epsilon(delta)
    except Refused:
        return zcdp_to_epsilon(rho(event), delta)


def epsilon_at_variation(event: PrivacyEvent, variation: float, delta: float) -> float:
    """The epsilon, at delta, of the member of the event's family whose total variation is this, or
    just below it: an event that was refuted if this variation was."""
    if variation <= 0:
        return 0.0
    factor = _least(lambda f: total_variation(with_noise(event, f)) <= variation)
    return 0.0 if math.isinf(factor) else epsilon_of(with_noise(event, factor), delta)


def _least(holds: Callable[[float], bool], most: float = 2.0**10) -> float:
    """About the least factor from 1 on at which something holds that holds from there on."""
    low = high = 1.0
    while not holds(high):
        if high >= most:
            return math.inf
        low, high = high, high * 2
    for _ in range(7 if high > 1 else 0):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
