"""The one network of the house: linear layers with rectifiers between them, in numpy.

All parameters lie in one flat vector, layer after layer, weights before biases; layers are views of
it. So an optimiser, noise and a pull toward a start are operations on one vector. Forward and
backward pass are written once, here; plain and private training differ in what they do with the
errors that come back.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from voile.core.digest_names import digest_name
from voile.core.errors import InvalidInput
from voile.core.one_thread import one_thread

Array: TypeAlias = NDArray[np.float32]

LINES_AT_ONCE = 1_024
"""Lines a pass of `Perceptron.__call__`: what the layers say stays in the processor's cache."""


@digest_name("voile.training.perceptron.Layer")
class Layer(NamedTuple):
    """Views of a flat vector: weight (outputs, inputs) and bias (outputs,)."""

    weight: Array
    bias: Array


class Lines(NamedTuple):
    """What a layer saw and what came back to it, (lines, inputs) and (lines, outputs)."""

    inputs: Array
    errors: Array


@digest_name("voile.training.perceptron.Perceptron")
@dataclass(frozen=True, eq=False)
class Perceptron:
    """Linear layers with rectifiers between them.

    Args:
        widths: of the inputs, the hidden layers and the outputs.
        values: all parameters, flat; float32, or float64 in a copy made by `doubled`.
    """

    widths: tuple[int, ...]
    values: NDArray[Any]

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        return self.views(self.values)

    @property
    def inputs(self) -> int:
        return self.widths[0]

    @property
    def outputs(self) -> int:
        return self.widths[-1]

    def views(self, flat: NDArray[Any]) -> tuple[Layer, ...]:
        """The layers of another vector of the same length."""
        found, start = [], 0
        for width, following in pairwise(self.widths):
            middle, end = start + width * following, start + (width + 1) * following
            found.append(Layer(flat[start:middle].reshape(following, width), flat[middle:end]))
            start = end
        return tuple(found)

    def __call__(self, inputs: NDArray[Any]) -> NDArray[Any]:
        """The last layer for inputs (..., inputs), shape (..., outputs)."""
        lines = inputs.reshape(-1, self.inputs).astype(self.values.dtype, copy=False)
        if len(lines) <= LINES_AT_ONCE:
            return self.seen(lines)[-1].reshape(*inputs.shape[:-1], self.outputs)
        found = np.empty((len(lines), self.outputs), dtype=self.values.dtype)
        for start in range(0, len(lines), LINES_AT_ONCE):
            part = slice(start, start + LINES_AT_ONCE)
            found[part] = self.seen(lines[part])[-1]
        return found.reshape(*inputs.shape[:-1], self.outputs)

    def seen(self, lines: NDArray[Any], into: list[Array] | None = None) -> list[NDArray[Any]]:
        """What every layer says about lines (n, inputs), the last one without a rectifier.

        `into` holds a place for each, with room for n lines at least.
        """
        # Lines may be protected: whatever they hold, nothing is said.
        with one_thread(), np.errstate(all="ignore"):
            return self._seen(lines, into)

    def _seen(self, lines: NDArray[Any], into: list[Array] | None) -> list[NDArray[Any]]:
        found = []
        for place, layer in enumerate(self.layers):
            out = None if into is None else into[place][: len(lines)]
            lines = np.matmul(lines, layer.weight.T, out=out)
            lines += layer.bias
            if place < len(self.layers) - 1:
                np.maximum(lines, 0, out=lines)
            found.append(lines)
        return found

    def doubled(self) -> Perceptron:
        """A copy in double precision."""
        return Perceptron(self.widths, self.values.astype(np.float64))


def perceptron(
    inputs: int, hidden: tuple[int, ...], outputs: int, draw: np.random.Generator
) -> Perceptron:
    """A new network.

    Weights are uniform within ±√(6/inputs) of their layer, which keeps the variance through
    rectifiers; the last layer begins at 0, so that training starts from "no opinion".
    """
    widths = (inputs, *hidden, outputs)
    made = Perceptron(widths, np.zeros(_size(widths), dtype=np.float32))
    for layer in made.layers:
        bound = math.sqrt(6 / layer.weight.shape[1])
        layer.weight[:] = draw.uniform(-bound, bound, layer.weight.shape)
    made.layers[-1].weight[:] = 0
    return made


