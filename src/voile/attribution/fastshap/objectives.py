"""Two ways to teach a network Shapley values without ever computing one.

Both need only the surrogate's worths of random coalitions, fresh in every step, and both are
smallest at the true values; the network is always read through additive normalisation, which makes
attributions add up to v(N) − v(∅) and takes that direction out of the problem.

- `KernelRegression` (FastSHAP): for coalitions S from the Shapley kernel, (v(S) − v(∅) − φ·S)².
  What is left of v(S) after the network's own answer is all the noise there is, so it shrinks while
  the network learns.
- `NoisyLabels` (stochastic amortisation): an unbiased estimate of φ from random orders of the
  players is the target of an ordinary regression. Its noise is the interactions of the game, and
  does not depend on the network.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from voile.attribution.fastshap.surrogate import Surrogate
from voile.core.errors import InvalidInput
from voile.core.optional import optional
from voile.training import Batch, CoalitionChains, kernel_pairs

if TYPE_CHECKING:
    from torch import Tensor, nn


class Objective(Protocol):
    """What is asked of the surrogate about a batch of rows, and how answers are judged."""

    def batch(self, surrogate: Surrogate, columns: Tensor, draw: np.random.Generator) -> Batch:
        """Everything the loss needs; the first entry is `columns`, the second v(N) − v(∅)."""

    def loss(self, attributions: Tensor, batch: Batch) -> Tensor:
        """The loss of each row, (n,), of normalised attributions (n, players, outputs)."""


@dataclass(frozen=True)
class KernelRegression:
    """Least squares over the Shapley kernel, paired coalitions.

    Args:
        coalitions: how many a row, an even number.
    """

    coalitions: int = 8

    def __post_init__(self) -> None:
        if self.coalitions < 2 or self.coalitions % 2:
            raise InvalidInput(f"coalitions come in pairs, found {self.coalitions}")

    def batch(self, surrogate: Surrogate, columns: Tensor, draw: np.random.Generator) -> Batch:
        torch: Any = optional("torch", extra="torch")
        players = surrogate.players.count
        drawn = kernel_pairs(draw, len(columns), self.coalitions, players)
        coalitions = torch.from_numpy(drawn)
        with torch.no_grad():
            base = base_of(surrogate)
            worths = surrogate.worths(columns, coalitions) - base
        return columns, total(surrogate, columns), coalitions, worths

    def loss(self, attributions: Tensor, batch: Batch) -> Tensor:
        coalitions, worths = batch[2], batch[3]
        return (worths - coalitions @ attributions).square().sum(-1).mean(-1)


@dataclass(frozen=True)
class NoisyLabels:
    """Regression on unbiased estimates.

    Args:
        orders: random orders of the players a row, each with its reverse; an order costs
            2·(players − 1) evaluations.
    """

    orders: int = 1

    def __post_init__(self) -> None:
        if self.orders < 1:
            raise InvalidInput(f"a label needs at least one order, found {self.orders}")

    def batch(self, surrogate: Surrogate, columns: Tensor, draw: np.random.Generator) -> Batch:
        torch: Any = optional("torch", extra="torch")
        gap = total(surrogate, columns)
        labels = sampled_values(surrogate, columns, gap, self.orders, draw).mean(1)
        return columns, gap, torch.from_numpy(labels)

    def loss(self, attributions: Tensor, batch: Batch) -> Tensor:
        return (batch[2] - attributions).square().sum((-1, -2))


def sampled_values(
    surrogate: Surrogate, columns: Tensor, gap: Tensor, orders: int, draw: np.random.Generator
) -> Any:
    """Unbiased estimates of the Shapley values, one an order, (n, orders, players, outputs)."""
    torch: Any = optional("torch", extra="torch")
    players, n = surrogate.players.count, len(columns)
    chains = CoalitionChains.drawn(draw, n * orders, players)
    asked = chains.coalitions.reshape(n, -1, players)
    with torch.no_grad():
        worths = surrogate.worths(columns, torch.from_numpy(asked)).numpy()
    outputs = worths.shape[-1]
    full = np.repeat(gap.numpy(), orders, axis=0)
    estimates = chains.estimates(
        worths.reshape(n * orders, -1, outputs), np.zeros(outputs, dtype=np.float32), full
    )
    return estimates.reshape(n, orders, players, outputs)


def base_of(surrogate: Surrogate) -> Tensor:
    """v(∅) as a tensor, shape (outputs,)."""
    torch: Any = optional("torch", extra="torch")
    found: Tensor = torch.from_numpy(surrogate.base.astype(np.float32))
    return found


def total(surrogate: Surrogate, columns: Tensor) -> Tensor:
    """v(N) − v(∅), shape (n, outputs): what the attributions of each row add up to."""
    torch: Any = optional("torch", extra="torch")
    with torch.no_grad():
        outputs = surrogate.head.outputs(surrogate.complete(columns))
        found: Tensor = outputs - base_of(surrogate)
    return found


def normalised(raw: Tensor, gap: Tensor) -> Tensor:
    """Attributions (n, players, outputs) that add up to `gap`: the rest is shared out evenly.

    This is the nearest point with the right sum, so it never moves further from the true values.
    """
    return raw + ((gap - raw.sum(1)) / raw.shape[1])[:, None, :]


def answers(network: nn.Module, seen: Tensor, gap: Tensor, players: int) -> Tensor:
    """The attributions a network gives, normalised."""
    return normalised(network(seen).view(len(seen), players, -1), gap)
