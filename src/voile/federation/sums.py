"""A weighted sum of updates that is the same to the last bit whatever order they arrive in.

Floating-point sums depend on their order, because every addition rounds. Here no addition rounds:
each term is cut into a multiple of a coarse unit, a multiple of a fine unit, and a rest that is
dropped. Multiples of one unit are added exactly in double precision as long as their sum stays
below 2^52 units, and a public bound on all terms says how coarse the unit must be for that. So the
sum needs two arrays in double precision, however many updates there are.

What is dropped is below n²·2⁻¹⁰³ of the bound for n terms: no float32 result could show it.
(Pre-rounding as in reproducible summation, Demmel and Nguyen 2013.)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput
from voile.federation.arrays import Arrays, Shapes

Totals: TypeAlias = Mapping[str, NDArray[np.float64] | NDArray[np.int64]]
_DIGITS = 52


class OrderFreeSum:
    """Adds up float32 arrays times a weight.

    Args:
        shapes: of every update.
        largest: value of an update, in size.
        weight: of all updates together, at most.
        terms: how many updates there are at most.
    """

    def __init__(self, shapes: Shapes, *, largest: float, weight: float, terms: int) -> None:
        bound = largest * weight
        if not 0 < bound < 1e250 or terms < 1:
            raise InvalidInput(f"nothing bounds this sum: {terms} terms, together {bound}")
        coarse = _exponent_above(2 * bound)
        fine = _exponent_above(terms * math.ldexp(1.0, coarse - _DIGITS))
        self._cuts = math.ldexp(1.5, coarse), math.ldexp(1.5, fine)
        self._sums = {name: (np.zeros(shape), np.zeros(shape)) for name, shape in shapes.items()}
        self.weight = 0.0
        self.terms = 0

    def add(self, arrays: Arrays, weight: float) -> None:
        for name, sums in self._sums.items():
            rest = arrays[name].astype(np.float64)
            rest *= weight
            for cut, total in zip(self._cuts, sums, strict=True):
                # Beside a number this large there is room for multiples of the unit only.
                part = rest + cut
                part -= cut
                total += part
                rest -= part
        self.weight += weight
        self.terms += 1

    @property
    def totals(self) -> Totals:
        return {name: coarse + fine for name, (coarse, fine) in self._sums.items()}


def _exponent_above(number: float) -> int:
    """The smallest e with 2^e above the number."""
    return math.frexp(number)[1]
