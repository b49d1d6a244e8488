"""Stochastic amortisation: regression on unbiased estimates, to be compared with FastSHAP's way.

An unbiased estimate of φ from random orders of the players is the target of an ordinary regression.
Its noise is the interactions of the game, and does not depend on the network.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from voile.attribution.fastshap.objectives import sampled_values
from voile.attribution.fastshap.surrogate import Surrogate
from voile.core.errors import InvalidInput
from voile.training import Array, Batch


@dataclass(frozen=True)
class NoisyLabels:
    """Regression on unbiased estimates.

    Args:
        orders: random orders of the players a row, each with its reverse; an order costs
            2·(players − 1) evaluations.

    >>> labels = (np.array([[[1.0], [2.0]]]),)  # one row, two players, one output
    >>> NoisyLabels().values(np.array([[[1.0], [0.0]]]), labels).tolist()
    [4.0]
    """

    orders: int = 1

    def __post_init__(self) -> None:
        if self.orders < 1:
            raise InvalidInput(f"a label needs at least one order, found {self.orders}")

    def targets(
        self, surrogate: Surrogate, columns: Array, gap: Array, draw: np.random.Generator
    ) -> Batch:
        return (sampled_values(surrogate, columns, gap, self.orders, draw).mean(axis=1),)

    def values(self, attributions: Array, asked: Batch) -> Array:
        found: Array = np.square(asked[0] - attributions).sum(axis=(1, 2))
        return found

    def slopes(self, attributions: Array, asked: Batch) -> Array:
        return 2 * (attributions - asked[0])
