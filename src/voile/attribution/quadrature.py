"""Rules for integrating over [0, 1] with a given number of points."""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput


class Rule(StrEnum):
    """How points and weights are chosen."""

    GAUSS_LEGENDRE = "gauss-legendre"
    TRAPEZOID = "trapezoid"
    MIDDLE = "middle"
    LEFT = "left"
    RIGHT = "right"


@lru_cache(maxsize=64)
def points_and_weights(rule: Rule, steps: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Points in [0, 1] and weights that add up to 1, shape (steps,) each."""
    fewest = 2 if rule is Rule.TRAPEZOID else 1
    if steps < fewest:
        raise InvalidInput(f"the rule {rule.value!r} needs at least {fewest} steps, found {steps}")
    even = np.full(steps, 1 / steps)
    match rule:
        case Rule.GAUSS_LEGENDRE:
            points, weights = np.polynomial.legendre.leggauss(steps)
            return (1 + points) / 2, weights / 2
        case Rule.TRAPEZOID:
            weights = np.full(steps, 1 / (steps - 1))
            weights[[0, -1]] /= 2
            return np.linspace(0, 1, steps), weights
        case Rule.MIDDLE:
            return (np.arange(steps) + 0.5) / steps, even
        case Rule.LEFT:
            return np.arange(steps) / steps, even
        case Rule.RIGHT:
            return np.arange(1, steps + 1) / steps, even
