"""A budget at one moment, for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from voile.core.guarantee import Protected


@dataclass(frozen=True)
class BudgetStatus:
    """What is used and left.

    Args:
        used: the share of it, between 0 and 1.
        left: what can still be spent; less than the rest where an account above has less.
        epsilon_spent: what was spent, read as an epsilon at the account's delta.
        where: the database, in words.
    """

    view: ClassVar[str] = "budget"

    account: str
    protected: Protected
    epsilon: float
    delta: float
    used: float
    left: float
    epsilon_spent: float | None
    where: str

    def __str__(self) -> str:
        spent = self.epsilon_spent
        reading = "" if not spent else f"; what was spent reads as ε = {spent:.3g}"
        return (
            f"Budget {self.account!r}: {self.used:.1%} used, {self.left:.1%} left of "
            f"ε = {self.epsilon:g}, δ = {self.delta:g}{reading}\n"
            f"  protects {self.protected}; {self.where}"
        )
