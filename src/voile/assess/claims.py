"""What a charged event says that an attacker can bet against: points of its trade-off curve.

For neighbours with outputs P and Q, every set E of outputs and every weight w ≥ 1 the event states
P(E) − w·Q(E) ≤ bound. At w = 1 the bound is the total variation. All of it follows from the event,
never from one (epsilon, delta): many mechanisms share one of those.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from voile.core.errors import Refused
from voile.privacy.accounting import PrivacyLoss, privacy_loss
from voile.privacy.accounting.conversion import branches, gaussian_delta, rho, zcdp_to_epsilon
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
_WELL_TOLD: Final = 0.6
"""A total variation above which half of the noise would hardly be told from all of it."""
_WELL_ADDED: Final = 0.4
"""The same where variations are added up, which says less the larger they are."""
UNCHARGED: Final = Gaussian(1e6)
"""Stands for "nothing was charged": an event needs a positive cost, and this one is nearly none."""


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


def charge_beside(charged: PrivacyEvent, own: PrivacyEvent, other: PrivacyEvent) -> PrivacyEvent:
    """What of a charge is left for one of two parts, once the other part is paid for.

    A trial of a part bets against this. What the part itself says it costs proves nothing: the
    charge may leave it out.

    Args:
        charged: what the account pays for both parts together.
        own: what the part should cost; returned as it is where exactly that is left.
        other: what the other part costs.
    """
    (paid,), (mine,), (others,) = (map(Counter, branches(each)) for each in (charged, own, other))
    left = paid - others
    if left == mine:
        return own
    found = tuple(leaf if n == 1 else Repeated(leaf, n) for leaf, n in left.items())
    return Composed(found) if found else UNCHARGED


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
        return _concentrated(way)  # holds at epsilon 0; further out there is nothing more to tell
    (leaf, times), *others = way.items()
    if isinstance(leaf, BoundedRange) and not others and epsilon == 0:
        # The loss lies in an interval of length ε: at worst at ±ε/2 (Dong, Durfee and Rogers 2020).
        # Of several, privacy-loss distributions know no more than that each is pure.
        once = math.tanh(leaf.epsilon / 4)
        return once if times == 1 else min(_concentrated(way), privacy_loss.delta(way, 0.0))
    return privacy_loss.delta(way, epsilon)


def _concentrated(way: dict[Leaf, int]) -> float:
    """KL ≤ rho; the bounds of Pinsker, and of Bretagnolle and Huber."""
    whole = rho(Composed(tuple(Repeated(leaf, n) for leaf, n in way.items())))
    return min(math.sqrt(whole / 2), math.sqrt(-math.expm1(-whole)))


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


def group_points(event: PrivacyEvent, size: int) -> tuple[CurvePoint, ...]:
    """What the event says about so many records that change together.

    From one to the next of a chain of neighbours losses add up: `size` times the epsilon of a pure
    or bounded-range release, and `size`² times its rho (Bun and Steinke 2016). Gaussian and Laplace
    noise is log-concave, so whoever moves what is below it `size` times as far tells exactly as
    much as the chain (Dong, Roth and Su 2022). Of all others total variations add up.
    """
    if size == 1 or _has_groups(event):
        return curve_points(with_noise(event, 1 / size) if size > 1 else event)
    return (CurvePoint(1.0, group_variation(event, size)),)


def group_variation(event: PrivacyEvent, size: int) -> float:
    """How much better than a fair coin anybody can tell whether such a group is there."""
    if size > 1 and _has_groups(event):
        return total_variation(with_noise(event, 1 / size))
    return min(1.0, size * total_variation(event))


def group_size(event: PrivacyEvent, most: int) -> int:
    """How many records to try together, `most` at most: telling whether they are there should be
    neither hopeless nor easy. Of one record in a small claim it is hopeless in any short time."""
    size, enough = 1, _WELL_TOLD if _has_groups(event) else _WELL_ADDED
    while 2 * size <= most and group_variation(event, 2 * size) <= enough:
        size *= 2
    return size


def _has_groups(event: PrivacyEvent) -> bool:
    kinds = (Gaussian, Laplace, PureDp, BoundedRange, Zcdp)
    return all(isinstance(leaf, kinds) for way in branches(event) for leaf in way)


def epsilon_of(event: PrivacyEvent, delta: float) -> float:
    """At delta, by privacy-loss distributions; by concentration where no noise law is named."""
    try:
        return PrivacyLoss().compose(event).epsilon(delta)
    except Refused:
        return zcdp_to_epsilon(rho(event), delta)


def epsilon_at_variation(
    event: PrivacyEvent, variation: float, delta: float, *, together: int = 1
) -> float:
    """The epsilon, at delta, of the member of the event's family whose total variation is this, or
    just below it: an event that was refuted if this variation was.

    Args:
        together: how many records the variation is about.
    """
    if variation <= 0:
        return 0.0
    factor = _least(lambda f: group_variation(with_noise(event, f), together) <= variation)
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
