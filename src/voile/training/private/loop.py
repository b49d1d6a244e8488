"""The loop of DP-SGD."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput
from voile.core.guarantee import Relation
from voile.core.optional import optional
from voile.core.randomness import GeneratorSource, StreamCipher
from voile.training.loop import Batch, Loss
from voile.training.private.blanks import blank_records
from voile.training.private.clipping import ClippedSum, FlatParameters, centred_count
from voile.training.private.modules import ModuleSum
from voile.training.private.optimisers import Optimiser
from voile.training.private.perceptrons import PerceptronSum, is_perceptron
from voile.training.private.sampling import poisson_samples
from voile.training.private.settings import (
    ROUNDING_MARGIN,
    AdaptedNorm,
    PrivateRun,
    PrivateSteps,
    TrainingSpeed,
)

if TYPE_CHECKING:
    from torch import Tensor, nn

Prepare: TypeAlias = Callable[[Batch], Batch]
"""From drawn records to what the loss sees of them, record by record (fresh coalitions, say)."""

_SPEED: Final = TrainingSpeed()


def fit_privately(
    network: nn.Module,
    records: Batch,
    loss: Loss,
    privacy: PrivateSteps,
    *,
    optimiser: Optimiser,
    source: GeneratorSource | None = None,
    prepare: Prepare | None = None,
    speed: TrainingSpeed = _SPEED,
) -> PrivateRun:
    """Train a network in place, so that its parameters are private for each record.

    Guarantee: all parameters of all steps together cost `privacy.event()`, which depends on none of
    the other arguments. Nothing else about the records is returned, no loss in particular.

    Args:
        network: a perceptron is fastest; any other network is trained as well, unless its layers
            mix records. It is changed when the run is complete, not before.
        records: tensors whose first axis is the record. A record with a NaN anywhere is a blank
            one: it is drawn like any other and adds nothing, not even to the count of a norm that
            is adapted; `prepare` and `loss` never see it.
        loss: one figure for each record; of the network it may only use the answers, and what one
            record gives must not depend on others.
        privacy: what is promised.
        optimiser: `Sgd` or `Adam`, perhaps within `Proximal`.
        source: where the draw of records and the noise come from; a fresh `StreamCipher` if absent.
        prepare: what is made of the drawn records in each step.
        speed: what changes time and memory alone, and who is told how far the work is.
    """
    rows = _check_records(records, privacy)
    source = StreamCipher() if source is None else source
    flat = FlatParameters(network)
    sums = _sums_of(network, flat, speed)
    noise = _Noise(source.generator(), len(flat.values))
    move = optimiser.over(flat.values)
    norm, deviation = privacy.first_norm, privacy.gradient_noise() * (1 + ROUNDING_MARGIN)
    blank = blank_records(records)
    samples = poisson_samples(noise.draw, rows, privacy.sampling_rate, privacy.steps)
    for step, drawn in enumerate(samples, start=1):
        norms = _add_up(sums, records, drawn[~blank[drawn]], loss, prepare, norm)
        # Noise whatever was drawn, nothing too: else an empty step would show.
        noise.add_to(sums.total, deviation * norm)
        move(sums.total.div_(privacy.expected_batch))
        if isinstance(privacy.clipping_norm, AdaptedNorm):
            count = noise.near(centred_count(norms, norm), privacy.clipping_norm.count_noise)
            norm = privacy.clipping_norm.after(norm, count / privacy.expected_batch)
        if speed.progress is not None:
            speed.progress(step, privacy.steps)
    flat.write_back()
    return PrivateRun(privacy.event(), norm, source.note)


class _Noise:
    """Normal noise from one generator, drawn into one place."""

    def __init__(self, draw: np.random.Generator, size: int) -> None:
        torch: Any = optional("torch", extra="torch")
        self.draw = draw
        self._drawn = np.empty(size, dtype=np.float32)
        self._tensor = torch.from_numpy(self._drawn)

    def add_to(self, total: Tensor, deviation: float) -> None:
        self.draw.standard_normal(out=self._drawn, dtype=np.float32)
        total.add_(self._tensor, alpha=deviation)

    def near(self, value: float, deviation: float) -> float:
        return value + deviation * float(self.draw.standard_normal())


def _sums_of(network: nn.Module, flat: FlatParameters, speed: TrainingSpeed) -> ClippedSum:
    if is_perceptron(network):
        return PerceptronSum(network, flat)  # type: ignore[arg-type]
    return ModuleSum(network, flat, speed.chunk)


def _add_up(
    sums: ClippedSum,
    records: Batch,
    drawn: NDArray[np.intp],
    loss: Loss,
    prepare: Prepare | None,
    norm: float,
) -> Tensor:
    """The clipped sum over these records, in `sums.total`; their gradient norms."""
    torch: Any = optional("torch", extra="torch")
    if not len(drawn):
        sums.total.zero_()
        return torch.zeros(0)  # type: ignore[no-any-return]
    places = torch.from_numpy(drawn)
    batch = tuple(tensor.index_select(0, places) for tensor in records)
    if prepare is not None:
        batch = prepare(batch)
        _check_axis(batch, len(drawn), "prepare must keep the records on the first axis")
    return sums.add_up(loss, batch, norm)


def _check_records(records: Batch, privacy: PrivateSteps) -> int:
    """How many there are. Only where sizes are public may a message depend on it."""
    if not records:
        raise InvalidInput("records must hold at least one tensor")
    rows = len(records[0])
    _check_axis(records, rows, "all tensors of the records must have the same first axis")
    if privacy.relation is not Relation.ADD_OR_REMOVE_ONE and rows != privacy.rows:
        raise InvalidInput(
            f"the declared public size is {privacy.rows}, found {rows} records; correct it, or use "
            "the relation that keeps sizes private"
        )
    return rows


def _check_axis(batch: Batch, rows: int, problem: str) -> None:
    lengths = {len(tensor) for tensor in batch}
    if lengths != {rows}:
        raise InvalidInput(f"{problem}, found lengths {sorted(lengths)} and expected {rows}")
