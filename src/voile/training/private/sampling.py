"""Which records are part of a step."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

_FIRST, _SECOND = 2**16, 2**32
_WORDS_AT_ONCE = 2**17


def poisson_samples(
    draw: np.random.Generator, rows: int, rate: float, steps: int
) -> Iterator[NDArray[np.intp]]:
    """For each step the places of its records, each drawn with probability `rate`, independently.

    Whole random words are compared with a whole threshold, so the law is exact for the rate rounded
    *down* to a multiple of 2⁻⁴⁸. A smaller rate is never less private, so what is charged for
    `rate` covers it. Sixteen bits decide almost always; only where they equal those of the
    threshold do thirty-two more.
    """
    first, second = divmod(math.floor(rate * _FIRST * _SECOND), _SECOND)
    block = max(1, min(steps, _WORDS_AT_ONCE // max(rows, 1)))
    for start in range(0, steps, block):
        words = draw.integers(0, _FIRST, (min(block, steps - start), rows), dtype=np.uint16)
        inside = words < first
        tied = words == first
        inside[tied] = draw.integers(0, _SECOND, int(tied.sum()), dtype=np.uint32) < second
        yield from map(np.flatnonzero, inside)
