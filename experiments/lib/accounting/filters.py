"""A filter in Rényi divergences, and the interface of all filters.

The theorem it uses (proofs and references: docs/guarantees/accounting.md):

- one order: if every event is chosen after seeing earlier answers, and the sum of the Rényi
  divergences at that order, fixed at opening, never exceeds the bound, the promise holds;
- k orders: each order is a filter by itself, opened at delta/k, and an event is granted while at
  least one of them has never been exceeded. The transcripts on which a given order stands in the
  end are as likely as under its own filter, which costs delta/k.

"Some order of a curve still fits at delta" is not covered by these theorems, and is not offered.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, Protocol, Self

from voile.core.errors import InvalidInput
from voile.privacy.accounting.conversion import check_target
from voile.privacy.accounting.measures import Measure, MeasuredFilter, Sums
from voile.privacy.events import PrivacyEvent


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
class RenyiFilter(MeasuredFilter):
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
