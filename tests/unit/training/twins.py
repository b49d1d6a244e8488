"""Torch twins of our networks and losses: what arithmetic written by hand is compared with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from voile.training import Array, Batch, Perceptron, Softmax, arrays_of, divergence


def module_of(network: Perceptron) -> nn.Sequential:
    """The same network, made of torch's layers."""
    layers: list[nn.Module] = []
    for layer in network.layers:
        layers += [nn.Linear(layer.weight.shape[1], layer.weight.shape[0]), nn.ReLU()]
    made = nn.Sequential(*layers[:-1])
    made.load_state_dict({n: torch.from_numpy(a) for n, a in arrays_of(network).items()})
    return made


def network(seed: int, *widths: int, size: float = 0.5) -> Perceptron:
    """All parameters are normal, those of the last layer too."""
    count = sum((a + 1) * b for a, b in pairwise(widths))
    return Perceptron(widths, (size * np.random.default_rng(seed).normal(size=count)).astype("f"))


@dataclass(frozen=True)
class Linear:
    """Linear in the outputs: batch[1] are the derivatives, in the shape of the outputs."""

    factor: float = 1.0

    def inputs(self, batch: Batch) -> Array:
        return batch[0]

    def values(self, logits: Array, batch: Batch) -> Array:
        found: Array = self.factor * (logits * batch[1]).reshape(len(logits), -1).sum(axis=1)
        return found

    def slopes(self, logits: Array, batch: Batch) -> Array:  # noqa: ARG002
        found: Array = np.float32(self.factor) * batch[1]
        return found


def linear(module: nn.Module, batch: tuple[Tensor, ...]) -> Tensor:
    """The twin of `Linear`."""
    found: Tensor = (module(batch[0]) * batch[1]).flatten(1).sum(1)
    return found


class Lines:
    """The mean divergence over all lines of a record, each against its own target."""

    def inputs(self, batch: Batch) -> Array:
        return batch[0]

    def values(self, logits: Array, batch: Batch) -> Array:
        found: Array = divergence.values(Softmax(), logits, batch[1]).mean(axis=1)
        return found

    def slopes(self, logits: Array, batch: Batch) -> Array:
        found: Array = divergence.slopes(Softmax(), logits, batch[1]) / logits.shape[1]
        return found


def lines(module: nn.Module, batch: tuple[Tensor, ...]) -> Tensor:
    """The twin of `Lines`, up to a constant."""
    found: Tensor = -(module(batch[0]).log_softmax(-1) * batch[1]).sum(-1).mean(-1)
    return found


def tensors(batch: Batch) -> tuple[Tensor, ...]:
    return tuple(torch.from_numpy(np.array(part)) for part in batch)


def slopes_by_torch(values: Callable[[Tensor], Tensor], logits: Any) -> Any:
    """The derivative of a sum of figures, by automatic differentiation in double precision."""
    given = torch.from_numpy(np.asarray(logits, dtype=np.float64)).requires_grad_(True)
    (found,) = torch.autograd.grad(values(given).sum(), given)
    return found.numpy()
