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
Immutable: `spend` gives the filter after the event. `measures` adds up, rounding up.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, Final, Protocol, Self

from voile.core.errors import BudgetExceeded, InvalidInput
from voile.privacy.accounting.conversion import check_target
from voile.privacy.accounting.measures import (
    Measure,
    Sums,
    consumed,
    fits,
    largest_count,
    plus,
    shortfall,
)
from voile.privacy.events import PrivacyEvent

_MOST_COUNTED: Final = 2**60


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


class _MeasuredFilter(ABC):
    """Sums in a measure up to the largest that imply (epsilon, delta)."""

    epsilon: float
    delta: float
    cost_name: ClassVar[str]

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
        return BudgetExceeded(
            f"the budget (ε = {self.epsilon:g}, δ = {self.delta:g}) has {self.cost_name} "
            f"{left:.6g} left, this needs {needed:.6g}; nothing was charged",
            remaining=left,
            requested=needed,
        )


@dataclass(frozen=True)
class ZeroConcentratedFilter(_MeasuredFilter):
    """Sum of rho up to the largest that implies (epsilon, delta)."""

    epsilon: float
    delta: float
    spent: float = 0.0
    cost_name: ClassVar[str] = "rho"
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


@dataclass(frozen=True)
class RenyiFilter(_MeasuredFilter):
    """Rényi divergence at one order, or at k orders with delta/k each, fixed at opening."""

    epsilon: float
    delta: float
    orders: tuple[float, ...]
    spent: tuple[float, ...] = field(default=())
    cost_name: ClassVar[str] = "Rényi divergence"

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", check_target(self.epsilon, self.delta))
        if not self.orders:
            raise InvalidInput("a Rényi filter needs at least one order")
        object.__setattr__(self, "spent", self.spent or self.measure.nothing)
        if len(self.spent) != len(self.orders):
            raise InvalidInput("one sum is kept for each order")

    @cached_property
    def measure(self) -> Measure:
        return Measure(self.orders)

    @property
    def total(self) -> Sums:
        return self.spent

    def _with_total(self, total: Sums) -> Self:
        return replace(self, spent=total)
