"""Clipped sums for perceptrons, without one gradient per record.

The gradient of a linear layer for one line is the outer product of its input a (with a 1 for the
bias) and the error b that comes back: squared norm (‖a‖² + 1)·‖b‖². A record with K lines is one
sample; its squared norm is Σₖₗ (aₖ·aₗ + 1)(bₖ·bₗ), and the clipped sum over all records is
Aᵀ diag(w) B with one weight for each record. So one backward pass gives all norms, and one product
of matrices for each layer gives the sum.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from voile.training.losses import Batch, Loss, slopes_of
from voile.training.perceptron import Array, Backward, Lines, Perceptron

SCALE: Final = 2.0**32
"""Errors are computed so many times too large, which is exact. Squares of small ones do not vanish
then in single precision, where they could hide a gradient beside a large input; what overflows is
seen, and adds nothing."""
CANCELLING: Final = 256
MOST_CANCELLING: Final = 4096
"""Lines of one record may cancel. Its norm is not believed below 1/(16·√K) of the sum of the norms
of its K lines, a sixteenth of what random signs would leave, nor below 1/64 of it: rounding, whose
share of the sum does not shrink with K, could hide what is left."""


class PerceptronSum:
    """A `ClippedSum` over a copy of a perceptron."""

    def __init__(self, network: Perceptron, loss: Loss) -> None:
        self.values: Array = network.values.copy()
        self._passes = Backward(Perceptron(network.widths, self.values))
        self.total = self._passes.total
        self._loss = loss

    def add_up(self, batch: Batch, norm: float) -> Array:
        """See `ClippedSum`."""
        logits = self._passes.logits(self._loss.inputs(batch))
        slopes = slopes_of(self._loss, logits, batch)
        slopes *= SCALE
        return self._clip(self._passes.lines(slopes), len(batch[0]), norm)

    def _clip(self, lines: list[Lines], records: int, norm: float) -> Array:
        """Write the sum; the norms of the records that are part of it."""
        count = len(lines[0].inputs) // records
        norms: Array = np.sqrt(sum(_squares(each, count) for each in lines))
        if not math.isfinite(float(norms.max())):
            # Rare, and the reason depends on protected values: nothing is raised, nothing logged.
            kept = np.isfinite(norms)
            norms, kept = norms[kept], np.repeat(kept, count)
            lines = [Lines(each.inputs[kept], each.errors[kept]) for each in lines]
        weights = np.minimum(norm / norms, np.float32(1 / SCALE))
        weights = np.repeat(weights, count)[:, np.newaxis]
        for each in lines:
            np.multiply(each.errors, weights, out=each.errors)
        self._passes.add_up(lines)
        norms /= SCALE
        return norms


def _squares(lines: Lines, count: int) -> Any:
    """SCALE² times the squared gradient norm of each record in one layer."""
    if count == 1:
        return (np.vecdot(lines.inputs, lines.inputs) + 1) * np.vecdot(lines.errors, lines.errors)
    products = _gram(lines.inputs, count)
    products += 1
    products *= _gram(lines.errors, count)
    alone = np.sqrt(np.diagonal(products, axis1=1, axis2=2)).sum(axis=1)
    floor = np.square(alone) / np.float32(min(CANCELLING * count, MOST_CANCELLING))
    return np.maximum(products.sum(axis=(1, 2)), floor)


def _gram(lines: Array, count: int) -> Array:
    """Products of all pairs of lines of each record, (records, count, count)."""
    stacked = lines.reshape(-1, count, lines.shape[1])
    # Of a copy: numpy takes a way for A·Aᵀ that is four times slower for matrices this small.
    return stacked @ stacked.copy().swapaxes(1, 2)
