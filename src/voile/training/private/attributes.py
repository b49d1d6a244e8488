"""DP-SGD for declared columns of a row: only what these columns change is clipped and gets noise.

g is a record's gradient, g₀ that of the same record with its private columns blanked. g₀ knows
nothing of the private columns, so its sum is used as it is; the sum of the differences g − g₀, each
clipped, gets the noise. So noise scales with what private columns contribute, which is the idea of
FedSVA, and the guarantee is fixed beforehand.

The two sums are over *independent* Poisson samples. With one sample for both, the exact sum would
show who was drawn, and the noise on the other one would no longer be amplified by sampling.

For a perceptron a difference of two gradients is a record with two lines, the second of which has
its error negated: norms and sums are those of `PerceptronSum`. Proof: docs/guarantees/attributes.md
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import Relation
from voile.core.randomness import GeneratorSource, StreamCipher
from voile.privacy.events import PrivacyEvent
from voile.training.losses import Batch, Loss, slopes_of
from voile.training.optimisers import Move, Optimiser
from voile.training.perceptron import Array, Perceptron
from voile.training.private.loop import (
    SPEED,
    PerceptronSum,
    blank_records,
    fit_privately,
    poisson_samples,
)
from voile.training.private.settings import (
    PrivateRun,
    PrivateSteps,
    TrainingSpeed,
)


@dataclass(frozen=True, eq=False)
class PrivateColumns:
    """Which inputs of a network are private, and what stands for them where they are blanked.

    Args:
        private: one truth value for each input, shape (inputs,).
        blank: an input vector in which nothing is private, shape (inputs,); only its private
            places are used.
    """

    private: NDArray[np.bool_]
    blank: Array = field(repr=False)

    def __post_init__(self) -> None:
        if self.private.dtype != np.bool_ or self.private.ndim != 1:
            raise InvalidInput("private must hold one truth value for each input of the network")
        if self.private.all() or not self.private.any():
            raise InvalidInput(
                "some inputs must be private and some public, found "
                f"{int(self.private.sum())} private ones of {len(self.private)}; where all of a "
                "row is protected, use fit_privately"
            )
        if self.blank.shape != self.private.shape or not np.isfinite(self.blank).all():
            raise InvalidInput("blank must hold one finite number for each input of the network")

    def blanked(self, inputs: Array) -> Array:
        """The same rows, of which nothing private can be read."""
        found: Array = np.where(self.private, self.blank, inputs).astype(np.float32, copy=False)
        return found

    def readable(self, inputs: Array) -> Array:
        """Rows whose private columns cannot be read have blank ones.

        Otherwise a NaN in a private column would take the row out of the public sum as well, and
        its absence there would show.
        """
        # A value that single precision cannot hold is infinite, and nobody is warned of it.
        with np.errstate(over="ignore"):
            held = inputs.astype(np.float32, copy=False)
        lost = (~np.isfinite(held) & self.private).any(axis=1, keepdims=True)
        found: Array = np.where(lost, self.blanked(held), held)
        return found


@dataclass(frozen=True, kw_only=True)
class AttributeSteps:
    """Everything the privacy of a run depends on, for declared columns.

    Args:
        difference: of the clipped differences: norm, noise, sampling, steps, rows, relation.
    """

    difference: PrivateSteps

    def __post_init__(self) -> None:
        if self.difference.relation is Relation.ADD_OR_REMOVE_ONE:
            raise Refused(
                "columns of a row are blanked or replaced; a row that is added or removed has "
                "public columns, which are exact here. Use 'zero-out' or 'replace one'"
            )

    def event(self) -> PrivacyEvent:
        """What a run costs the declared columns of one row: the public sums do not depend on them.

        The noise multiplier is relative to what *one* record adds, C; under "replace one" two
        records may add opposite differences, 2C apart, and the event says so by its relation.
        """
        return self.difference.event()


def fit_attributes_privately(
    network: Perceptron,
    records: Batch,
    loss: Loss,
    columns: PrivateColumns,
    privacy: AttributeSteps,
    *,
    optimiser: Optimiser,
    source: GeneratorSource | None = None,
    speed: TrainingSpeed = SPEED,
) -> PrivateRun:
    """Train a network in place, so that its parameters are private for declared columns of a row.

    Guarantee: all parameters of all steps together cost `privacy.event()` for the private columns
    of one row; labels and all other columns are public, and so is what they tell about the private
    ones.

    Args:
        network: a perceptron; it is changed when the run is complete, not before.
        records: arrays whose first axis is the record; the first holds the inputs, (n, inputs). A
            record with a NaN in a public place adds nothing at all; one whose private columns are
            not finite is a row with blank ones.
        loss: one figure for each record, which has one line.
        columns: what is private.
        privacy: what is promised.
        optimiser, source, speed: as for `fit_privately`.
    """
    if np.ndim(records[0]) != 2 or records[0].shape[1] != len(columns.private):
        raise InvalidInput(
            f"records must begin with inputs of the shape (n, {len(columns.private)}), found "
            f"{np.shape(records[0])}"
        )
    readable = (columns.readable(records[0]), *records[1:])
    source = StreamCipher() if source is None else source
    public = _PublicSums(network, readable, _Blanked(loss, columns), privacy, source, optimiser)
    return fit_privately(
        network,
        readable,
        _Difference(loss, columns),
        privacy.difference,
        optimiser=public,
        source=source,
        speed=speed,
    )


@dataclass(frozen=True, eq=False)
class _Blanked:
    """The loss of records with blank private columns."""

    loss: Loss
    columns: PrivateColumns

    def inputs(self, batch: Batch) -> Array:
        # Blanked before the loss sees them: what it computes of a row may mix its columns.
        return self.loss.inputs(self._seen(batch))

    def values(self, logits: Array, batch: Batch) -> Array:
        return self.loss.values(logits, self._seen(batch))

    def slopes(self, logits: Array, batch: Batch) -> Array:
        return self.loss.slopes(logits, self._seen(batch))

    def _seen(self, batch: Batch) -> Batch:
        """No loss may look at private columns behind the network's back."""
        return (self.columns.blanked(batch[0]), *batch[1:])


