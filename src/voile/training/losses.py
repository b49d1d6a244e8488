"""What training asks of a loss: what the network sees, one figure a record, and its derivative."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput
from voile.training.heads import Distance, Head, divergence
from voile.training.perceptron import Array

Batch: TypeAlias = tuple[NDArray[Any], ...]
"""Everything a loss needs about some records; the first axis of each array is the record."""
Batches: TypeAlias = Callable[[], Batch]
"""Draws the next batch."""


class Loss(Protocol):
    """The loss of each record. What records share (a mean, a penalty) has no place here, so that
    gradients can be bounded record by record.
    """

    def inputs(self, batch: Batch) -> Array:
        """What the network sees of each record: (n, inputs), or several lines, (n, k, inputs)."""

    def values(self, logits: Array, batch: Batch) -> Array:
        """One figure a record, (n,)."""

    def slopes(self, logits: Array, batch: Batch) -> Array:
        """The derivative of each figure in the record's own logits; a new array of their shape."""


@dataclass(frozen=True, eq=False)
class TargetLoss:
    """How far outputs are from targets. Batch: inputs (n, inputs), targets (n, outputs)."""

    head: Head
    distance: Distance = divergence

    def inputs(self, batch: Batch) -> Array:
        return batch[0]

    def values(self, logits: Array, batch: Batch) -> Array:
        return self.distance.values(self.head, logits, batch[1])

    def slopes(self, logits: Array, batch: Batch) -> Array:
        return self.distance.slopes(self.head, logits, batch[1])


def slopes_of(loss: Loss, logits: Array, batch: Batch) -> Array:
    """The derivatives of a batch, checked: they must be those of its records. Shapes are public.

    In single precision, whatever the loss computes in.
    """
    slopes = loss.slopes(logits, batch) if len(logits) == len(batch[0]) else None
    if slopes is None or slopes.shape != logits.shape:
        raise InvalidInput(
            f"the loss must give inputs and derivatives whose first axis are its {len(batch[0])} "
            f"records (several lines of a record on the second), found logits {logits.shape}"
        )
    return slopes.astype(np.float32, copy=False)
