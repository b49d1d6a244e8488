"""Filters: spending that depends on earlier answers, and never exceeds a bound fixed at opening.

The theorem each one uses (proofs and references: docs/guarantees/accounting.md):

- `ZeroConcentratedFilter`: if every event is chosen after seeing earlier answers, and the sum of
  the rho of all events granted never exceeds B, everything together is B-zCDP. B is the largest rho
  that implies the promised (epsilon, delta).
- `RenyiFilter`, one order: the same with the Rényi divergence of that one order, fixed at opening.
- `RenyiFilter`, k orders: each order is a filter by itself, opened at delta/k, and an event is
  granted while at least one of them has never been exceeded. The transcripts on which a given order
  stands in the end are as likely as under its own filter, which costs delta/k.

"Some order of a curve still fits at delta" is not covered by these theorems, and is not offered.
Immutable: `spend` gives the filter after the event. Sums are rounded up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol, Self

import numpy as np

from voile.core.errors import BudgetExceeded, InvalidInput
from voile.privacy.accounting.conversion import check_target, renyi_budget, zcdp_budget
from voile.privacy.accounting.curves import renyi, rho
from voile.privacy.events import PrivacyEvent, Repeated


class Filter(Protocol):
    """What all filters can do."""

    @property
    def epsilon(self) -> float: ...

    @property
    def delta(self) -> float: ...

    def fits(self, event: PrivacyEvent) -> bool:
        """Whether the event could be granted now. Depends on public facts only."""

    def spend(self, event: PrivacyEvent) -> Self:
        """The filter after the event; `BudgetExceeded` if it does not fit."""

    def remaining(self) -> float:
        """The share of the budget that is left, between 0 and 1."""

    def how_many(self, event: PrivacyEvent) -> int:
        """How many more such events would fit, one after the other."""


@dataclass(frozen=True)
class ZeroConcentratedFilter:
    """Sum of rho up to the largest that implies (epsilon, delta)."""

    epsilon: float
    delta: float
    spent: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", check_target(self.epsilon, self.delta))

    @cached_property
    def budget(self) -> float:
        return zcdp_budget(self.epsilon, self.delta)

    def fits(self, event: PrivacyEvent) -> bool:
        return _sum(self.spent, rho(event)) <= self.budget

    def spend(self, event: PrivacyEvent) -> Self:
        if not self.fits(event):
            raise _exceeded(self, "rho", rho(event), self.budget - self.spent)
        return replace(self, spent=_sum(self.spent, rho(event)))

    def remaining(self) -> float:
        return max(0.0, 1 - self.spent / self.budget) if self.budget else 0.0

    def how_many(self, event: PrivacyEvent) -> int:
        return _largest_count(self, event)


@dataclass(frozen=True)
class RenyiFilter:
    """Rényi divergence at one order, or at k orders with delta/k each, fixed at opening."""

    epsilon: float
    delta: float
    orders: tuple[float, ...]
    spent: tuple[float, ...] = field(default=())

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", check_target(self.epsilon, self.delta))
        if not self.orders or min(self.orders) <= 1 or len(set(self.orders)) < len(self.orders):
            raise InvalidInput(f"orders must be different and above 1, found {self.orders}")
        if not self.spent:
            object.__setattr__(self, "spent", (0.0,) * len(self.orders))
        if len(self.spent) != len(self.orders):
            raise InvalidInput("one sum is kept for each order")

    @cached_property
    def budgets(self) -> tuple[float, ...]:
        share = self.delta / len(self.orders)
        return tuple(renyi_budget(order, self.epsilon, share) for order in self.orders)

    def fits(self, event: PrivacyEvent) -> bool:
        return any(
            total <= budget for total, budget in zip(self._after(event), self.budgets, strict=True)
        )

    def spend(self, event: PrivacyEvent) -> Self:
        after = self._after(event)
        if not self.fits(event):
            best = max(range(len(after)), key=lambda i: self.budgets[i] - after[i])
            left = self.budgets[best] - self.spent[best]
            raise _exceeded(self, "Rényi divergence", after[best] - self.spent[best], left)
        return replace(self, spent=after)

    def remaining(self) -> float:
        shares = [
            1 - total / budget if budget > 0 else 0.0
            for total, budget in zip(self.spent, self.budgets, strict=True)
        ]
        return max(0.0, *shares)

    def how_many(self, event: PrivacyEvent) -> int:
        return _largest_count(self, event)

    def _after(self, event: PrivacyEvent) -> tuple[float, ...]:
        costs = renyi(event, np.array(self.orders, dtype=np.float64))
        return tuple(_sum(a, float(b)) for a, b in zip(self.spent, costs, strict=True))


def _sum(spent: float, cost: float) -> float:
    """Rounded up, so that no number of small charges slips below the true sum."""
    return math.nextafter(spent + cost, math.inf)


def _exceeded(filter_: Filter, measure: str, cost: float, left: float) -> BudgetExceeded:
    return BudgetExceeded(
        f"the budget (ε = {filter_.epsilon:g}, δ = {filter_.delta:g}) has {measure} {left:.6g} "
        f"left, this needs {cost:.6g}; nothing was charged",
        remaining=left,
        requested=cost,
    )


def _largest_count(filter_: Filter, event: PrivacyEvent) -> int:
    low, high = 0, 1
    while filter_.fits(Repeated(event, high)):
        low, high = high, 2 * high
        if high > 2**60:
            return low
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if filter_.fits(Repeated(event, middle)) else (low, middle)
    return low