@dataclass(frozen=True, eq=False)
class _Difference:
    """A record's loss minus that with blank private columns, as two lines of one record."""

    loss: Loss
    columns: PrivateColumns

    @property
    def _without(self) -> _Blanked:
        return _Blanked(self.loss, self.columns)

    def inputs(self, batch: Batch) -> Array:
        return np.stack([self.loss.inputs(batch), self._without.inputs(batch)], axis=1)

    def values(self, logits: Array, batch: Batch) -> Array:
        found: Array = self.loss.values(logits[:, 0], batch) - self._without.values(
            logits[:, 1], batch
        )
        return found

    def slopes(self, logits: Array, batch: Batch) -> Array:
        with_them = slopes_of(self.loss, logits[:, 0], batch)
        without = slopes_of(self._without, logits[:, 1], batch)
        return np.stack([with_them, -without], axis=1)


@dataclass(frozen=True, eq=False)
class _PublicSums:
    """An optimiser that adds the public part to every gradient, after clipping and noise.

    Its draws are its own. Like the pull of `Proximal`, what it adds knows nothing of private
    columns but through the parameters, which have noise.
    """

    network: Perceptron
    records: Batch
    loss: Loss
    privacy: AttributeSteps
    source: GeneratorSource
    optimiser: Optimiser

    def bind(self, parameters: Array) -> Move:
        follow, steps = self.optimiser.bind(parameters), self.privacy.difference
        sums = PerceptronSum(self.network, self.loss)
        samples = self._samples(self.source.generator())

        def move(gradient: Array, share: float = 1.0) -> None:
            sums.values[:] = parameters
            drawn = next(samples)
            sums.total[:] = 0
            if len(drawn):
                sums.add_up(tuple(part[drawn] for part in self.records), math.inf)
            gradient += np.divide(sums.total, steps.expected_batch, out=sums.total)
            follow(gradient, share)

        return move

    def _samples(self, draw: np.random.Generator) -> Iterator[NDArray[np.intp]]:
        """Independent of those of the differences: of the same stream, drawn apart."""
        steps, blank = self.privacy.difference, blank_records(self.records)
        rows = len(self.records[0])
        for drawn in poisson_samples(draw, rows, steps.sampling_rate, steps.steps):
            yield drawn[~blank[drawn]]
