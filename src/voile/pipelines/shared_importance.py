"""What a party does where parties share the noise of an importance: whole numbers, with its part.

Absolute attributions are added up over the party's rows, not averaged, and the sums are rounded to
multiples of a public step. So a secure sum adds up whole numbers, and numbers of rows, which are
public, make a mean of it. Proof: docs/guarantees/secure-sum.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput
from voile.core.guarantee import Relation
from voile.core.randomness import GeneratorSource
from voile.federation import FitResult, Instruction
from voile.federation.arrays import Arrays, Shapes
from voile.federation.task import Unprotected
from voile.pipelines.facts import FederationFacts
from voile.privacy.accounting.conversion import zcdp_budget, zcdp_to_epsilon
from voile.privacy.events import PrivacyEvent
from voile.privacy.mechanisms.parameters import MARGIN
from voile.privacy.mechanisms.shares import SharedGaussian
from voile.privacy.sensitivity import Sensitivity
from voile.release import PrivateGlobalImportance

SUMS: Final = "sums of absolute attributions"
FINENESS: Final = 2.0**-20
"""By which share of itself rounding adds to the sensitivity, at most."""
_TAIL: Final = 12.0
"""Deviations: noise lies beyond them once in 10^32, and then a sum is of no use."""
Whole = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ShareImportance:
    """A party's sums over its own rows, with its part of the noise.

    Guarantees
        1. One row moves the sums by n times what it moves the mean of n rows, and rounding by √d
           steps more at most, for d numbers.
        2. A party without rows sends its part of the noise.

    Args:
        release: with public settings only; of its noise nothing is used.
        facts: what is public, such as how many rows each party declares.
        shares: how many honest parties give all of the noise together.
        rho: what the sum costs.
    """

    release: PrivateGlobalImportance
    facts: FederationFacts
    shares: int
    rho: float

    @property
    def rows(self) -> int:
        """The most that a party declares."""
        return max(self.facts.sizes.values())

    @property
    def shape(self) -> tuple[int, int]:
        importance = self.release.importance
        return len(importance.players), len(importance.output_names)

    @property
    def shapes(self) -> Shapes:
        return {SUMS: self.shape}

    @cached_property
    def moved(self) -> Sensitivity:
        """By one row, of the sums before they are rounded; more rows move it further, if at all."""
        return self.release.sensitivity(self.rows).scaled(self.rows)

    @cached_property
    def step(self) -> float:
        """Multiples of it are sent: a power of two, so that dividing by it rounds nothing."""
        widest = self.moved.value * FINENESS / math.sqrt(math.prod(self.shape))
        return 2.0 ** math.floor(math.log2(widest))

    @cached_property
    def sensitivity(self) -> Sensitivity:
        """Of the whole numbers."""
        rounded = math.sqrt(math.prod(self.shape))
        return replace(self.moved, value=(self.moved.value / self.step + rounded) * (1 + MARGIN))

    @cached_property
    def noise(self) -> SharedGaussian:
        sigma = self.sensitivity.value / math.sqrt(2 * self.rho)
        relative = self.sensitivity.scaled(1 / sigma)
        return SharedGaussian(
            sigmas=(sigma,), shapes=(self.shape,), sensitivity=relative, shares=self.shares
        )

    @property
    def deviation(self) -> float:
        """Of a single party's part of the noise on its sums."""
        return self.step * self.noise.sigmas[0] / math.sqrt(self.shares)

    @cached_property
    def largest(self) -> float:
        """Of one party's numbers, noise included: what sums are sized for. Public.

        No row's vector is longer than what blanking the only row of a population moves.
        """
        longest = self.release.importance.sensitivity(1, Relation.BLANK_ONE).value
        reach = self.rows * longest + _TAIL * self.deviation
        return float(math.ceil(self.noise.factor * reach / self.step))

    def cost(self, size: int) -> PrivacyEvent:  # noqa: ARG002
        """The whole cost of the sum, whatever a party's size is."""
        return self.noise.event()

    def epsilon(self, honest: int | None = None) -> float:
        """Of the sum with the shares of so many honest parties; of `shares`, if not said."""
        return zcdp_to_epsilon(self.noise.event(honest).rho, self.release.delta)

    def fit(
        self,
        instruction: Instruction,  # noqa: ARG002
        records: Any,
        size: int,
        source: GeneratorSource,
    ) -> FitResult:
        if len(records) > size:
            raise InvalidInput(f"{size} rows are declared, and there are {len(records)}")
        (noisy,) = self.noise.randomise([self.exact(records)], source)
        return FitResult({SUMS: noisy}, self.cost(size))

    def exact(self, records: Any) -> Whole:
        """What noise is added to. For the party, never for release."""
        if not len(records):
            return np.zeros(self.shape, dtype=np.int64)
        (mean,) = self.release.means(records)
        return in_steps(mean * len(records), self.step)

    def mean(self, total: Whole, rows: int) -> NDArray[np.float64]:
        """Of the parties in a sum, who declare so many rows together."""
        return total.astype(np.float64) * (self.step / (self.noise.factor * rows))

    def evaluate(self, arrays: Arrays, given: Arrays, rows: Unprotected) -> Mapping[str, float]:  # noqa: ARG002
        return {}


def in_steps(sums: NDArray[np.float64], step: float) -> Whole:
    """To the nearest multiples of a step, as whole numbers.

    >>> in_steps(np.array([0.3, 0.9]), 0.25).tolist()
    [1, 4]
    """
    return np.rint(sums / step).astype(np.int64)


def rho_within(release: PrivateGlobalImportance) -> float:
    """What a sum may cost within the release's epsilon and delta."""
    return zcdp_budget(release.epsilon, release.delta) * (1 - 4 * MARGIN)
