"""Who explains its data unlike the others, and whose explanations move away.

Both compare with medians, which fewer than half of the parties (or of a party's own rounds) cannot
move. They name parties for people to look at; nothing is done to anybody because of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from voile.pipelines.trusted_averaging.history import TrustHistory

SPREADS: Final = 3.5
"""How many spreads from the median count as odd (Iglewicz and Hoaglin)."""
SMALLEST: Final = 0.02
"""Differences of divergence below this are never odd, however well everybody agrees."""
_NORMAL: Final = 1.4826
"""Median absolute deviation of a normal law, to its standard deviation."""


@dataclass(frozen=True)
class Oddity:
    """A party that stands out in a round: its divergence, and the one that would be usual."""

    round: int
    party: str
    divergence: float
    usual: float

    def __str__(self) -> str:
        return (
            f"{self.party} in round {self.round}: divergence {self.divergence:.3f}, usual "
            f"{self.usual:.3f}"
        )


def outliers(history: TrustHistory) -> tuple[Oddity, ...]:
    """Parties whose divergence in a round lies far above the median of that round."""
    found = []
    for number in (row.round for row in history.common):
        now = {
            name: score.divergence
            for name, rows in history.scores.items()
            for score in rows
            if score.round == number
        }
        limit, usual = _limit(list(now.values()))
        found += [Oddity(number, n, d, usual) for n, d in sorted(now.items()) if d > limit]
    return tuple(found)


def drifts(history: TrustHistory, *, before: int = 3) -> tuple[Oddity, ...]:
    """Parties whose divergence lies far above that of all their own earlier rounds, from the
    round on in which it does so twice in a row."""
    found = []
    for name, rows in sorted(history.scores.items()):
        high = []
        for place, score in enumerate(rows):
            limit, usual = _limit([row.divergence for row in rows[:place]])
            high.append(place >= before and score.divergence > limit)
            if len(high) > 1 and all(high[-2:]) and not (len(high) > 2 and high[-3]):
                found.append(Oddity(score.round, name, score.divergence, usual))
    return tuple(sorted(found, key=lambda oddity: (oddity.round, oddity.party)))


def _limit(values: Sequence[float]) -> tuple[float, float]:
    """Above which a value is odd, and what is usual."""
    if not len(values):
        return np.inf, 0.0
    usual = float(np.median(values))
    spread = _NORMAL * float(np.median(np.abs(np.asarray(values) - usual)))
    return usual + max(SPREADS * spread, SMALLEST), usual
