"""Noise that parties add in shares: none of them knows it, and their sum carries the noise of one.

For a sum of whole numbers of which nobody is shown a single term. Each party adds discrete Gaussian
noise of a part of the variance. A sum of discrete Gaussians is not quite a discrete Gaussian; what
that costs is bounded by Kairouz, Liu and Steinke (2021) and vanishes for shares that are not tiny.
Proof: docs/guarantees/secure-sum.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from voile.core.errors import InvalidInput
from voile.core.randomness import GeneratorSource
from voile.privacy import events
from voile.privacy.mechanisms.discrete import DiscreteGaussian
from voile.privacy.mechanisms.parameters import MARGIN, measured_in
from voile.privacy.sensitivity import Norm, Sensitivity

LEAST_VARIANCE: Final = 10.0
"""Of one share on one number. Below, the bound for sums of discrete Gaussians says little."""


@dataclass(frozen=True, kw_only=True)
class SharedGaussian:
    """Blocks of whole numbers, summed over parties; `shares` parties together give all the noise.

    With one share every party adds the whole noise by itself: local noise.

    Guarantees
        1. `event()` is what a sum costs that holds the shares of at least `shares` honest parties.
           With fewer it costs more: `event(honest)`.
        2. Before noise all numbers are multiplied by `factor`, a whole number from public facts,
           so that every share has a variance of at least 10 on every number.
        3. Every number gets noise, of a party without rows as well; nothing is rounded before.

    Args:
        sigmas: of the noise of all shares, one for each block.
        shapes: one for each block.
        sensitivity: l2, of all numbers together, each divided by its sigma.
        shares: how many honest parties are in every sum at least.

    >>> from voile.privacy.sensitivity import histogram
    >>> each = histogram(norm="l2", relation="blank one").scaled(1 / 4.0)
    >>> noise = SharedGaussian(sigmas=(4.0,), shapes=((3,),), sensitivity=each, shares=4)
    >>> noise.factor, noise.event(), noise.event(1)
    (2, Zcdp(rho=0.03125000003125), Zcdp(rho=0.125000000125))
    """

    sigmas: tuple[float, ...]
    shapes: tuple[tuple[int, ...], ...]
    sensitivity: Sensitivity
    shares: int = 1

    def __post_init__(self) -> None:
        measured_in(self.sensitivity, Norm.L2)
        if not self.sigmas or len(self.sigmas) != len(self.shapes):
            raise InvalidInput(
                f"expected one deviation for each block, at least one, found {len(self.sigmas)} "
                f"deviations and {len(self.shapes)} blocks"
            )
        _check_count("shares", self.shares)
        _ = self._parts

    @property
    def factor(self) -> int:
        """By which all numbers are multiplied before noise is added."""
        if self.shares == 1:  # no sum of several, so no bound on small variances
            return 1
        return math.ceil(math.sqrt(LEAST_VARIANCE * self.shares) / min(self.sigmas) * (1 + MARGIN))

    @cached_property
    def _parts(self) -> list[DiscreteGaussian]:
        """What one party adds to each block."""
        grown = self.factor / math.sqrt(self.shares)
        return [
            DiscreteGaussian(
                sigma=grown * sigma,
                sensitivity=self.sensitivity.scaled(self.factor * sigma),
                shape=shape,
            )
            for sigma, shape in zip(self.sigmas, self.shapes, strict=True)
        ]

    def event(self, honest: int | None = None) -> events.Zcdp:
        """What a sum costs with the shares of so many honest parties; of `shares`, if not said."""
        survivors = _check_count("honest", self.shares if honest is None else honest)
        normal = self.sensitivity.value**2 / 2 * self.shares / survivors
        excess = sum(
            math.prod(part.shape) * excess_of_sum(survivors, part.sigma) for part in self._parts
        )
        # Deviations and the sensitivity are rounded floats; the margin is far above what is lost.
        return events.Zcdp(normal * (1 + MARGIN) + excess)

    def randomise(
        self, blocks: Sequence[ArrayLike], source: GeneratorSource | None = None
    ) -> tuple[NDArray[np.int64], ...]:
        """One party's numbers, multiplied, with its share of the noise.

        Args:
            source: noise is exact, and from the operating system's entropy, unless this is a source
                with a note, which then says what it is: reproducible.
        """
        if len(blocks) != len(self.shapes):
            raise InvalidInput(f"expected {len(self.shapes)} blocks, found {len(blocks)}")
        grown = [self.factor * np.asarray(block) for block in blocks]
        exact = source is None or source.note is None
        return tuple(
            part.randomise(block) if exact else _reproducible(part, block, source)
            for part, block in zip(self._parts, grown, strict=True)
        )

    def restored(
        self, totals: Sequence[NDArray[np.int64]], weight: float = 1.0
    ) -> tuple[NDArray[np.int64], ...]:
        """The sums again, times a public weight, to the nearest whole number: post-processing."""
        return tuple(np.rint(total * (weight / self.factor)).astype(np.int64) for total in totals)


def excess_of_sum(shares: int, sigma: float) -> float:
    """What a sum of so many discrete Gaussians costs more than one of the same variance.

    In the Rényi divergence of any order, for one number. With t = 2π²σ² it is
    10·Σ exp(−t·k/(k + 1)) over k = 1 to shares − 1.
    """
    steps = np.arange(1, shares)
    return float(10 * np.exp(-2 * math.pi**2 * sigma**2 * steps / (steps + 1)).sum())


def _reproducible(
    part: DiscreteGaussian, block: NDArray[np.int64], source: GeneratorSource | None
) -> NDArray[np.int64]:
    assert source is not None
    noise = part.sigma * source.generator().normal(size=part.shape)
    return block + np.rint(noise).astype(np.int64)


def _check_count(name: str, count: int) -> int:
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise InvalidInput(f"{name} is a number of parties of at least 1, found {count!r}")
    return count
