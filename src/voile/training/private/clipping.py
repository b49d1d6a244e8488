"""The clipped sum of a step: what one record can add to it, and by whom it is computed.

Guarantee: the sum moves by at most the norm, in the l2 norm over all parameters together, if one
record is added, taken away or blanked, up to `ROUNDING_MARGIN`. A record is everything at one place
of the first axis, however many lines (coalitions) the network sees of it. A record whose gradient
is not finite adds nothing, and never raises.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from voile.training.perceptron import Array

AnyBatch = TypeVar("AnyBatch", bound=tuple[Any, ...], contravariant=True)


class ClippedSum(Protocol[AnyBatch]):
    """Sums clipped gradients of records over one network, with a loss of its own."""

    @property
    def values(self) -> Array:
        """The parameters, flat: a copy, which is what moves during a run."""

    @property
    def total(self) -> Array:
        """The last sum, flat."""

    def add_up(self, batch: AnyBatch, norm: float) -> NDArray[Any]:
        """Overwrite `total`; the gradient norms of the records that are part of it, protected."""


def centred_count(norms: NDArray[Any], norm: float) -> float:
    """Over records: +½ for one within the norm, −½ for one beyond, 0 for one that adds nothing."""
    return int(np.count_nonzero(norms <= norm)) - len(norms) / 2


def blank_records(records: Sequence[Any]) -> NDArray[np.bool_]:
    """The null records of "blank one": those with a NaN in any of their arrays (or tensors)."""
    found = np.zeros(len(records[0]), dtype=np.bool_)
    for part in records:
        missing = np.isnan(np.asarray(part))
        found |= missing.any(axis=tuple(range(1, missing.ndim)))
    return found
