"""What a shop does where shops share the noise: whole numbers, with its part of the noise.

A user's vector lies on a grid (`voile.recommenders.moments`), so popularity is a whole number of
its steps, and so is every entry of the Gram matrix. The sum that comes of it carries the noise of
all shares. A shop without users sends noise all the same: the others count on it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput
from voile.core.randomness import GeneratorSource
from voile.federation import FitResult, Instruction, RoundProtocol
from voile.federation.arrays import Arrays, Shapes
from voile.federation.pipeline import under
from voile.privacy.events import PrivacyEvent
from voile.privacy.mechanisms.shares import SharedGaussian
from voile.recommenders.budget import TAIL, MomentsBudget
from voile.recommenders.moments import ItemPopularity, popularity, unit_rows
from voile.recommenders.shop import Interactions

NUMBERS: Final = "numbers"
Whole = NDArray[np.int64]


class AgreedMoments(Protocol):
    """What a shop needs of `voile.recommenders.federated.MomentsPlan`."""

    @property
    def budget(self) -> MomentsBudget: ...

    @property
    def sizes(self) -> Mapping[str, int]: ...

    @property
    def protocol(self) -> RoundProtocol: ...

    @property
    def tasks(self) -> Mapping[str, Any]: ...

    def popularity(self, answer: Any) -> ItemPopularity: ...


@dataclass(frozen=True, eq=False)
class SharePopularity:
    """The first stage: a shop's popularity of items, with its part of the noise.

    Args:
        plan: what was agreed on.
    """

    plan: AgreedMoments

    @property
    def noise(self) -> SharedGaussian:
        return self.plan.budget.shared_noises[0]

    @property
    def scale(self) -> float:
        """Steps of the grid in 1."""
        return 2.0**self.plan.budget.bits

    @property
    def shapes(self) -> Shapes:
        return {NUMBERS: (sum(math.prod(shape) for shape in self.noise.shapes),)}

    @cached_property
    def bound(self) -> float:
        """Of one shop's numbers, noise included: what sums are sized for. Public.

        A user adds 1 to a number at most.
        """
        noise = TAIL * max(self.noise.sigmas) / math.sqrt(self.noise.shares)
        return float(math.ceil(self.scale * max(self.plan.sizes.values()) + noise))

    def cost(self, size: int) -> PrivacyEvent:  # noqa: ARG002
        """The whole cost of the sum, whatever a shop's size is."""
        return self.noise.event()

    def fit(
        self, instruction: Instruction, records: Interactions, size: int, source: GeneratorSource
    ) -> FitResult:
        if len(records) > size:
            raise InvalidInput(f"{size} users are declared, and there are {len(records)}")
        noisy = self.noise.randomise(self.exact(instruction, records), source)
        return FitResult({NUMBERS: np.concatenate(noisy)}, self.cost(size))

    def exact(self, instruction: Instruction, records: Interactions) -> Sequence[Whole]:  # noqa: ARG002
        """What noise is added to. For the shop, never for release."""
        return popularity_steps(records, self.plan.budget)

    def evaluate(self, arrays: Arrays, given: Arrays, rows: Any) -> Mapping[str, float]:  # noqa: ARG002
        return {}


@dataclass(frozen=True, eq=False)
class ShareGram(SharePopularity):
    """The second stage, on the head that all shops together have chosen."""

    @property
    def noise(self) -> SharedGaussian:
        return self.plan.budget.shared_noises[1]

    @property
    def scale(self) -> float:
        return 4.0**self.plan.budget.bits

    def exact(self, instruction: Instruction, records: Interactions) -> Sequence[Whole]:
        budget = self.plan.budget
        chosen = self.plan.popularity(under("popularity", instruction.given)[NUMBERS])
        return gram_steps(records, budget, chosen.head(budget.head))


# --- users as steps of the grid -------------------------------------------------------------------


def popularity_steps(records: Interactions, budget: MomentsBudget) -> tuple[Whole]:
    """The sum of users' unit vectors."""
    rows = unit_rows(records.matrix, bits=budget.bits)
    return (_whole(popularity(rows) * 2.0**budget.bits),)


def gram_steps(
    records: Interactions, budget: MomentsBudget, head: NDArray[np.int64]
) -> tuple[Whole, Whole]:
    """The sum of products of users' unit vectors on the head, in halves."""
    rows = unit_rows(records.matrix[:, head], bits=budget.bits)
    return in_halves(_whole((rows.T @ rows).toarray() * 4.0**budget.bits))


def in_halves(matrix: Whole) -> tuple[Whole, Whole]:
    """A symmetric matrix as its entries above the diagonal, and those on it."""
    return matrix[np.triu_indices(len(matrix), 1)], np.diag(matrix).copy()


def popularity_of(numbers: Whole, budget: MomentsBudget) -> NDArray[np.float64]:
    """The sum of all shops, from steps of the grid."""
    return np.asarray(numbers, np.float64) / 2.0**budget.bits


def gram_of(numbers: Whole, budget: MomentsBudget) -> NDArray[np.float64]:
    """The same for the Gram matrix."""
    size, steps = budget.head, np.asarray(numbers, np.float64) / 4.0**budget.bits
    matrix = np.zeros((size, size))
    above, diagonal = np.split(steps, [size * (size - 1) // 2])
    matrix[np.triu_indices(size, 1)] = above
    matrix += matrix.T
    matrix[np.diag_indices(size)] = diagonal
    return matrix


def steps_of(
    values: NDArray[np.float64], matrix: NDArray[np.float64] | None, budget: MomentsBudget
) -> list[Arrays]:
    """The inverse of both, to the bit: the numbers as the rounds left them."""
    found = [_whole(values * 2.0**budget.bits)]
    if matrix is not None:
        found.append(np.concatenate(in_halves(_whole(matrix * 4.0**budget.bits))))
    return [{NUMBERS: numbers} for numbers in found]


def _whole(steps: NDArray[np.float64]) -> Whole:
    return np.rint(steps).astype(np.int64)
