"""Advanced composition and Rényi accounting, and the interface of all accountants."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput
from voile.privacy.accounting.accountants import Basic, EventList, alone, share_of
from voile.privacy.accounting.conversion import check_target, renyi, renyi_to_epsilon
from voile.privacy.events import Leaf, PrivacyEvent, Repeated

DEFAULT_ORDERS = (*range(2, 33), 36, 40, 48, 56, 64, 96, 128, 256, 512)


class Accountant(Protocol):
    """What all accountants can do."""

    def compose(self, event: PrivacyEvent, times: int = 1) -> Self:
        """The accountant after `times` more such events."""

    def epsilon(self, delta: float) -> float:
        """An epsilon that, with this delta, covers everything composed so far.

        A delta below `SMALLEST_DELTA` is read, and has to be stated, as `SMALLEST_DELTA`.
        """


@dataclass(frozen=True)
class Advanced(EventList):
    """Advanced composition (Kairouz, Oh and Viswanath 2015, Theorem 3.5), never above basic.

    Half of delta pays for the theorem, the other half is shared out over the events.
    """

    def epsilon(self, delta: float) -> float:
        delta = check_target(1.0, delta, pure=True)
        basic = Basic(self.events).epsilon(delta)
        if delta == 0:
            return basic
        return min(basic, max(self._of(way, delta / 2) for way in self._ways()))

    def _of(self, way: dict[Leaf, int], half: float) -> float:
        share = share_of(way, half)
        each = [(alone(leaf, share), times) for leaf, times in way.items()]
        drift = math.fsum(times * e * math.tanh(e / 2) for e, times in each)
        squares = math.fsum(times * e * e for e, times in each)
        spread = min(1 / half, math.e + math.sqrt(squares) / half)
        return drift + math.sqrt(2 * squares * math.log(spread))


@dataclass(frozen=True, eq=False)
class Renyi:
    """Rényi differential privacy at several orders; the best one is read off at the end."""

    orders: tuple[float, ...] = DEFAULT_ORDERS
    divergences: NDArray[np.float64] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not self.orders or min(self.orders) <= 1:
            raise InvalidInput(f"orders must lie above 1, found {self.orders}")

    def compose(self, event: PrivacyEvent, times: int = 1) -> Self:
        more = renyi(Repeated(event, times), np.array(self.orders, dtype=np.float64))
        before = self.divergences
        return type(self)(self.orders, more if before is None else before + more)

    def epsilon(self, delta: float) -> float:
        delta = check_target(1.0, delta)
        if self.divergences is None:
            return 0.0
        return min(
            renyi_to_epsilon(order, float(divergence), delta)
            for order, divergence in zip(self.orders, self.divergences, strict=True)
        )
