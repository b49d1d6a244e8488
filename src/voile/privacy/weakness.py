"""Promises that are kept and worth little: said wherever one is made, never inferred from data."""

from __future__ import annotations

from typing import Final

LARGEST_EPSILON: Final = 10.0
LARGEST_DELTA: Final = 1e-3


def weaknesses(epsilon: float, delta: float) -> tuple[str, ...]:
    """Why a promise means little; nothing for one in the usual range."""
    found = []
    if epsilon > LARGEST_EPSILON:
        found.append(
            f"epsilon = {epsilon:g}: somebody who sees the release may become e^{epsilon:g} times "
            "surer of one record; above 10 the formal promise is close to none"
        )
    if delta > LARGEST_DELTA:
        found.append(
            f"delta = {delta:g}: such a promise allows publishing each record with probability "
            "delta; choose delta well below one over the number of records"
        )
    return tuple(found)
