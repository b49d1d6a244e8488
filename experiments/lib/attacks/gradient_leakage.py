"""What gradients give away about rows, to a server that sees them, or that chose the parameters.

One row: the gradient of a linear layer is error times input for the weights and the error itself
for the bias, so their quotient is the row. Many rows: a server that sets all units of the first
layer to one direction with staggered biases finds, between two neighbouring units, the rows that
fall between them; a row that is there alone is read. That works as well on a sum over clients.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from voile.training import Array, Loss, Perceptron
from voile.training.private import PerceptronSum

_UNCLIPPED = 1e6


def gradient(network: Perceptron, loss: Loss, batch: tuple[NDArray[Any], ...]) -> Array:
    """The summed gradient of a batch, flat: what leaves without clipping and noise."""
    sums = PerceptronSum(network, loss)
    with np.errstate(all="ignore"):
        sums.add_up(batch, _UNCLIPPED)
    return sums.total


def row_of_gradient(network: Perceptron, flat: Array) -> Array:
    """The input of the one row that a gradient is of."""
    layer = network.views(flat)[0]
    unit = int(np.abs(layer.bias).argmax())
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.nan_to_num(layer.weight[unit] / layer.bias[unit]), dtype=np.float32)


def staggered(width: int, units: int, outputs: int, cuts: Array, direction: Array) -> Perceptron:
    """A network that a malicious server would send.

    Args:
        cuts: where biases stand along the direction, (units,), increasing.
        direction: (width,).
    """
    network = Perceptron(
        (width, units, outputs), np.zeros(_size(width, units, outputs), np.float32)
    )
    first, last = network.layers
    first.weight[:] = direction
    first.bias[:] = -cuts
    # Small, so that no row is answered with certainty: its error, and all else of it, would vanish.
    last.weight[:] = np.linspace(-1, 1, outputs, dtype=np.float32)[:, np.newaxis] / units**2
    return network


def rows_of_staggered(network: Perceptron, flat: Array) -> Array:
    """One row between each two units; of those with one row in between, exactly that row."""
    layer = network.views(flat)[0]
    weights = np.diff(layer.weight, axis=0, append=0)
    bias = np.diff(layer.bias, append=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = weights / bias[:, np.newaxis]
    return np.asarray(np.nan_to_num(found, posinf=0.0, neginf=0.0), dtype=np.float32)


def read_exactly(found: Array, rows: Array, tolerance: float = 1e-2) -> float:
    """The share of rows that are among those found, up to a tolerance in every column."""
    apart = np.abs(found[np.newaxis] - rows[:, np.newaxis]).max(axis=2).min(axis=1)
    return float((apart <= tolerance).mean())


def _size(width: int, units: int, outputs: int) -> int:
    return (width + 1) * units + (units + 1) * outputs
