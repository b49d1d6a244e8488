"""Clipped sums for perceptrons, without one gradient per record.

The gradient of a linear layer for one line is the outer product of its input a (with a 1 for the
bias) and the error b that comes back: squared norm (‖a‖² + 1)·‖b‖². A record with K lines is one
sample; its squared norm is Σₖₗ (aₖ·aₗ + 1)(bₖ·bₗ), and the clipped sum over all records is
Aᵀ diag(w) B with one weight for each record. So one backward pass gives all norms, and one product
of matrices for each layer gives the sum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from voile.core.errors import InvalidInput
from voile.core.optional import optional
from voile.training.loop import Batch, Loss
from voile.training.private.clipping import FlatParameters, centred_count, check_losses, weights_of

if TYPE_CHECKING:
    from torch import Tensor, nn

LARGEST: Final = 1e9
"""A record that meets a layer with a longer input adds nothing: beyond, squares of float32 that
vanish or overflow could hide a gradient that is larger than its norm says."""
CANCELLING: Final = 16
"""Lines of one record may cancel. Its norm is not believed below 1/√(16·K) of the sum of the norms
of its K lines, which is four times less than what random signs would leave."""


def is_perceptron(network: nn.Module) -> bool:
    """Whether it is linear layers in a sequence, each with at most one known activation."""
    torch: Any = optional("torch", extra="torch")
    layers: list[Any] = list(network.children())
    if type(network) is not torch.nn.Sequential or not layers:
        return False
    linear = [type(layer) is torch.nn.Linear and layer.bias is not None for layer in layers]
    known = [type(layer) in _activations() for layer in layers]
    return (
        linear[0]
        and all(one or other for one, other in zip(linear, known, strict=True))
        and all(one or following for one, following in pairwise(linear))
        and len({id(parameter) for parameter in network.parameters()}) == 2 * sum(linear)
        and all(p.requires_grad and p.dtype == torch.float32 for p in network.parameters())
    )


@dataclass(frozen=True)
class _Activation:
    """In place on a layer's output; and the error before it from the error after and its output."""

    apply: Any
    error_before: Any


def _activations() -> dict[type[Any], _Activation]:
    torch: Any = optional("torch", extra="torch")
    nn, aten = torch.nn, torch.ops.aten
    return {
        nn.ReLU: _Activation(torch.relu_, lambda e, out: aten.threshold_backward(e, out, 0)),
        nn.Tanh: _Activation(torch.tanh_, aten.tanh_backward),
        nn.Sigmoid: _Activation(torch.sigmoid_, aten.sigmoid_backward),
    }


@dataclass(frozen=True, eq=False)
class _Layer:
    """A linear layer: its parameters and the place of its sum, all views of flat tensors."""

    weight: Tensor
    bias: Tensor
    weight_total: Tensor
    bias_total: Tensor
    activation: _Activation | None


class _Tap:
    """Stands in for the network inside a loss: remembers what each layer saw.

    Its output is a leaf, so that automatic differentiation ends there.
    """

    def __init__(self, layers: list[_Layer], records: int) -> None:
        self._torch: Any = optional("torch", extra="torch")
        self._layers = layers
        self._records = records
        self.seen: list[list[Tensor]] = []
        self.outputs: list[Tensor] = []

    def __call__(self, inputs: Tensor) -> Tensor:
        if inputs.ndim < 2 or len(inputs) != self._records:
            raise InvalidInput(
                f"the loss must give the network inputs whose first axis are its {self._records} "
                f"records, found shape {tuple(inputs.shape)}; put several lines of a record on the "
                "second axis"
            )
        with self._torch.no_grad():
            # Each layer's input, and at the end the output: lines of one record are neighbours.
            seen = [inputs.reshape(-1, inputs.shape[-1])]
            for layer in self._layers:
                output = self._torch.addmm(layer.bias, seen[-1], layer.weight.t())
                if layer.activation is not None:
                    layer.activation.apply(output)
                seen.append(output)
        self.seen.append(seen)
        self.outputs.append(seen[-1].view(*inputs.shape[:-1], -1).detach().requires_grad_())
        return self.outputs[-1]


