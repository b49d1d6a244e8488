"""How updates become one change of the global arrays.

Every aggregator sees contributions in order of client name, adds in double precision and rounds
once, so equal updates give equal bits whatever order they arrived in. What it needs to see is part
of its type: an aggregate that only needs the weighted sum can be had without showing anybody a
single update.

| aggregator | needs | withstands |
| --- | --- | --- |
| `FedAvg` | the weighted sum | nothing: one client can move it anywhere |
| `CoordinateMedian` | single updates | fewer than half of the clients, coordinate by coordinate |
| `TrimmedMean` | single updates | the share that is cut at each end |
| `Krum` | single updates | `faulty` clients among 2·`faulty` + 3 or more |
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput
from voile.federation.arrays import Array, Arrays


class Needs(StrEnum):
    """What an aggregator has to see."""

    WEIGHTED_SUM = "the weighted sum of updates"
    SINGLE_UPDATES = "every single update"


@dataclass(frozen=True, eq=False)
class Contribution:
    """A checked update of one client; `size` is what the client declared in public."""

    client: str
    size: int
    change: Arrays


class Aggregator(Protocol):
    """From contributions, at least `fewest`, in order of client name, to one change."""

    @property
    def needs(self) -> Needs: ...

    @property
    def fewest(self) -> int:
        """With fewer updates it cannot keep its promise, and the arrays stay as they are."""

    def combine(self, contributions: Sequence[Contribution]) -> dict[str, Array]: ...


class SumAggregator(Aggregator, Protocol):
    """An aggregator that never has to see a single update."""

    def weight(self, size: int) -> float:
        """The weight of a client, from its declared size."""

    def from_sum(self, total: Arrays, weight: float) -> dict[str, Array]:
        """The change, from the weighted sum and the sum of weights."""


@dataclass(frozen=True)
class FedAvg:
    """The mean of updates, weighted by declared public sizes (federated averaging)."""

    needs = Needs.WEIGHTED_SUM
    fewest = 1

    def weight(self, size: int) -> float:
        return float(size)

    def from_sum(self, total: Arrays, weight: float) -> dict[str, Array]:
        return {name: (value / weight).astype(np.float32) for name, value in total.items()}

    def combine(self, contributions: Sequence[Contribution]) -> dict[str, Array]:
        weights = [self.weight(part.size) for part in contributions]
        total = {
            name: sum(
                weight * part.change[name].astype(np.float64)
                for weight, part in zip(weights, contributions, strict=True)
            )
            for name in contributions[0].change
        }
        return self.from_sum(total, math.fsum(weights))  # type: ignore[arg-type]


@dataclass(frozen=True)
class CoordinateMedian:
    """The median of every coordinate; sizes play no part."""

    needs = Needs.SINGLE_UPDATES
    fewest = 1

    def combine(self, contributions: Sequence[Contribution]) -> dict[str, Array]:
        return _each(contributions, lambda stack: np.median(stack, axis=0))


@dataclass(frozen=True)
class TrimmedMean:
    """The mean of every coordinate without its largest and smallest values.

    Args:
        share: of the clients, cut at each end, rounded up.
    """

    share: float = 0.1
    needs = Needs.SINGLE_UPDATES
    fewest = 1

    def __post_init__(self) -> None:
        if not 0 < self.share < 0.5:
            raise InvalidInput(f"share must lie between 0 and 1/2, found {self.share}")

    def combine(self, contributions: Sequence[Contribution]) -> dict[str, Array]:
        count = len(contributions)
        cut = min(math.ceil(self.share * count), (count - 1) // 2)
        return _each(
            contributions, lambda stack: np.sort(stack, axis=0)[cut : count - cut].mean(axis=0)
        )


@dataclass(frozen=True)
class Krum:
    """The one update that lies closest to its neighbours (Blanchard and others, 2017).

    The score of an update is the sum of squared distances to its n − `faulty` − 2 nearest others;
    the smallest wins, of equal ones that of the first client by name.

    Args:
        faulty: how many clients may be faulty in a round.
    """

    faulty: int
    needs = Needs.SINGLE_UPDATES

    def __post_init__(self) -> None:
        if isinstance(self.faulty, bool) or self.faulty < 0:
            raise InvalidInput(f"faulty must be a whole number of at least 0, found {self.faulty}")

    @property
    def fewest(self) -> int:
        return 2 * self.faulty + 3

    def combine(self, contributions: Sequence[Contribution]) -> dict[str, Array]:
        vectors = np.stack([_flat(part.change) for part in contributions])
        squares = np.einsum("ij,ij->i", vectors, vectors)
        distances = squares[:, np.newaxis] + squares - 2 * vectors @ vectors.T
        np.fill_diagonal(distances, np.inf)
        nearest = np.sort(distances, axis=1)[:, : len(contributions) - self.faulty - 2]
        chosen = contributions[int(nearest.sum(axis=1).argmin())]
        return {name: array.copy() for name, array in chosen.change.items()}


Reduction: TypeAlias = Callable[[NDArray[np.float64]], NDArray[np.float64]]


def _each(contributions: Sequence[Contribution], reduce: Reduction) -> dict[str, Array]:
    """Reduce the first axis (clients) of every array."""
    return {
        name: np.asarray(
            reduce(np.stack([part.change[name].astype(np.float64) for part in contributions])),
            dtype=np.float32,
        )
        for name in contributions[0].change
    }


def _flat(change: Arrays) -> NDArray[np.float64]:
    parts = [change[name].astype(np.float64).ravel() for name in sorted(change)]
    return np.concatenate(parts)
