"""What training asks of a loss: what the network sees, one figure a record, and its derivative."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from voile.core.digest_names import digest_name
from voile.core.errors import InvalidInput
from voile.training.perceptron import Array

# --- How the last layer of a network becomes outputs, and how far those are from a target --------
# A head knows where outputs lie. It reads logits as *means*, the natural parameters of a law as its
# expectation, and targets in the same units. Both distances are smallest at the conditional mean of
# the target given what the network sees, so a surrogate trained with either estimates v(S) = E[f(x)
# | x_S]; a robust one (absolute, Huber) would estimate something else. They differ in how hard one
# record can pull:
#
# - `divergence` (Kullback-Leibler): its derivative in the logits is means − targets, for every
#   head, and at most 1 in size for probabilities;
# - `squared_distance`: its derivative vanishes where the network is certain; with two classes it is
#   at most 16/27 in size, and with any number of classes its norm is at most that of p − q.


class Head(Protocol):
    """All arrays have the outputs on their last axis."""

    def means(self, logits: NDArray[Any]) -> NDArray[Any]:
        """What the logits stand for: probabilities, shares, standardised numbers."""

    def wanted(self, targets: Array) -> Array:
        """Targets in the units of `means`."""

    def outputs(self, logits: NDArray[Any]) -> NDArray[Any]: ...

    def divergence(self, logits: Array, wanted: Array) -> Array:
        """Of the law with the means `wanted` from that of the logits, summed over the outputs."""

    def back(self, means: Array, slopes: Array) -> Array:
        """From derivatives in the means to derivatives in the logits."""


@digest_name("voile.training.heads.Softmax")
@dataclass(frozen=True)
class Softmax:
    """Probabilities of exclusive classes."""

    @np.errstate(all="ignore")  # as in `Perceptron.seen`
    def means(self, logits: NDArray[Any]) -> NDArray[Any]:
        # The classes come first while computing: numpy is slow along a short last axis.
        first = np.ascontiguousarray(np.moveaxis(logits, -1, 0))
        first = np.exp(np.subtract(first, first.max(axis=0), out=first), out=first)
        first /= first.sum(axis=0)
        return np.moveaxis(first, 0, -1)

    def wanted(self, targets: Array) -> Array:
        """Probabilities: they add up to 1."""
        return targets

    outputs = means

    def divergence(self, logits: Array, wanted: Array) -> Array:
        """KL(target ‖ outputs)."""
        shifted = logits - logits.max(axis=-1, keepdims=True)
        logs = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
        found: Array = (_entropy(wanted) - wanted * logs).sum(axis=-1)
        return found

    def back(self, means: Array, slopes: Array) -> Array:
        found: Array = means * (slopes - (means * slopes).sum(axis=-1, keepdims=True))
        return found


@digest_name("voile.training.heads.Sigmoid")
@dataclass(frozen=True, eq=False)
class Sigmoid:
    """Numbers between two bounds, given for each output, shape (outputs,)."""

    lower: Array
    upper: Array

    def means(self, logits: NDArray[Any]) -> NDArray[Any]:
        """The share of the way between the bounds."""
        found: NDArray[Any] = 1 / (1 + np.exp(-np.clip(logits, -80, 80)))
        return found

    def wanted(self, targets: Array) -> Array:
        share: Array = (targets - self.lower) / (self.upper - self.lower)
        return share.clip(0, 1)

    def outputs(self, logits: NDArray[Any]) -> NDArray[Any]:
        found: NDArray[Any] = self.lower + (self.upper - self.lower) * self.means(logits)
        return found

    def divergence(self, logits: Array, wanted: Array) -> Array:
        """The divergence of Bernoulli laws whose means are the shares."""
        sure = _entropy(wanted) + _entropy(1 - wanted)
        found: Array = (sure + np.logaddexp(0, logits) - wanted * logits).sum(axis=-1)
        return found

    def back(self, means: Array, slopes: Array) -> Array:
        return slopes * means * (1 - means)


@digest_name("voile.training.heads.Identity")
@dataclass(frozen=True, eq=False)
class Identity:
    """Any numbers, in units of a typical spread around a typical value, shape (outputs,) each.

    The divergence is that of normal laws of unit variance, so both distances agree up to a factor.
    """

    centre: Array
    spread: Array

    def means(self, logits: NDArray[Any]) -> NDArray[Any]:
        return logits

    def wanted(self, targets: Array) -> Array:
        return (targets - self.centre) / self.spread

    def outputs(self, logits: NDArray[Any]) -> NDArray[Any]:
        found: NDArray[Any] = self.centre + self.spread * logits
        return found

    def divergence(self, logits: Array, wanted: Array) -> Array:
        found: Array = np.square(logits - wanted).sum(axis=-1) / 2
        return found

    def back(self, means: Array, slopes: Array) -> Array:  # noqa: ARG002
        return slopes


@dataclass(frozen=True)
class Distance:
    """How far outputs are from targets, line by line, given head, logits and targets.

    Args:
        values: one figure a line.
        slopes: its derivative in the logits, in their shape; a new array.
    """

    values: Callable[[Head, Array, Array], Array]
    slopes: Callable[[Head, Array, Array], Array]


def _squared_slopes(head: Head, logits: Array, targets: Array) -> Array:
    means = head.means(logits)
    return head.back(means, 2 * (means - head.wanted(targets)))


divergence: Final = Distance(
    lambda head, logits, targets: head.divergence(logits, head.wanted(targets)),
    lambda head, logits, targets: head.means(logits) - head.wanted(targets),
)
"""Kullback-Leibler divergence of the outputs from the targets."""
squared_distance: Final = Distance(
    lambda head, logits, targets: np.square(head.means(logits) - head.wanted(targets)).sum(axis=-1),
    _squared_slopes,
)
"""Squared distance of outputs and targets, in the head's units; single records pull less."""


def _entropy(share: Array) -> Array:
    """share·log(share), which is 0 at 0."""
    return share * np.log(np.where(share > 0, share, 1))


# --------------------------------------------------------------------------------------------------


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