class PerceptronSum:
    """A `ClippedSum` for networks of which `is_perceptron` is true."""

    def __init__(self, network: nn.Sequential, flat: FlatParameters) -> None:
        self._torch: Any = optional("torch", extra="torch")
        self.total: Tensor = self._torch.zeros_like(flat.values)
        totals = flat.views(self.total)
        modules: list[Any] = [*network, None]
        self._layers = [
            _Layer(
                flat.named[f"{place}.weight"],
                flat.named[f"{place}.bias"],
                totals[f"{place}.weight"],
                totals[f"{place}.bias"],
                _activations().get(type(modules[place + 1])),
            )
            for place, module in enumerate(modules)
            if type(module) is self._torch.nn.Linear
        ]

    def add_up(self, loss: Loss, batch: Batch, norm: float) -> float:
        """See `ClippedSum`. The loss may call the network several times: all lines are joined."""
        records = len(batch[0])
        tap: Any = _Tap(self._layers, records)
        losses = loss(tap, batch)
        check_losses(losses, records)
        if not tap.outputs:
            raise InvalidInput("the loss did not call the network it was given")
        ones = self._torch.ones_like(losses)
        errors = self._torch.autograd.grad(losses, tap.outputs, ones, materialize_grads=True)
        with self._torch.no_grad():
            passes = [
                self._back(seen, error.reshape(-1, error.shape[-1]))
                for seen, error in zip(tap.seen, errors, strict=True)
            ]
            lines = [self._joined(calls, records) for calls in zip(*passes, strict=True)]
            return self._clip(lines, norm)

    def _back(self, seen: list[Tensor], error: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Input and error of each layer, from the last one to the first."""
        found = []
        for place in reversed(range(len(self._layers))):
            layer = self._layers[place]
            if layer.activation is not None:
                error = layer.activation.error_before(error, seen[place + 1])
            found.append((seen[place], error))
            if place:
                error = error @ layer.weight
        return found

    def _joined(
        self, calls: tuple[tuple[Tensor, Tensor], ...], records: int
    ) -> tuple[Tensor, Tensor]:
        """All lines of a layer, as (records, K, width)."""
        shaped = [[part.view(records, -1, part.shape[-1]) for part in call] for call in calls]
        if len(shaped) == 1:
            return shaped[0][0], shaped[0][1]
        inputs, errors = zip(*shaped, strict=True)
        return self._torch.cat(inputs, 1), self._torch.cat(errors, 1)

    def _clip(self, lines: list[tuple[Tensor, Tensor]], norm: float) -> float:
        norms = self._norms(lines)
        if not math.isfinite(float(norms.sum())):
            # Rare, and the reason depends on protected values: nothing is raised, nothing logged.
            kept = norms.isfinite()
            lines = [(inputs[kept], errors[kept]) for inputs, errors in lines]
            norms = norms[kept]
        weights = weights_of(norms, norm)
        for layer, (inputs, errors) in zip(reversed(self._layers), lines, strict=True):
            weighted = (errors * weights[:, None, None]).flatten(0, 1)
            self._torch.mm(weighted.t(), inputs.flatten(0, 1), out=layer.weight_total)
            self._torch.sum(weighted, 0, out=layer.bias_total)
        return centred_count(norms, norm)

    def _norms(self, lines: list[tuple[Tensor, Tensor]]) -> Tensor:
        """The gradient norm of each record; infinite or NaN for those that add nothing."""
        length = self._torch.linalg.vector_norm
        squared, longest = [], []
        for inputs, errors in lines:
            count = inputs.shape[1]
            reach = length(inputs, dim=2).square_().add_(1)
            longest.append(reach)
            if count == 1:
                squared.append((reach * length(errors, dim=2).square_())[:, 0])
                continue
            apart = reach.sqrt().mul_(length(errors, dim=2)).sum(1).square_()
            gram = (inputs @ inputs.mT).add_(1).mul_(errors @ errors.mT).sum((1, 2))
            squared.append(self._torch.maximum(gram, apart / (CANCELLING * count)))
        norms = self._torch.stack(squared).sum(0).sqrt_()
        far = self._torch.cat(longest, 1).amax(1) > LARGEST**2
        found: Tensor = self._torch.where(far, math.inf, norms)
        return found