def _size(widths: tuple[int, ...]) -> int:
    return sum((width + 1) * following for width, following in pairwise(widths))


def arrays_of(network: Perceptron) -> dict[str, Array]:
    """Copies of all parameters by name: "0.weight", "0.bias", "2.weight", and so on."""
    return {
        f"{2 * place}.{part}": np.array(array, dtype=np.float32)
        for place, layer in enumerate(network.layers)
        for part, array in zip(layer._fields, layer, strict=True)
    }


def with_arrays(arrays: Mapping[str, NDArray[Any]]) -> Perceptron:
    """The perceptron that has these parameters; the inverse of `arrays_of`."""
    places = range(0, max(len(arrays), 1), 2)  # two arrays a layer, a rectifier between layers
    expected = [f"{place}.{part}" for place in places for part in Layer._fields]
    if set(arrays) != set(expected):
        raise InvalidInput(f"these are not the parameters of a perceptron: {sorted(arrays)[:6]}")
    widths = list(arrays["0.weight"].shape[-1:])
    for place in places:
        weight, bias = arrays[f"{place}.weight"], arrays[f"{place}.bias"]
        if weight.dtype.kind != "f" or bias.dtype.kind != "f":
            raise InvalidInput(f"layer {place} has parameters that are not floating-point numbers")
        if (
            weight.ndim != 2
            or not weight.size
            or weight.shape[1] != widths[-1]
            or bias.shape != weight.shape[:1]
        ):
            raise InvalidInput(f"layer {place} does not fit the one before it: {weight.shape}")
        widths.append(weight.shape[0])
    flat = np.concatenate([arrays[name].ravel() for name in expected])
    with np.errstate(over="ignore"):  # too large for single precision: not finite
        values = flat.astype(np.float32)
    if not np.isfinite(values).all():
        raise InvalidInput("some parameters are not finite in single precision")
    return Perceptron(tuple(widths), values)


class Backward:
    """Forward and backward passes of a network, in buffers that are kept from step to step.

    What it gives is overwritten by the next pass. `total` is flat, like the parameters.
    """

    def __init__(self, network: Perceptron) -> None:
        self._network = network
        self.total: Array = np.zeros_like(network.values)
        self._totals = network.views(self.total)
        self._seen: list[Array] = []
        self._grow(0)

    def _grow(self, lines: int) -> None:
        self._ones = np.ones(lines, dtype=np.float32)
        widths = self._network.widths[1:]
        self._outputs = [np.empty((lines, width), dtype=np.float32) for width in widths]
        self._errors = [np.empty((lines, width), dtype=np.float32) for width in widths[:-1]]
        self._alive = [np.empty((lines, width), dtype=np.bool_) for width in widths[:-1]]

    def logits(self, inputs: Array) -> Array:
        """The last layer for inputs (..., inputs); remembers what each layer saw."""
        # What is multiplied later is what is measured: a norm taken of integers would wrap around.
        lines = inputs.reshape(-1, self._network.inputs).astype(np.float32, copy=False)
        if len(lines) > len(self._ones):
            self._grow(len(lines))
        self._seen = [lines, *self._network.seen(lines, self._outputs)]
        return self._seen[-1].reshape(*inputs.shape[:-1], self._network.outputs)

    def lines(self, slopes: Array) -> list[Lines]:
        """Inputs and errors of each layer, first to last, from derivatives in the logits."""
        layers, errors = self._network.layers, slopes.reshape(self._seen[-1].shape)
        found = [Lines(self._seen[-2], errors)]
        for place in reversed(range(len(layers) - 1)):
            before, alive = self._errors[place][: len(errors)], self._alive[place][: len(errors)]
            np.matmul(errors, layers[place + 1].weight, out=before)
            before *= np.greater(self._seen[place + 1], 0, out=alive)
            errors = before
            found.insert(0, Lines(self._seen[place], errors))
        return found

    def add_up(self, lines: list[Lines]) -> Array:
        """The sum of the gradients of all lines, which is `total`."""
        for total, each in zip(self._totals, lines, strict=True):
            np.matmul(each.errors.T, each.inputs, out=total.weight)
            np.matmul(self._ones[: len(each.errors)], each.errors, out=total.bias)
        return self.total
