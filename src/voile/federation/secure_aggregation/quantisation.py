"""Numbers as integers that can be masked: clipped, weighted, scaled, rounded to the nearest.

A value x of a party with weight w becomes q = round(clip(x, ±bound)·w·2^k), kept within its cap
⌈bound·w·2^k⌉. The sum of the caps of everybody who is asked stays below half of the modulus, which
is checked in exact arithmetic when a federation is built: no sum of any of them can wrap around, so
the signed value of the sum modulo 2^width is the sum. Proof: docs/guarantees/secure-sum.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from voile.core.errors import InvalidInput
from voile.federation.secure_aggregation.masking import Words

WIDTHS: Final = (32, 64)
FINE_ENOUGH: Final = 1e-6
"""Of the bound: if 32 bits err more in the mean of everybody, 64 are used."""
_EXACT: Final = 52
"""Bits of one party's integer at most, so that double precision holds it and half a unit."""
_FINEST: Final = 1000


@dataclass(frozen=True)
class Quantisation:
    """From values to unsigned integers and back; `for_sum` chooses width and scale.

    Args:
        bound: values are clipped to this size.
        weights: of everybody who is asked; public.
        width: of the integers, in bits.
        digits: binary ones after the point.
    """

    bound: float
    weights: tuple[float, ...]
    width: int
    digits: int

    def __post_init__(self) -> None:
        sound = 0 < self.bound < math.inf and all(0 < w < math.inf for w in self.weights)
        if not sound or not self.weights or self.width not in WIDTHS:
            raise InvalidInput(
                "a sum of integers needs a finite bound, weights above 0 and a width of 32 or 64 "
                f"bits, found {self.bound}, {self.weights[:5]}, {self.width}"
            )
        if abs(self.digits) > _FINEST or not _fits(self):
            raise InvalidInput(
                f"values up to {self.bound} with weights of {sum(self.weights):g} in all do not "
                f"fit into {self.width} bits at 2^-{self.digits}: sums could wrap around"
            )

    @classmethod
    def for_sum(cls, bound: float, weights: Iterable[float]) -> Quantisation:
        """The finest that cannot wrap around, in 32 bits where that is fine enough."""
        weights = tuple(map(float, weights))
        total = bound * sum(weights)
        if not 0 < total < math.inf:
            raise InvalidInput(f"nothing bounds this sum: {len(weights)} terms, together {total}")
        narrow, wide = (cls.finest(bound, weights, width) for width in WIDTHS)
        return narrow if narrow.error_of_mean(weights) <= FINE_ENOUGH * bound else wide

    @classmethod
    def finest(cls, bound: float, weights: Iterable[float], width: int) -> Quantisation:
        """The finest of this width that cannot wrap around."""
        weights = tuple(map(float, weights))
        room = min(width - 1, _EXACT + 1)
        most = room - math.frexp(bound * sum(weights))[1] + 1
        for digits in range(most, most - 70, -1):
            with suppress(InvalidInput):
                return cls(bound, weights, width, digits)
        raise InvalidInput(f"{len(weights)} parties are too many for sums in {width} bits")

    @property
    def dtype(self) -> Any:
        return np.uint32 if self.width == 32 else np.uint64

    def cap(self, weight: float) -> int:
        """The largest integer of a party with this weight, in size."""
        return math.ceil(self._unit * Fraction(self.bound) * Fraction(weight))

    def to_words(self, values: ArrayLike, weight: float) -> Words:
        """The integers of one party. No value raises anything: NaN counts as 0."""
        clipped = np.clip(np.asarray(values, dtype=np.float64), -self.bound, self.bound)
        scaled = np.rint(np.nan_to_num(clipped, nan=0.0) * self._factor(weight))
        cap = self.cap(weight)
        whole = np.clip(scaled, -cap, cap).astype(np.int64)
        return whole.astype(self.dtype)

    def from_words(self, total: Words) -> NDArray[np.float64]:
        """The weighted sum of values."""
        return np.ldexp(self._signed(total).astype(np.float64), -self.digits)

    def within(self, total: Words, weights: Iterable[float]) -> bool:
        """Whether parties with these weights can have made this sum together."""
        largest = sum(self.cap(weight) for weight in weights)
        return all(-largest <= int(x) <= largest for x in _extremes(self._signed(total)))

    def _signed(self, total: Words) -> NDArray[np.int64]:
        return total.view(np.int32 if self.width == 32 else np.int64).astype(np.int64)

    def error(self, weights: Sequence[float]) -> float:
        """How far a sum of parties with these weights is at most from that of clipped values.

        Half a unit each for rounding, and what double precision loses before it and in the end.
        """
        lost = sum(math.ldexp(float(self.cap(weight)), -52) for weight in weights)
        return math.ldexp(0.5 * len(weights) + lost, -self.digits)

    def error_of_mean(self, weights: Sequence[float]) -> float:
        """The same for the mean with these weights."""
        return self.error(weights) / sum(weights)

    @property
    def _unit(self) -> Fraction:
        return Fraction(2) ** self.digits

    def _factor(self, weight: float) -> float:
        return math.ldexp(weight, self.digits)


@dataclass(frozen=True)
class WholeNumbers:
    """Whole numbers as they are, modulo 2^width: nothing is rounded, weighted or clipped.

    A sum that leaves the range wraps around, which is a fault of the result and tells nothing: it
    is computed from the sum alone.

    Args:
        bound: of one party's numbers, in size; public.
        parties: how many are asked.
    """

    bound: float
    parties: int

    @property
    def width(self) -> int:
        narrow, wide = WIDTHS
        return narrow if self.parties * self.bound < 2 ** (narrow - 1) else wide

    @property
    def dtype(self) -> Any:
        return np.uint32 if self.width == 32 else np.uint64

    def to_words(self, values: ArrayLike, weight: float) -> Words:  # noqa: ARG002
        """The numbers of one party, of int64. No number raises anything."""
        return np.asarray(values, dtype=np.int64).astype(self.dtype)

    def from_words(self, total: Words) -> NDArray[np.int64]:
        return total.view(np.int32 if self.width == 32 else np.int64).astype(np.int64)

    def within(self, total: Words, weights: Iterable[float]) -> bool:
        """Whether so many parties, of the weight 1 each, can have made this sum together."""
        largest = sum(weights) * self.bound
        return all(-largest <= int(x) <= largest for x in _extremes(self.from_words(total)))

    def error_of_mean(self, weights: Sequence[float]) -> float:  # noqa: ARG002
        return 0.0


def _extremes(values: NDArray[np.int64]) -> tuple[int, ...]:
    return (int(values.min()), int(values.max())) if values.size else ()


def _fits(found: Quantisation) -> bool:
    caps = [found.cap(weight) for weight in found.weights]
    return bool(sum(caps) < 2 ** (found.width - 1) and max(caps) <= 2**_EXACT)
