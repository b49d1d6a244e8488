"""Multilayer perceptrons in float32, initialised from a numpy generator."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput
from voile.core.optional import optional

if TYPE_CHECKING:
    from torch import nn


def perceptron(
    inputs: int, hidden: tuple[int, ...], outputs: int, draw: np.random.Generator
) -> nn.Sequential:
    """Linear layers with rectifiers between them.

    Weights are uniform within ±√(6/inputs) of their layer, which keeps the variance through
    rectifiers; the last layer begins at 0, so that training starts from "no opinion".
    """
    torch = optional("torch", extra="torch")
    layers: list[Any] = []
    for width, following in pairwise((inputs, *hidden, outputs)):
        layer = torch.nn.utils.skip_init(torch.nn.Linear, width, following)
        bound = math.sqrt(6 / width)
        weights = draw.uniform(-bound, bound, (following, width)).astype(np.float32)
        with torch.no_grad():
            layer.weight.copy_(torch.from_numpy(weights))
            layer.bias.zero_()
        layers += [layer, torch.nn.ReLU()]
    with torch.no_grad():
        layers[-2].weight.zero_()
    network: nn.Sequential = torch.nn.Sequential(*layers[:-1])
    return network


def arrays_of(network: nn.Module) -> dict[str, NDArray[np.float32]]:
    """Copies of all parameters by name."""
    return {
        name: np.array(value.detach().cpu().numpy(), dtype=np.float32)
        for name, value in network.state_dict().items()
    }


def with_arrays(arrays: Mapping[str, NDArray[np.float32]]) -> nn.Sequential:
    """The perceptron that has these parameters; the inverse of `arrays_of`."""
    torch = optional("torch", extra="torch")
    places = range(0, max(len(arrays), 1), 2)  # two arrays a layer, a rectifier between layers
    expected = {f"{place}.{part}" for place in places for part in ("weight", "bias")}
    if set(arrays) != expected:
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
        if not (np.isfinite(weight).all() and np.isfinite(bias).all()):
            raise InvalidInput(f"layer {place} has parameters that are not finite")
        widths.append(weight.shape[0])
    network = perceptron(widths[0], tuple(widths[1:-1]), widths[-1], np.random.default_rng(0))
    state = {n: torch.from_numpy(np.array(a, dtype=np.float32)) for n, a in arrays.items()}
    network.load_state_dict(state)
    return network.eval()
