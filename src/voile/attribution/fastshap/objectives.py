"""How to teach a network Shapley values without ever computing one.

An objective needs only the surrogate's worths of random coalitions, fresh in every step, and is
smallest at the true values; the network is always read through additive normalisation, which makes
attributions add up to v(N) − v(∅) and takes that direction out of the problem.

`KernelRegression` (FastSHAP): for coalitions S from the Shapley kernel, (v(S) − v(∅) − φ·S)². What
is left of v(S) after the network's own answer is all the noise there is, so it shrinks while the
network learns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from voile.attribution.coalitions import CoalitionChains, kernel_pairs
from voile.attribution.fastshap.surrogate import Surrogate
from voile.core.errors import InvalidInput
from voile.training import Array, Batch


class Objective(Protocol):
    """What the surrogate is asked about a batch of rows, and how attributions are judged.

    >>> objective: Objective = KernelRegression()
    >>> asked = np.ones((1, 8, 2)), np.full((1, 8, 1), 3.0)  # coalitions and worths of one row
    >>> objective.values(np.array([[[1.0], [2.0]]]), asked).tolist()  # φ adds up to all of them
    [0.0]
    """

    def targets(
        self, surrogate: Surrogate, columns: Array, gap: Array, draw: np.random.Generator
    ) -> Batch:
        """Coalitions and worths, or labels, about rows whose v(N) − v(∅) is `gap`."""

    def values(self, attributions: Array, asked: Batch) -> Array:
        """The loss of each row, (n,), of normalised attributions (n, players, outputs)."""

    def slopes(self, attributions: Array, asked: Batch) -> Array:
        """Its derivative in the attributions."""


@dataclass(frozen=True)
class KernelRegression:
    """Least squares over the Shapley kernel, paired coalitions.

    Args:
        coalitions: how many a row, an even number.

    >>> KernelRegression(coalitions=3)
    Traceback (most recent call last):
    voile.core.errors.InvalidInput: coalitions come in pairs, found 3
    """

    coalitions: int = 8

    def __post_init__(self) -> None:
        if self.coalitions < 2 or self.coalitions % 2:
            raise InvalidInput(f"coalitions come in pairs, found {self.coalitions}")

    def targets(
        self,
        surrogate: Surrogate,
        columns: Array,
        gap: Array,  # noqa: ARG002
        draw: np.random.Generator,
    ) -> Batch:
        coalitions = kernel_pairs(draw, len(columns), self.coalitions, surrogate.players.count)
        worths = surrogate.worths(columns, coalitions)
        return coalitions, worths - surrogate.base.astype(np.float32)

    def values(self, attributions: Array, asked: Batch) -> Array:
        found: Array = np.square(_missed(attributions, asked)).sum(axis=-1).mean(axis=-1)
        return found

    def slopes(self, attributions: Array, asked: Batch) -> Array:
        missed = _missed(attributions, asked)
        missed *= -2 / self.coalitions
        return asked[0].swapaxes(1, 2) @ missed


def _missed(attributions: Array, asked: Batch) -> Array:
    """v(S) − v(∅) − φ·S, shape (n, coalitions, outputs)."""
    coalitions, worths = asked
    return worths - coalitions @ attributions


@dataclass(frozen=True, eq=False)
class ShapleyLoss:
    """The loss of an explainer's last layer, read through additive normalisation.

    Batch: what the network sees, v(N) − v(∅), and what the objective asked the surrogate.
    """

    objective: Objective
    players: int

    def inputs(self, batch: Batch) -> Array:
        return batch[0]

    def values(self, logits: Array, batch: Batch) -> Array:
        return self.objective.values(self._attributions(logits, batch), batch[2:])

    def slopes(self, logits: Array, batch: Batch) -> Array:
        found = self.objective.slopes(self._attributions(logits, batch), batch[2:])
        # Normalising is a projection but for a constant: its adjoint takes the mean out as well.
        found -= found.mean(axis=1, keepdims=True)
        return found.reshape(logits.shape)

    def _attributions(self, logits: Array, batch: Batch) -> Array:
        return normalised(logits.reshape(len(logits), self.players, -1), batch[1])


def sampled_values(
    surrogate: Surrogate, columns: Array, gap: Array, orders: int, draw: np.random.Generator
) -> Array:
    """Unbiased estimates of the Shapley values, one an order, (n, orders, players, outputs)."""
    players, n = surrogate.players.count, len(columns)
    chains = CoalitionChains.drawn(draw, n * orders, players)
    worths = surrogate.worths(columns, chains.coalitions.reshape(n, -1, players))
    outputs = worths.shape[-1]
    estimates = chains.estimates(
        worths.reshape(n * orders, -1, outputs),
        np.zeros(outputs, dtype=np.float32),
        np.repeat(gap, orders, axis=0),
    )
    return estimates.reshape(n, orders, players, outputs)


def total(surrogate: Surrogate, columns: Array) -> Array:
    """v(N) − v(∅), shape (n, outputs): what the attributions of each row add up to."""
    outputs = surrogate.head.outputs(surrogate.complete(columns))
    return outputs - surrogate.base.astype(np.float32)


def normalised(raw: Array, gap: Array) -> Array:
    """Attributions (n, players, outputs) that add up to `gap`: the rest is shared out evenly.

    This is the nearest point with the right sum, so it never moves further from the true values.
    """
    found: Array = raw + ((gap - raw.sum(axis=1)) / raw.shape[1])[:, np.newaxis]
    return found
