"""Plans: a complete list of events, fixed before the first of them and accounted for exactly."""

from __future__ import annotations

from dataclasses import dataclass

from voile.core.errors import BudgetExceeded, InvalidInput
from voile.privacy.accounting.accountants import PrivacyLoss
from voile.privacy.accounting.conversion import check_target
from voile.privacy.events import Composed, PrivacyEvent


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
                f"the plan needs epsilon {needed:.6g} at delta {self.delta:g}, it was given "
                f"{self.epsilon:g}; nothing was charged",
                remaining=self.epsilon,
                requested=needed,
            )

    def needed(self) -> float:
        """The epsilon of the whole list at the plan's delta."""
        return PrivacyLoss().compose(Composed(self.events)).epsilon(self.delta)
