"""The loop of DP-SGD."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput
from voile.core.guarantee import Relation
from voile.core.one_thread import one_thread
from voile.core.randomness import GeneratorSource, StreamCipher
from voile.training.losses import Batch, Loss, slopes_of
from voile.training.optimisers import Optimiser
from voile.training.perceptron import Array, Backward, Lines, Perceptron
from voile.training.private.settings import (
    ROUNDING_MARGIN,
    PrivateRun,
    PrivateSteps,
    TrainingSpeed,
)

# --- Clipped sums for perceptrons, without one gradient per record --------------------------------
# The gradient of a linear layer for one line is the outer product of its input a (with a 1 for the
# bias) and the error b that comes back: squared norm (‖a‖² + 1)·‖b‖². A record with K lines is one
# sample; its squared norm is Σₖₗ (aₖ·aₗ + 1)(bₖ·bₗ), and the clipped sum over all records is
# Aᵀ diag(w) B with one weight for each record. So one backward pass gives all norms, and one
# product of matrices for each layer gives the sum.


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


# --- The clipped sum of a step: what one record can add to it, and by whom it is computed --------
# Guarantee: the sum moves by at most the norm, in the l2 norm over all parameters together, if one
# record is added, taken away or blanked, up to `ROUNDING_MARGIN`. A record is everything at one
# place of the first axis, however many lines (coalitions) the network sees of it. A record whose
# gradient is not finite adds nothing, and never raises.


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


def blank_records(records: Sequence[Any]) -> NDArray[np.bool_]:
    """The null records of "zero-out": those with a NaN in any of their arrays (or tensors)."""
    found = np.zeros(len(records[0]), dtype=np.bool_)
    for part in records:
        missing = np.isnan(np.asarray(part))
        found |= missing.any(axis=tuple(range(1, missing.ndim)))
    return found


# --------------------------------------------------------------------------------------------------


# --- Which records are part of a step ------------------------------------------------------------


_FIRST, _SECOND = 2**16, 2**32
_WORDS_AT_ONCE = 2**17


def poisson_samples(
    draw: np.random.Generator, rows: int, rate: float, steps: int
) -> Iterator[NDArray[np.intp]]:
    """For each step the places of its records, each drawn with probability `rate`, independently.

    Whole random words are compared with a whole threshold, so the law is exact for the rate rounded
    *down* to a multiple of 2⁻⁴⁸. A smaller rate is never less private, so what is charged for
    `rate` covers it. Sixteen bits decide almost always; only where they equal those of the
    threshold do thirty-two more.
    """
    first, second = divmod(math.floor(rate * _FIRST * _SECOND), _SECOND)
    block = max(1, min(steps, _WORDS_AT_ONCE // max(rows, 1)))
    for start in range(0, steps, block):
        words = draw.integers(0, _FIRST, (min(block, steps - start), rows), dtype=np.uint16)
        inside = words < first
        tied = words == first
        inside[tied] = draw.integers(0, _SECOND, int(tied.sum()), dtype=np.uint32) < second
        yield from map(np.flatnonzero, inside)


# --------------------------------------------------------------------------------------------------


Prepare: TypeAlias = Callable[[Batch], Batch]
"""From drawn records to what the loss sees of them, record by record (fresh coalitions, say)."""
Records = TypeVar("Records", bound=tuple[Any, ...])

SPEED: Final = TrainingSpeed()


def fit_privately(
    network: Perceptron,
    records: Batch,
    loss: Loss,
    privacy: PrivateSteps,
    *,
    optimiser: Optimiser,
    source: GeneratorSource | None = None,
    prepare: Prepare | None = None,
    speed: TrainingSpeed = SPEED,
) -> PrivateRun:
    """Train a network in place, so that its parameters are private for each record.

    Guarantee: all parameters of all steps together cost `privacy.event()`, which depends on none of
    the other arguments. Nothing else about the records is returned, no loss in particular.

    Args:
        network: a perceptron; it is changed when the run is complete, not before. For torch modules
            of your own: `fit_module_privately`.
        records: arrays whose first axis is the record. A record with a NaN anywhere is a blank
            one: it is drawn like any other and adds nothing; `prepare` and `loss` never see it.
        loss: one figure for each record; what one record gives must not depend on others.
        privacy: what is promised.
        optimiser: `Sgd` or `Adam`, perhaps within `Proximal`.
        source: where the draw of records and the noise come from; a fresh `StreamCipher` if absent.
        prepare: what is made of the drawn records in each step.
        speed: what changes time and memory alone, and who is told how far the work is.
    """
    sums = PerceptronSum(network, loss)
    with one_thread():
        run = private_steps(sums, records, privacy, optimiser, source, prepare, speed)
    network.values[:] = sums.values
    return run


# What overflows or is not a number depends on protected values: nobody hears of it.
@np.errstate(all="ignore")
def private_steps(
    sums: ClippedSum[Records],
    records: Records,
    privacy: PrivateSteps,
    optimiser: Optimiser,
    source: GeneratorSource | None,
    prepare: Callable[[Records], Records] | None,
    speed: TrainingSpeed,
) -> PrivateRun:
    """All steps of a run; `sums.values` is what they move. See `fit_privately`."""
    rows = _check_records(records, privacy)
    source = StreamCipher() if source is None else source
    noise = Noise(source.generator(), len(sums.values))
    move = optimiser.bind(sums.values)
    norm = privacy.clipping_norm
    deviation = norm * privacy.noise_multiplier * (1 + ROUNDING_MARGIN)
    blank = blank_records(records)
    samples = poisson_samples(noise.draw, rows, privacy.sampling_rate, privacy.steps)
    for step, drawn in enumerate(samples, start=1):
        _add_up(sums, records, drawn[~blank[drawn]], prepare, norm)
        # Noise whatever was drawn, nothing too: else an empty step would show.
        noise.add_to(sums.total, deviation)
        move(np.divide(sums.total, privacy.expected_batch, out=sums.total))
        if speed.progress is not None:
            speed.progress(step, privacy.steps)
    return PrivateRun(privacy.event(), source.note)


class Noise:
    """Normal noise from one generator, drawn into one place."""

    def __init__(self, draw: np.random.Generator, size: int) -> None:
        self.draw = draw
        self._drawn = np.empty(size, dtype=np.float32)

    def add_to(self, total: Array, deviation: float) -> None:
        self.draw.standard_normal(out=self._drawn, dtype=np.float32)
        total += np.multiply(self._drawn, deviation, out=self._drawn)


def _add_up(
    sums: ClippedSum[Records],
    records: Records,
    drawn: Any,
    prepare: Callable[[Records], Records] | None,
    norm: float,
) -> None:
    """The clipped sum over these records, in `sums.total`."""
    if not len(drawn):
        sums.total[:] = 0
        return
    batch: Any = tuple(part[drawn] for part in records)
    if prepare is not None:
        batch = prepare(batch)
        _check_axis(batch, len(drawn), "prepare must keep the records on the first axis")
    sums.add_up(batch, norm)


def _check_records(records: Sequence[Any], privacy: PrivateSteps) -> int:
    """How many there are. Only where sizes are public may a message depend on it."""
    if not records:
        raise InvalidInput("records must hold at least one array")
    rows = len(records[0])
    _check_axis(records, rows, "all arrays of the records must have the same first axis")
    if privacy.relation is not Relation.ADD_OR_REMOVE_ONE and rows != privacy.rows:
        raise InvalidInput(
            f"the declared public size is {privacy.rows}, found {rows} records; correct it, or use "
            "the relation that keeps sizes private"
        )
    return rows


def _check_axis(batch: Sequence[Any], rows: int, problem: str) -> None:
    lengths = {len(part) for part in batch}
    if lengths != {rows}:
        raise InvalidInput(f"{problem}, found lengths {sorted(lengths)} and expected {rows}")
