"""How much of a budget is gone, in the words of the privacy guide."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from voile.privacy.weakness import weaknesses

THRESHOLDS: Final = (50, 75, 90)
"""Percent of a budget; reaching one is recorded exactly once for each account and period."""


class Risk(StrEnum):
    """LOW below 50 %, MEDIUM from 50 to 75 %, HIGH above 75 %; HIGH where the promise itself is
    close to none, however little is used."""

    LOW = "LOW"
    MEDIUM = "MEDIUM"
    HIGH = "HIGH"

    @classmethod
    def of(cls, share: float, epsilon: float, delta: float) -> Risk:
        """The risk at a consumed share, between 0 and 1, of this promise."""
        if weaknesses(epsilon, delta):
            return cls.HIGH
        if share < 0.5:
            return cls.LOW
        return cls.MEDIUM if share <= 0.75 else cls.HIGH


@dataclass(frozen=True)
class Alert:
    """An account has used at least `threshold` percent of its budget."""

    account: str
    period: int
    threshold: int
    time: float
    charge: str

    def __str__(self) -> str:
        word = "CRITICAL" if self.threshold >= 90 else "WARNING"
        return f"[{word}] {self.account}: {self.threshold} % of the privacy budget is consumed"


def reached(already: int, share: float) -> tuple[int, ...]:
    """The thresholds that a share between 0 and 1 has reached, and that were not recorded yet."""
    if share < 0.5 or math.isnan(share):
        return ()
    return tuple(each for each in THRESHOLDS if already < each <= 100 * share)
