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
from voile.training.private.clipping import FlatParameters, check_losses

if TYPE_CHECKING:
    from torch import Tensor, nn

SCALE: Final = 2.0**32
"""Errors are computed so many times too large, which is exact. Squares of small ones do not vanish
then in single precision, where they could hide a gradient beside a large input; what overflows is
seen, and adds nothing."""
CANCELLING: Final = 256
"""Lines of one record may cancel. Its norm is not believed below 1/(16·√K) of the sum of the norms
of its K lines, a sixteenth of what random signs would leave: rounding could hide what is left."""


def is_perceptron(network: nn.Module) -> bool:
    """Whether it is linear layers in a sequence, each with at most one known activation."""
    torch: Any = optional("torch", extra="torch")
    if type(network) is not torch.nn.Sequential:
        return False
    sequence: Any = network
    layers = list(sequence)
    linear = [type(layer) is torch.nn.Linear and layer.bias is not None for layer in layers]
    known = [type(layer) in _activations() for layer in layers]
    return (
        bool(linear)
        and linear[0]
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
    transposed: Tensor
    bias: Tensor
    weight_total: Tensor
    bias_total: Tensor
    activation: _Activation | None


@dataclass(frozen=True, eq=False)
class _Lines:
    """What a layer saw and what came back, (records·K, width) each: a record's lines together."""

    inputs: Tensor
    errors: Tensor


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
            seen = [inputs.reshape(-1, inputs.shape[-1])]
            for layer in self._layers:
                output = self._torch.addmm(layer.bias, seen[-1], layer.transposed)
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
        self._scale: Tensor = self._torch.tensor(SCALE)
        totals = flat.views(self.total)
        modules: list[Any] = [*network, None]
        self._layers = [
            _Layer(
                flat.named[f"{place}.weight"],
                flat.named[f"{place}.weight"].t(),
                flat.named[f"{place}.bias"],
                totals[f"{place}.weight"],
                totals[f"{place}.bias"],
                _activations().get(type(modules[place + 1])),
            )
            for place, module in enumerate(modules)
            if type(module) is self._torch.nn.Linear
        ]

    def add_up(self, loss: Loss, batch: Batch, norm: float) -> Tensor:
        """See `ClippedSum`. The loss may call the network several times: all lines are joined."""
        records = len(batch[0])
        tap: Any = _Tap(self._layers, records)
        losses = loss(tap, batch)
        check_losses(losses, records)
        if not tap.outputs:
            raise InvalidInput("the loss did not call the network it was given")
        scale = self._scale.expand(records)
        errors = self._torch.autograd.grad(losses, tap.outputs, scale, materialize_grads=True)
        with self._torch.no_grad():
            calls = [
                self._back(seen, error.reshape(-1, error.shape[-1]))
                for seen, error in zip(tap.seen, errors, strict=True)
            ]
            lines = calls[0] if len(calls) == 1 else self._joined(calls, records)
            return self._clip(lines, records, norm)

    def _back(self, seen: list[Tensor], error: Tensor) -> list[_Lines]:
        """Inputs and errors of each layer, from the last one to the first."""
        found = []
        for place in reversed(range(len(self._layers))):
            layer = self._layers[place]
            if layer.activation is not None:
                error = layer.activation.error_before(error, seen[place + 1])
            found.append(_Lines(seen[place], error))
            if place:
                error = error @ layer.weight
        return found

    def _joined(self, calls: list[list[_Lines]], records: int) -> list[_Lines]:
        """The lines of several calls, those of a record side by side."""

        def join(parts: list[Tensor]) -> Tensor:
            shaped = [part.view(records, -1, part.shape[-1]) for part in parts]
            joined: Tensor = self._torch.cat(shaped, 1)
            return joined.flatten(0, 1)

        return [
            _Lines(join([each.inputs for each in layer]), join([each.errors for each in layer]))
            for layer in zip(*calls, strict=True)
        ]

    def _clip(self, lines: list[_Lines], records: int, norm: float) -> Tensor:
        """Write the sum; the norms of the records that are part of it."""
        count = len(lines[0].inputs) // records
        norms = self._scaled_norms(lines, count)
        if not math.isfinite(float(norms.amax())):
            # Rare, and the reason depends on protected values: nothing is raised, nothing logged.
            kept = norms.isfinite()
            norms, kept = norms[kept], kept.repeat_interleave(count)
            lines = [_Lines(each.inputs[kept], each.errors[kept]) for each in lines]
        weights = (norm / norms).clamp_(max=1 / SCALE)
        if count > 1:
            weights = weights.repeat_interleave(count)
        weights = weights.unsqueeze(1)
        for layer, each in zip(reversed(self._layers), lines, strict=True):
            weighted = each.errors * weights
            self._torch.mm(weighted.t(), each.inputs, out=layer.weight_total)
            self._torch.sum(weighted, 0, out=layer.bias_total)
        return norms.div_(SCALE)

    def _scaled_norms(self, lines: list[_Lines], count: int) -> Tensor:
        """SCALE times the gradient norm of each record, all layers together."""
        total = sum(self._squares(each, count) for each in lines)
        norms: Tensor = self._torch.sqrt(total)
        return norms

    def _squares(self, lines: _Lines, count: int) -> Tensor:
        """The squared norm of each record in one layer."""
        if count == 1:
            length = self._torch.linalg.vector_norm
            reach: Tensor = length(lines.inputs, dim=1).square_().add_(1)
            return reach.mul_(length(lines.errors, dim=1).square_())
        inputs = lines.inputs.view(-1, count, lines.inputs.shape[1])
        errors = lines.errors.view(-1, count, lines.errors.shape[1])
        products = (inputs @ inputs.mT).add_(1).mul_(errors @ errors.mT)
        alone = products.diagonal(dim1=1, dim2=2).sqrt()
        floor = alone.sum(1).square_().div_(CANCELLING * count)
        found: Tensor = self._torch.maximum(products.sum((1, 2)), floor)
        return found
