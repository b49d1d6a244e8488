"""Accountants: several events in, (epsilon, delta) out. Immutable; `compose` gives a new one.

An accountant *reads* what a list of events amounts to. Reading is not permission: whoever decides
from one answer what to ask next needs a filter (`voile.privacy.accounting.filters`), and whoever
fixes everything beforehand a plan.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput
from voile.privacy.accounting import privacy_loss
from voile.privacy.accounting.conversion import (
    check_target,
    gaussian_epsilon,
    renyi_to_epsilon,
    zcdp_to_epsilon,
)
from voile.privacy.accounting.curves import branches, renyi, rho
from voile.privacy.events import (
    ApproximateDp,
    BoundedRange,
    Composed,
    Gaussian,
    Laplace,
    Leaf,
    PoissonSampled,
    PrivacyEvent,
    PureDp,
    Repeated,
    Zcdp,
)

DEFAULT_ORDERS = (*range(2, 33), 36, 40, 48, 56, 64, 96, 128, 256, 512)


class Accountant(Protocol):
    """What all accountants can do."""

    def compose(self, event: PrivacyEvent, times: int = 1) -> Self:
        """The accountant after `times` more such events."""

    def epsilon(self, delta: float) -> float:
        """An epsilon that, with this delta, covers everything composed so far.

        A delta below `SMALLEST_DELTA` is read, and has to be stated, as `SMALLEST_DELTA`.
        """


@dataclass(frozen=True)
class _Listing:
    """An accountant that keeps the events themselves."""

    events: tuple[PrivacyEvent, ...] = ()

    def compose(self, event: PrivacyEvent, times: int = 1) -> Self:
        return type(self)((*self.events, Repeated(event, times)))

    def _ways(self) -> list[dict[Leaf, int]]:
        return branches(Composed(self.events)) if self.events else [{}]


@dataclass(frozen=True)
class Basic(_Listing):
    """Epsilons add up, deltas add up: delta is shared out evenly over the events that need one."""

    def epsilon(self, delta: float) -> float:
        delta = check_target(1.0, delta, pure=True)
        return max(self._of(way, delta) for way in self._ways())

    def _of(self, way: dict[Leaf, int], delta: float) -> float:
        share = _share(way, delta)
        return math.fsum(times * alone(leaf, share) for leaf, times in way.items())


@dataclass(frozen=True)
class Advanced(_Listing):
    """Advanced composition (Kairouz, Oh and Viswanath 2015, Theorem 3.5), never above basic.

    Half of delta pays for the theorem, the other half is shared out over the events.
    """

    def epsilon(self, delta: float) -> float:
        delta = check_target(1.0, delta, pure=True)
        basic = Basic(self.events).epsilon(delta)
        if delta == 0:
            return basic
        return min(basic, max(self._of(way, delta / 2) for way in self._ways()))

    def _of(self, way: dict[Leaf, int], half: float) -> float:
        share = _share(way, half)
        each = [(alone(leaf, share), times) for leaf, times in way.items()]
        drift = math.fsum(times * e * math.tanh(e / 2) for e, times in each)
        squares = math.fsum(times * e * e for e, times in each)
        spread = min(1 / half, math.e + math.sqrt(squares) / half)
        return drift + math.sqrt(2 * squares * math.log(spread))


@dataclass(frozen=True)
class ZeroConcentrated:
    """Zero-concentrated differential privacy: rho adds up."""

    rho: float = 0.0

    def compose(self, event: PrivacyEvent, times: int = 1) -> Self:
        return type(self)(self.rho + rho(Repeated(event, times)))

    def epsilon(self, delta: float) -> float:
        delta = check_target(1.0, delta)
        return zcdp_to_epsilon(self.rho, delta)


@dataclass(frozen=True, eq=False)
class Renyi:
    """Rényi differential privacy at several orders; the best one is read off at the end."""

    orders: tuple[float, ...] = DEFAULT_ORDERS
    divergences: NDArray[np.float64] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not self.orders or min(self.orders) <= 1:
            raise InvalidInput(f"orders must lie above 1, found {self.orders}")

    def compose(self, event: PrivacyEvent, times: int = 1) -> Self:
        more = renyi(Repeated(event, times), np.array(self.orders, dtype=np.float64))
        before = self.divergences
        return type(self)(self.orders, more if before is None else before + more)

    def epsilon(self, delta: float) -> float:
        delta = check_target(1.0, delta)
        if self.divergences is None:
            return 0.0
        return min(
            renyi_to_epsilon(order, float(divergence), delta)
            for order, divergence in zip(self.orders, self.divergences, strict=True)
        )


@dataclass(frozen=True)
class PrivacyLoss(_Listing):
    """Numerical composition of privacy-loss distributions, rounded to the safe side.

    The tightest of all; for lists of events that are fixed beforehand.
    """

    def epsilon(self, delta: float) -> float:
        delta = check_target(1.0, delta)
        return max(privacy_loss.epsilon(way, delta) for way in self._ways())

    def delta(self, epsilon: float) -> float:
        """The delta that belongs to epsilon."""
        return max(privacy_loss.delta(way, epsilon) for way in self._ways())


def alone(leaf: Leaf, delta: float) -> float:
    """The epsilon of one event by itself, at its share of delta (which may be below the floor)."""
    match leaf:
        case PureDp(epsilon) | BoundedRange(epsilon):
            return epsilon
        case Laplace(multiplier):
            return 1 / multiplier
        case Gaussian(multiplier):
            check_target(1.0, delta)
            return gaussian_epsilon(multiplier, delta)
        case Zcdp(value):
            check_target(1.0, delta)
            return zcdp_to_epsilon(value, delta)
        case PoissonSampled():
            check_target(1.0, delta)
            return privacy_loss.epsilon({leaf: 1}, delta)
        case ApproximateDp(epsilon, needed):
            if needed > delta * (1 + 1e-12):
                raise InvalidInput(f"an event needs delta {needed}, its share is only {delta}")
            return epsilon


def _share(way: dict[Leaf, int], delta: float) -> float:
    needing = sum(n for leaf, n in way.items() if not isinstance(leaf, _PURE))
    return delta / needing if needing else delta


_PURE = (PureDp, BoundedRange, Laplace)
