"""How updates become one change of the global arrays.

What an aggregator has to see is its type. A `SumAggregator` gets the weighted sum of updates and
nothing else, so nobody need be shown a single update; an `UpdateAggregator` gets all of them, in
order of client name. Both round once, so equal updates give equal bits whatever order they arrive
in. Either may remember something from round to round, which is kept with the arrays.

| aggregator | sees | remembers | withstands |
| --- | --- | --- | --- |
| `FedAvg` | the weighted sum | nothing | nothing: one client can move it anywhere |
| `LevelAvg` | the weighted sum | nothing | nothing |
| `WholeSum` | the sum | nothing | nothing |
| `FedAdam`, `FedYogi` | the weighted sum | two moments of the change | nothing |
| `CoordinateMedian` | single updates | nothing | fewer than half of the clients, in each value |
| `TrimmedMean` | single updates | nothing | the share that is cut at each end |
| `Krum` | single updates | nothing | `faulty` clients among 2·`faulty` + 3 or more |
| `CentredClipping` | single updates | the last change | fewer than half: each pulls by a radius |
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput
from voile.federation.arrays import Array, Arrays, Shapes
from voile.federation.stored_text import stored_as
from voile.federation.sums import Totals

Memory: TypeAlias = Mapping[str, NDArray[np.float64]]
"""What an aggregator remembers between rounds, as arrays by name."""


@dataclass(frozen=True, eq=False)
class Contribution:
    """A checked update of one client; `size` is what the client declared in public."""

    client: str
    size: int
    change: Arrays


class CombinedUpdate(NamedTuple):
    """The change of the global arrays, and what is remembered for the next round."""

    change: Arrays
    memory: Memory


class _Aggregator:
    @property
    def fewest(self) -> int:
        """With fewer updates it cannot keep its promise, and the arrays stay as they are."""
        return 1

    def remembered(self, shapes: Shapes) -> Memory:  # noqa: ARG002
        """What it remembers before the first round."""
        return {}


class SumAggregator(_Aggregator, ABC):
    """Never has to see a single update."""

    def weight(self, client: str, size: int) -> float:  # noqa: ARG002
        """The weight of a client, from what it declares in public."""
        return float(size)

    @abstractmethod
    def from_sum(self, total: Totals, weight: float, memory: Memory) -> CombinedUpdate:
        """From the weighted sum and the sum of weights."""


class UpdateAggregator(_Aggregator, ABC):
    """Has to see every single update."""

    @abstractmethod
    def combine(self, contributions: Sequence[Contribution], memory: Memory) -> CombinedUpdate:
        """From at least `fewest` contributions, in order of client name."""


Aggregator: TypeAlias = SumAggregator | UpdateAggregator


@stored_as("FedAvg")
@dataclass(frozen=True)
class FedAvg(SumAggregator):
    """The mean of updates, weighted by declared public sizes (federated averaging)."""

    def from_sum(self, total: Totals, weight: float, memory: Memory) -> CombinedUpdate:
        mean = {name: (value / weight).astype(np.float32) for name, value in total.items()}
        return CombinedUpdate(mean, memory)


@stored_as("LevelAvg")
@dataclass(frozen=True)
class LevelAvg(FedAvg):
    """The mean of updates, weighted by declared sizes over the variance of a client's noise.

    Where clients have noise of their own, z times the clipping norm, their updates are as uncertain
    as z says: size/z² weighs them by what can be learned from them. All of it is public.

    Args:
        noise: z of each client by name.
    """

    noise: tuple[tuple[str, float], ...]

    def __post_init__(self) -> None:
        for client, multiplier in self.noise:
            if not 0 < multiplier < math.inf:
                raise InvalidInput(f"the noise of {client!r} must be above 0, found {multiplier}")

    def weight(self, client: str, size: int) -> float:
        return size / dict(self.noise)[client] ** 2


@stored_as("WholeSum")
@dataclass(frozen=True)
class WholeSum(SumAggregator):
    """The sum itself, of whole numbers: no weights, and nothing is rounded.

    >>> totals = {"counts": np.array([3, 4])}
    >>> WholeSum().from_sum(totals, 2.0, {}).change["counts"].tolist()
    [3, 4]
    """

    def weight(self, client: str, size: int) -> float:  # noqa: ARG002
        return 1.0

    def from_sum(self, total: Totals, weight: float, memory: Memory) -> CombinedUpdate:  # noqa: ARG002
        if any(value.dtype != np.int64 for value in total.values()):
            raise InvalidInput("a sum of whole numbers is for arrays of int64")
        change = {name: value.astype(np.int64) for name, value in total.items()}
        return CombinedUpdate(change, memory)


def check_whole(clients: int, largest: float) -> None:
    """Refuse sums of whole numbers that 64 bits could not hold."""
    if clients * largest >= 2.0**63:
        raise InvalidInput(
            f"{clients} updates of whole numbers up to {largest:g} may add up to more than 64 bits "
            "hold; declare a smaller largest_change"
        )


@stored_as("FedAdam")
@dataclass(frozen=True)
class FedAdam(SumAggregator):
    """The mean of updates as a gradient that the server follows with Adam (Reddi et al. 2021).

    What is private stays private: the server computes with updates that have left already.

    Args:
        rate: how far a step goes.
        first, second: how slowly the two moments forget.
        caution: keeps steps small where changes are; also where the second moment begins, squared.
    """

    rate: float = 0.03
    first: float = 0.9
    second: float = 0.99
    caution: float = 1e-3

    def __post_init__(self) -> None:
        shares = 0 <= self.first < 1 and 0 <= self.second < 1
        if not (shares and 0 < self.rate < math.inf and 0 < self.caution < math.inf):
            raise InvalidInput(
                "rate and caution must be above 0, first and second in [0, 1), found "
                f"{self.rate}, {self.caution}, {self.first}, {self.second}"
            )

    def remembered(self, shapes: Shapes) -> Memory:
        first = {f"first/{name}": np.zeros(shape) for name, shape in shapes.items()}
        second = {f"second/{n}": np.full(shape, self.caution**2) for n, shape in shapes.items()}
        return first | second

    def from_sum(self, total: Totals, weight: float, memory: Memory) -> CombinedUpdate:
        change: dict[str, Array] = {}
        kept: dict[str, NDArray[np.float64]] = {}
        for name, value in total.items():
            mean = value / weight
            first = self.first * memory[f"first/{name}"] + (1 - self.first) * mean
            second = self._second(memory[f"second/{name}"], np.square(mean))
            kept |= {f"first/{name}": first, f"second/{name}": second}
            change[name] = (self.rate * first / (np.sqrt(second) + self.caution)).astype(np.float32)
        return CombinedUpdate(change, kept)

    def _second(
        self, before: NDArray[np.float64], square: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        return self.second * before + (1 - self.second) * square


@stored_as("FedYogi")
@dataclass(frozen=True)
class FedYogi(FedAdam):
    """As `FedAdam`, but the second moment follows changes by their sign (Reddi et al. 2021)."""

    def _second(
        self, before: NDArray[np.float64], square: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        return before - (1 - self.second) * square * np.sign(before - square)


@stored_as("CoordinateMedian")
@dataclass(frozen=True)
class CoordinateMedian(UpdateAggregator):
    """The median of every coordinate; sizes play no part."""

    def combine(self, contributions: Sequence[Contribution], memory: Memory) -> CombinedUpdate:
        return CombinedUpdate(_each(contributions, lambda stack: np.median(stack, axis=0)), memory)


@stored_as("TrimmedMean")
@dataclass(frozen=True)
class TrimmedMean(UpdateAggregator):
    """The mean of every coordinate without its largest and smallest values.

    Args:
        share: of the clients, cut at each end, rounded up.
    """

    share: float = 0.1

    def __post_init__(self) -> None:
        if not 0 < self.share < 0.5:
            raise InvalidInput(f"share must lie between 0 and 1/2, found {self.share}")

    def combine(self, contributions: Sequence[Contribution], memory: Memory) -> CombinedUpdate:
        count = len(contributions)
        cut = min(math.ceil(self.share * count), (count - 1) // 2)
        kept = slice(cut, count - cut)
        mean = _each(contributions, lambda stack: np.sort(stack, axis=0)[kept].mean(axis=0))
        return CombinedUpdate(mean, memory)


@stored_as("Krum")
@dataclass(frozen=True)
class Krum(UpdateAggregator):
    """The one update that lies closest to its neighbours (Blanchard and others, 2017).

    The score of an update is the sum of squared distances to its n − `faulty` − 2 nearest others;
    the smallest wins, of equal ones that of the first client by name.

    Args:
        faulty: how many clients may be faulty in a round.
    """

    faulty: int

    def __post_init__(self) -> None:
        if isinstance(self.faulty, bool) or self.faulty < 0:
            raise InvalidInput(f"faulty must be a whole number of at least 0, found {self.faulty}")

    @property
    def fewest(self) -> int:
        return 2 * self.faulty + 3

    def combine(self, contributions: Sequence[Contribution], memory: Memory) -> CombinedUpdate:
        vectors = np.stack([_flat(part.change) for part in contributions])
        squares = np.einsum("ij,ij->i", vectors, vectors)
        distances = squares[:, np.newaxis] + squares - 2 * vectors @ vectors.T
        np.fill_diagonal(distances, np.inf)
        nearest = np.sort(distances, axis=1)[:, : len(contributions) - self.faulty - 2]
        chosen = contributions[int(nearest.sum(axis=1).argmin())]
        return CombinedUpdate({name: array.copy() for name, array in chosen.change.items()}, memory)


@stored_as("CentredClipping")
@dataclass(frozen=True)
class CentredClipping(UpdateAggregator):
    """A mean in which nobody pulls further than a radius (Karimireddy, He and Jaggi, 2021).

    Begins at the change of the round before and goes, a few times, to the mean of all updates, each
    first moved to within the radius around the present centre. Unlike a median it loses nothing
    where honest updates differ: whatever lies within the radius counts in full.

    Args:
        reach: the radius, in median distances of updates from the centre: the scale of updates
            changes over a training, and fewer than half of the clients cannot move the median.
        times: how often the centre is moved in a round.
    """

    reach: float = 1.0
    times: int = 3

    def __post_init__(self) -> None:
        if not 0 < self.reach < math.inf or isinstance(self.times, bool) or self.times < 1:
            raise InvalidInput(
                f"reach must be above 0 and times at least 1, found {self.reach} and {self.times}"
            )

    @property
    def fewest(self) -> int:
        return 3

    def remembered(self, shapes: Shapes) -> Memory:
        return {f"centre/{name}": np.zeros(shape) for name, shape in shapes.items()}

    def combine(self, contributions: Sequence[Contribution], memory: Memory) -> CombinedUpdate:
        names = sorted(contributions[0].change)
        vectors = np.stack([_flat(part.change) for part in contributions])
        centre = np.concatenate([memory[f"centre/{name}"].ravel() for name in names])
        for _ in range(self.times):
            away = vectors - centre
            lengths = np.linalg.norm(away, axis=1)
            radius = self.reach * float(np.median(lengths))
            kept = np.minimum(1.0, radius / np.maximum(lengths, np.finfo(float).tiny))
            centre = centre + (away * kept[:, np.newaxis]).mean(axis=0)
        change = _unflat(centre, contributions[0].change)
        narrow = {name: array.astype(np.float32) for name, array in change.items()}
        return CombinedUpdate(narrow, {f"centre/{name}": array for name, array in change.items()})


Reduction: TypeAlias = Callable[[NDArray[np.float64]], NDArray[np.float64]]


MEAN: Final = "mean"
AGGREGATORS: Final[Mapping[str, Aggregator]] = {
    MEAN: FedAvg(),
    "adam": FedAdam(),
    "yogi": FedYogi(),
    "median": CoordinateMedian(),
    "trimmed mean": TrimmedMean(),
    "krum": Krum(faulty=1),
    "centred clipping": CentredClipping(),
}
"""By the name that a federation gives it."""


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


def _unflat(vector: NDArray[np.float64], like: Arrays) -> dict[str, NDArray[np.float64]]:
    """The inverse of `_flat`."""
    names = sorted(like)
    parts = np.split(vector, np.cumsum([like[name].size for name in names])[:-1])
    return {n: part.reshape(like[n].shape) for n, part in zip(names, parts, strict=True)}
