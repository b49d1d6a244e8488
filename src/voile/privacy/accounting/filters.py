"""Filters: spending that depends on earlier answers, and never exceeds a bound fixed at opening.

The theorem it uses (proofs and references: docs/guarantees/accounting.md):

- `ZeroConcentratedFilter`: if every event is chosen after seeing earlier answers, and the sum of
  the rho of all events granted never exceeds B, everything together is B-zCDP. B is the largest rho
  that implies the promised (epsilon, delta).

Immutable: `spend` gives the filter after the event. `measures` adds up, rounding up.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Final, Self

from voile.core.errors import BudgetExceeded
from voile.privacy.accounting.conversion import check_target
from voile.privacy.accounting.measures import (
    Measure,
    Sums,
    consumed,
    describe_shortfall,
    fits,
    growth,
    largest_count,
    plus,
    shortfall,
)
from voile.privacy.events import PrivacyEvent

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
