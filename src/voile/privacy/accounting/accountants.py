"""Accountants: several events in, (epsilon, delta) out. Immutable; `compose` gives a new one.

An accountant *reads* what a list of events amounts to. Reading is not permission. If an answer
decides what is asked next, use a filter (`voile.privacy.accounting.filters`). If everything is
fixed beforehand, use a plan.
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
    """Epsilons add up, deltas add up; delta is split evenly over the events that need one.

    Assumes nothing about the events beyond what each one promises.

    >>> Basic().compose(PureDp(0.5), times=3).epsilon(delta=0.0)
    1.5
    """

    def epsilon(self, delta: float) -> float:
        delta = check_target(1.0, delta, pure=True)
        # A record meets one way through parallel parts; the guarantee is that of the worst one.
        return max(self._of(way, delta) for way in self._ways())

    def _of(self, way: dict[Leaf, int], delta: float) -> float:
        # Any split of delta gives a true statement; an even one needs no search and no data.
        share = share_of(way, delta)
        return math.fsum(times * alone(leaf, share) for leaf, times in way.items())


@dataclass(frozen=True)
class ZeroConcentrated:
    """Zero-concentrated differential privacy: rho adds up.

    Refuses events without a finite rho (`ApproximateDp`, `PoissonSampled`).

    >>> noise = Gaussian(noise_multiplier=10.0)
    >>> many = ZeroConcentrated().compose(noise, times=100)
    >>> many.rho, many.epsilon(1e-6) < Basic().compose(noise, times=100).epsilon(1e-6)
    (0.5, True)
    """

    rho: float = 0.0

    def compose(self, event: PrivacyEvent, times: int = 1) -> Self:
        return type(self)(self.rho + rho(Repeated(event, times)))

    def epsilon(self, delta: float) -> float:
        delta = check_target(1.0, delta)
        return zcdp_to_epsilon(self.rho, delta)


@dataclass(frozen=True)
class PrivacyLoss(EventList):
    """Numerical composition of privacy-loss distributions, rounded to the safe side.

    The tightest of all. Assumes that the list of events is fixed beforehand.

    >>> step = PoissonSampled(Gaussian(1.0), probability=0.01, relation="blank one")
    >>> PrivacyLoss().compose(step, times=100).epsilon(1e-5) < 1.0
    True
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

    Events of which only a rho is known (`Zcdp`) have none: with one of them rhos are added up.

    Assumes that no answer decides what runs, or how often: numerical composition is proved for
    lists that are fixed beforehand. Leaving a part out is allowed.

    >>> plan = Plan((Gaussian(5.0), Laplace(4.0)), epsilon=1.5, delta=1e-5)
    >>> plan.needed() < 1.5
    True
    >>> Plan((Gaussian(0.5),), epsilon=1.0, delta=1e-5)
    Traceback (most recent call last):
    voile.core.errors.BudgetExceeded: Budget exceeded: this plan needs epsilon ...
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
        return tightest_epsilon(Composed(self.events), self.delta)


def tightest_epsilon(event: PrivacyEvent, delta: float) -> float:
    """By privacy-loss distributions; with a `Zcdp` in it, which has none, by rho.

    >>> tightest_epsilon(Zcdp(0.1), 1e-5) == ZeroConcentrated().compose(Zcdp(0.1)).epsilon(1e-5)
    True
    """
    found = PrivacyLoss().compose(event)
    ways = found._ways()
    if any(isinstance(leaf, Zcdp) for way in ways for leaf in way):
        return max(_by_rho(way, delta) for way in ways)
    return found.epsilon(delta)


def _by_rho(way: dict[Leaf, int], delta: float) -> float:
    """Rhos add up; pure epsilons may be added afterwards instead, and the smaller figure counts."""
    pure = {leaf: times for leaf, times in way.items() if isinstance(leaf, _PURE)}
    every, rest = (
        math.fsum(times * rho(leaf) for leaf, times in leaves.items())
        for leaves in (way, {leaf: way[leaf] for leaf in way.keys() - pure.keys()})
    )
    added = math.fsum(times * alone(leaf, 0.0) for leaf, times in pure.items())
    apart = added + (zcdp_to_epsilon(rest, delta) if rest else 0.0)
    return min(apart, zcdp_to_epsilon(every, delta))
