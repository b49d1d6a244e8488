"""Which records are part of a step."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

_WORDS = 2**32


def poisson(draw: np.random.Generator, rows: int, rate: float) -> NDArray[np.intp]:
    """The places of the records that are drawn, each with probability `rate`, independently.

    Whole 32-bit words are compared with a whole threshold, so the law is exact for the rate rounded
    *down* to a multiple of 2⁻³². A smaller rate is never less private, so what is charged for
    `rate` covers it. Every step costs `rows` words, however many records are drawn.
    """
    threshold = math.floor(rate * _WORDS)
    if threshold >= _WORDS:
        return np.arange(rows)
    words = draw.integers(0, _WORDS, rows, dtype=np.uint32)
    return np.flatnonzero(words < np.uint32(threshold))
