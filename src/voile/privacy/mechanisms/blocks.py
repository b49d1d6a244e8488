"""Discrete Gaussian noise on several blocks of whole numbers, each with a deviation of its own.

For sums that are whole numbers once each block is multiplied by a public factor: noise is added to
the whole numbers, and the factor is divided out afterwards, where it is post-processing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from voile.core.errors import InvalidInput
from voile.privacy import events
from voile.privacy.mechanisms.discrete import DiscreteGaussian
from voile.privacy.mechanisms.parameters import MARGIN, measured_in
from voile.privacy.sensitivity import Norm, Sensitivity


@dataclass(frozen=True, kw_only=True)
class GaussianBlocks:
    """P(noise = k) proportional to exp(−k²/(2·sigma²)) on every number, with its block's sigma.

    Guarantees
        1. rho = Δ²/2, where Δ is the l2 sensitivity of all numbers, *each divided by the sigma of
           its block*. A shift by the whole number m costs m²/(2·sigma²) (Canonne, Kamath and
           Steinke 2020), and costs of independent noise add up.
        2. Every number gets noise; nothing is rounded.

    Args:
        sigmas: one for each block.
        shapes: one for each block.
        sensitivity: of all numbers together, each divided by its sigma.
    """

    sigmas: tuple[float, ...]
    shapes: tuple[tuple[int, ...], ...]
    sensitivity: Sensitivity

    def __post_init__(self) -> None:
        measured_in(self.sensitivity, Norm.L2)
        if not self.sigmas or len(self.sigmas) != len(self.shapes):
            raise InvalidInput(
                f"expected one deviation for each block, at least one, found {len(self.sigmas)} "
                f"deviations and {len(self.shapes)} blocks"
            )
        _ = self._parts

    @property
    def _parts(self) -> list[DiscreteGaussian]:
        """By block. The numbers of one block move by no more than all of them together."""
        return [
            DiscreteGaussian(sigma=sigma, sensitivity=self.sensitivity.scaled(sigma), shape=shape)
            for sigma, shape in zip(self.sigmas, self.shapes, strict=True)
        ]

    def event(self) -> events.Zcdp:
        # Deviations and the sensitivity are rounded floats; the margin is far above what is lost.
        return events.Zcdp(self.sensitivity.value**2 / 2 * (1 + MARGIN))

    def randomise(self, blocks: Sequence[ArrayLike]) -> tuple[NDArray[np.int64], ...]:
        if len(blocks) != len(self.shapes):
            raise InvalidInput(f"expected {len(self.shapes)} blocks, found {len(blocks)}")
        return tuple(part.randomise(block) for part, block in zip(self._parts, blocks, strict=True))
