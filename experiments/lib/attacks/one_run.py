"""Lower bounds from a single run with many canaries (Steinke, Nasr and Jagielski 2023).

Each of m canaries is in by a fair coin, and a guess is made about r of them. Under pure epsilon the
number of right guesses is no larger, in law, than a binomial one with chance e^ε/(1 + e^ε); with
delta, a correction of at most 2·m·δ times a tail of that law. One run says far less than a betting
test over many: at 99.9 % with 100,000 canaries noise ×0.6 is not found out.
"""

from __future__ import annotations

import math

import numpy as np

from voile.core.errors import InvalidInput
from voile.privacy.accounting.conversion import gaussian_noise_multiplier


def p_value(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """How likely so many right guesses are, at most, if (epsilon, delta) is true (Theorem 5.2)."""
    from scipy.stats import binom

    if not 0 <= right <= guesses <= canaries or guesses < 1:
        raise InvalidInput(
            f"expected 0 <= right <= guesses <= canaries, found {right}, {guesses}, {canaries}"
        )
    chance = 1 / (1 + math.exp(-epsilon))
    tail = float(binom.sf(right - 1, guesses, chance))
    if delta == 0:
        return tail
    # α = max over i of P(right − i ≤ K < right)/i: delta may move that much of the law at once.
    steps = np.arange(1, right + 1)
    below = binom.sf(right - 1 - steps, guesses, chance) - tail
    slope = float(np.max(below / steps)) if right else 0.0
    return min(1.0, tail + 2 * canaries * delta * slope)


def epsilon_at_least(
    canaries: int, guesses: int, right: int, *, delta: float, confidence: float = 0.95
) -> float:
    """The largest epsilon that one run refutes, at this confidence; 0 if none."""
    risk = 1 - confidence
    if p_value(canaries, guesses, right, 0.0, delta) > risk:
        return 0.0
    low, high = 0.0, 1.0
    while p_value(canaries, guesses, right, high, delta) <= risk:
        low, high = high, high * 2
        if high > 100:
            return high
    for _ in range(50):
        middle = (low + high) / 2
        refuted = p_value(canaries, guesses, right, middle, delta) <= risk
        low, high = (middle, high) if refuted else (low, middle)
    return low


def curve_epsilon_at_least(
    canaries: int, guesses: int, right: int, *, delta: float, confidence: float = 0.95
) -> float:
    """The same against Gaussian trade-off curves: the largest epsilon, at delta, of a Gaussian
    mechanism that one run refutes (Mahloujifar, Melis and Chaudhuri 2024, Algorithm 3)."""

    def refuted(epsilon: float) -> bool:
        mu = 1 / gaussian_noise_multiplier(epsilon, delta)
        return _excess(canaries, guesses, right, mu, 1 - confidence) > 0

    least = 1e-6
    if not refuted(least):
        return 0.0
    low, high = least, 1.0
    while refuted(high):
        low, high = high, high * 2
        if high > 100:
            return high
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def _excess(canaries: int, guesses: int, right: int, mu: float, risk: float) -> float:
    """Above 0 if so many right guesses are less likely than `risk` under a Gaussian curve.

    From the largest number of right guesses downward: what may be right (r), and what may be wrong
    (h) at least, as the curve couples the two; together they cannot exceed the share guessed.
    """
    from scipy.special import ndtr, ndtri

    r, h = risk * right / canaries, risk * (guesses - right) / canaries
    for number in reversed(range(right)):
        least = max(h, float(ndtr(ndtri(r) - mu)))
        if least == h:
            break
        r = min(1.0, r + number / (guesses - number) * (least - h))
        h = least
    return r + h - guesses / canaries
