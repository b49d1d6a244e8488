"""Accountants: several events in, (epsilon, delta) out. Immutable; `compose` gives a new one.

An accountant *reads* what a list of events amounts to. Reading is not permission: whoever decides
from one answer what to ask next needs a filter (`voile.privacy.accounting.filters`), and whoever
fixes everything beforehand a plan.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

from voile.core.errors import BudgetExceeded, InvalidInput
from voile.privacy.accounting import privacy_loss
from voile.privacy.accounting.conversion import (
    check_target,
    gaussian_epsilon,
    zcdp_to_epsilon,
)
from voile.privacy.accounting.curves import branches, rho
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


@dataclass(frozen=True)
class EventList:
    """An accountant that keeps the events themselves."""

    events: tuple[PrivacyEvent, ...] = ()

    def compose(self, event: PrivacyEvent, times: int = 1) -> Self:
        return type(self)((*self.events, Repeated(event, times)))

    def _ways(self) -> list[dict[Leaf, int]]:
        return branches(Composed(self.events)) if self.events else [{}]


@dataclass(frozen=True)
class Basic(EventList):
    """Epsilons add up, deltas add up: delta is shared out evenly over the events that need one."""

    def epsilon(self, delta: float) -> float:
        delta = check_target(1.0, delta, pure=True)
        return max(self._of(way, delta) for way in self._ways())

    def _of(self, way: dict[Leaf, int], delta: float) -> float:
        share = share_of(way, delta)
        return math.fsum(times * alone(leaf, share) for leaf, times in way.items())


@dataclass(frozen=True)
class ZeroConcentrated:
    """Zero-concentrated differential privacy: rho adds up."""

    rho: float = 0.0

    def compose(self, event: PrivacyEvent, times: int = 1) -> Self:
        return type(self)(self.rho + rho(Repeated(event, times)))

    def epsilon(self, delta: float) -> float:
        delta = check_target(1.0, delta)
        return zcdp_to_epsilon(self.rho, delta)


@dataclass(frozen=True)
class PrivacyLoss(EventList):
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


def share_of(way: dict[Leaf, int], delta: float) -> float:
    needing = sum(n for leaf, n in way.items() if not isinstance(leaf, _PURE))
    return delta / needing if needing else delta


_PURE = (PureDp, BoundedRange, Laplace)


# --- Plans: a complete list of events, fixed before the first of them and accounted for exactly --


@dataclass(frozen=True)
class Plan:
    """Events that together cost at most (epsilon, delta), by their privacy-loss distributions.

    What is run, and how often, must not depend on any answer: numerical composition is proved for
    lists that are fixed beforehand. Leaving a part out is allowed.
    """

    events: tuple[PrivacyEvent, ...]
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "events", tuple(self.events))
        if not self.events:
            raise InvalidInput("a plan needs at least one event")
        object.__setattr__(self, "delta", check_target(self.epsilon, self.delta))
        needed = self.needed()
        if needed > self.epsilon:
            raise BudgetExceeded(
                f"Budget exceeded: this plan needs epsilon = {needed:.6g}, and {self.epsilon:g} is "
                f"available (delta = {self.delta:g}); nothing was charged",
                remaining=self.epsilon,
                requested=needed,
            )

    def needed(self) -> float:
        """The epsilon of the whole list at the plan's delta."""
        return PrivacyLoss().compose(Composed(self.events)).epsilon(self.delta)
