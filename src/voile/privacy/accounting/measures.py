"""What events cost and how costs add up: the one arithmetic of filters and of the ledger.

A *sum* is a tuple: one rho for zero-concentrated accounting, or one Rényi divergence for each order
fixed at opening. Every operation rounds up, so that no number of small charges slips below the true
total.

`ZeroConcentratedFilter`: if every event is chosen after seeing earlier answers, and the sum of the
rho of all events granted never exceeds B, everything together is B-zCDP. B is the largest rho that
implies the promised (epsilon, delta). Proofs and references: docs/guarantees/accounting.md.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from functools import cached_property, lru_cache
from typing import ClassVar, Final, Self, TypeAlias

import numpy as np

from voile.core.errors import BudgetExceeded, InvalidInput
from voile.privacy.accounting.conversion import (
    check_target,
    renyi,
    renyi_budget,
    renyi_to_epsilon,
    rho,
    zcdp_budget,
    zcdp_to_epsilon,
)
from voile.privacy.events import PrivacyEvent, Repeated

Sums: TypeAlias = tuple[float, ...]
"""One figure for each dimension of a measure."""


@dataclass(frozen=True)
class Measure:
    """Zero-concentrated privacy (no orders), or Rényi divergence at orders fixed at opening."""

    orders: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        orders = tuple(float(order) for order in self.orders)
        object.__setattr__(self, "orders", orders)
        sound = all(math.isfinite(order) and order > 1 for order in orders)
        if not sound or len(set(orders)) < len(orders):
            raise InvalidInput(f"orders must be different and above 1, found {self.orders}")

    @property
    def name(self) -> str:
        if not self.orders:
            return "zcdp"
        return "renyi " + " ".join(f"{order:g}" for order in self.orders)

    @property
    def nothing(self) -> Sums:
        return (0.0,) * max(1, len(self.orders))

    def divergences(self, event: PrivacyEvent) -> Sums:
        """What the event costs, which may be nothing or without a bound."""
        return _divergences(self, event)

    def cost(self, event: PrivacyEvent) -> Sums:
        """What the event costs; refuses events the measure cannot hold or cannot tell from zero."""
        return _cost(self, event)

    def budgets(self, epsilon: float, delta: float) -> Sums:
        """The largest sums that imply (epsilon, delta): with k orders each is opened at delta/k."""
        return _budgets(self, epsilon, delta)

    def epsilon(self, total: Sums, delta: float) -> float:
        """A reading of `total` at delta (what was promised is the budget, not this reading)."""
        if not any(total):
            return 0.0
        if not self.orders:
            return zcdp_to_epsilon(total[0], delta)
        share = delta / len(self.orders)
        readings = zip(self.orders, total, strict=True)
        return min(renyi_to_epsilon(order, each, share) for order, each in readings)


@lru_cache(maxsize=4096)
def _divergences(measure: Measure, event: PrivacyEvent) -> Sums:
    if measure.orders:
        return tuple(map(float, renyi(event, np.array(measure.orders, dtype=np.float64))))
    return (float(rho(event)),)


@lru_cache(maxsize=4096)
def _cost(measure: Measure, event: PrivacyEvent) -> Sums:
    try:
        found = measure.divergences(event)
    except OverflowError:
        found = (math.inf,)
    if not all(math.isfinite(each) and each > 0 for each in found):
        raise InvalidInput(
            f"the cost of {event!r} must be finite and above 0, found {found}: it is too large or "
            "too small to be told from nothing"
        )
    return found


@lru_cache(maxsize=4096)
def _budgets(measure: Measure, epsilon: float, delta: float) -> Sums:
    check_target(epsilon, delta)
    if not measure.orders:
        return (zcdp_budget(epsilon, delta),)
    # The order that will hold depends on the answers, so delta is split over all of them.
    share = delta / len(measure.orders)
    return tuple(renyi_budget(order, epsilon, share) for order in measure.orders)


def plus(first: Sums, second: Sums) -> Sums:
    """The sum, rounded up."""
    # The next float up: a sum of many charges rounded to nearest could fall below the true total.
    if len(first) == 1 == len(second):
        return (math.nextafter(first[0] + second[0], math.inf),)
    return tuple(math.nextafter(a + b, math.inf) for a, b in zip(first, second, strict=True))


def growth(before: Sums, after: Sums) -> Sums:
    """How much larger `after` is, rounded up; exactly nothing where they are equal."""
    if before == after:
        return (0.0,) * len(before)
    return tuple(
        math.nextafter(b - a, math.inf) if b > a else 0.0
        for a, b in zip(before, after, strict=True)
    )


def larger(first: Sums, second: Sums) -> Sums:
    """The larger of two in each dimension."""
    return tuple(map(max, first, second))


def fits(total: Sums, budgets: Sums) -> bool:
    """Whether one dimension is within its budget (sums never fall: it never was beyond)."""
    if len(total) == 1:
        return total[0] <= budgets[0]
    # Each order is a filter of its own at delta/k, so one that was never exceeded is enough.
    return any(each <= budget for each, budget in zip(total, budgets, strict=True))


def consumed(total: Sums, budgets: Sums) -> float:
    """The share that is gone, between 0 and 1, in the dimension that has most left."""
    if len(total) == 1:
        return min(1.0, total[0] / budgets[0]) if budgets[0] > 0 else 1.0
    shares = [
        each / budget if budget > 0 else 1.0 for each, budget in zip(total, budgets, strict=True)
    ]
    return min(1.0, *shares)


def shortfall(before: Sums, after: Sums, budgets: Sums) -> tuple[float, float, float]:
    """What is needed, left and promised in the dimension that is closest to fitting."""
    best = max(range(len(after)), key=lambda n: budgets[n] - after[n])
    return after[best] - before[best], budgets[best] - before[best], budgets[best]


def describe_shortfall(
    measure: Measure, cost: Sums, before: Sums, budgets: Sums, delta: float
) -> str:
    """What a release needs and what is left, each read as an epsilon at `delta`.

    The need is rounded up and the rest down, so the first figure is always the larger one.
    """
    pairs = zip(before, budgets, strict=True)
    left = tuple(max(0.0, math.nextafter(all_ - used, -math.inf)) for used, all_ in pairs)
    need = _three_digits(measure.epsilon(cost, delta), ROUND_CEILING)
    rest = _three_digits(measure.epsilon(left, delta), ROUND_FLOOR)
    return f"Budget exceeded: this release needs epsilon = {need}, and {rest} is left"


def _three_digits(figure: float, rounding: str) -> str:
    return f"{float(Context(prec=3, rounding=rounding).create_decimal(repr(figure))):g}"


def largest_count(fits: Callable[[PrivacyEvent], bool], event: PrivacyEvent, most: int) -> int:
    """How many such events fit one after the other; counting stops at `most`."""
    low, high = 0, 1
    while fits(Repeated(event, high)):
        low, high = high, 2 * high
        if high > most:
            return low
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(Repeated(event, middle)) else (low, middle)
    return low


# --- A budget that is open: each event may depend on earlier answers ------------------------------


_MOST_COUNTED: Final = 2**60


class MeasuredFilter(ABC):
    """Sums in a measure up to the largest that imply (epsilon, delta)."""

    epsilon: float
    delta: float

    @property
    @abstractmethod
    def measure(self) -> Measure: ...

    @property
    @abstractmethod
    def total(self) -> Sums: ...

    @abstractmethod
    def _with_total(self, total: Sums) -> Self: ...

    @cached_property
    def budgets(self) -> Sums:
        return self.measure.budgets(self.epsilon, self.delta)

    def fits(self, event: PrivacyEvent) -> bool:
        return fits(self._after(event), self.budgets)

    def spend(self, event: PrivacyEvent) -> Self:
        after = self._after(event)
        if not fits(after, self.budgets):
            raise self._exceeded(after)
        return self._with_total(after)

    def remaining(self) -> float:
        return 1 - consumed(self.total, self.budgets)

    def how_many(self, event: PrivacyEvent) -> int:
        return largest_count(self.fits, event, _MOST_COUNTED)

    def _after(self, event: PrivacyEvent) -> Sums:
        return plus(self.total, self.measure.divergences(event))

    def _exceeded(self, after: Sums) -> BudgetExceeded:
        needed, left, _ = shortfall(self.total, after, self.budgets)
        cost = growth(self.total, after)
        said = describe_shortfall(self.measure, cost, self.total, self.budgets, self.delta)
        return BudgetExceeded(
            f"{said} of epsilon = {self.epsilon:g} (delta = {self.delta:g}); nothing was charged",
            remaining=left,
            requested=needed,
        )


@dataclass(frozen=True)
class ZeroConcentratedFilter(MeasuredFilter):
    """Adds up rho, to the largest total that implies (epsilon, delta).

    Each event may depend on earlier answers. `spend` returns the filter afterwards, or raises
    `BudgetExceeded` and changes nothing.

    >>> from voile.privacy.events import Gaussian
    >>> opened = ZeroConcentratedFilter(epsilon=1.0, delta=1e-6)
    >>> opened.spend(Gaussian(20.0)).remaining() < opened.remaining() == 1.0
    True
    >>> opened.fits(Gaussian(1.0))
    False
    """

    epsilon: float
    delta: float
    spent: float = 0.0
    measure: ClassVar[Measure] = Measure()

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", check_target(self.epsilon, self.delta))

    @property
    def budget(self) -> float:
        return self.budgets[0]

    @property
    def total(self) -> Sums:
        return (self.spent,)

    def _with_total(self, total: Sums) -> Self:
        return replace(self, spent=total[0])
