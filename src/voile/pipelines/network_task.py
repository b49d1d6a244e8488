"""The task of a client that trains a network, with DP-SGD or, in settings without, plainly."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from voile.core.errors import InvalidInput
from voile.core.guarantee import ProtectedUnit, Relation
from voile.core.one_thread import one_thread
from voile.core.randomness import GeneratorSource
from voile.federation.arrays import Arrays, Shapes, shapes_of
from voile.federation.messages import Instruction
from voile.federation.task import FitResult, Unprotected
from voile.pipelines.images import ImageRecords
from voile.pipelines.objectives import TrainingBatches, TrainingObjective, start_of
from voile.pipelines.tables import TableRecords
from voile.privacy.events import PrivacyEvent
from voile.training import Perceptron, PlainSteps, arrays_of, with_arrays
from voile.training.private import (
    Adam,
    Optimiser,
    PerceptronSum,
    PrivateSteps,
    Proximal,
    blank_records,
    fit_privately,
)


@dataclass(frozen=True)
class Training:
    """How a network is trained in one participation. Public, and the same at every client.

    Args:
        hidden: widths of the hidden layers.
        clipping_norm: no record moves the gradient sum of a step by more.
        sampling_rate: each record is part of a step with this probability.
        epochs: how often a record is seen in one participation, on average.
        rate: the learning rate of Adam in the first round.
        cooling: what it is multiplied by from round to round.
        proximal: the strength of the pull towards the global arrays (FedProx).
        decay: the strength of the pull towards zero, which makes alike features count alike.
    """

    hidden: tuple[int, ...] = (64,)
    clipping_norm: float = 0.5
    sampling_rate: float = 0.2
    epochs: float = 6.0
    rate: float = 0.02
    cooling: float = 1.0
    proximal: float = 0.0
    decay: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "hidden", tuple(self.hidden))
        if not 0 < self.sampling_rate <= 1:
            raise InvalidInput(f"sampling_rate must be in (0, 1], found {self.sampling_rate}")
        if not 0 < self.epochs <= 1e6:
            raise InvalidInput(f"epochs must be above 0, found {self.epochs}")
        if not 0 < self.cooling <= 1:
            raise InvalidInput(f"cooling must be in (0, 1], found {self.cooling}")
        if self.proximal < 0:
            raise InvalidInput(f"proximal must be at least 0, found {self.proximal}")
        self.optimiser(1)  # refuses rates and decays that are none

    def rate_in(self, number: int) -> float:
        """The learning rate of a round, counted from 1."""
        return self.rate * self.cooling ** (number - 1)

    def optimiser(self, number: int) -> Optimiser:
        """That of a round, counted from 1."""
        follow = Adam(self.rate_in(number), self.decay)
        return Proximal(follow, self.proximal) if self.proximal > 0 else follow

    @property
    def steps(self) -> int:
        """Of one participation."""
        return max(1, round(self.epochs / self.sampling_rate))


CLIPPED_UNIT: Final = ProtectedUnit.ROW
"""What one clipped gradient belongs to: training bounds what one of these adds, nothing larger."""


@dataclass(frozen=True, eq=False)
class NetworkTask:
    """Train a network on a client's records.

    Args:
        objective: what is learned.
        training: how.
        noise_multiplier: of each step; None trains without privacy, and then nothing it gives may
            leave the custodians.
        relation: how neighbouring data sets differ.
    """

    objective: TrainingObjective
    training: Training
    noise_multiplier: float | None
    relation: Relation = Relation.BLANK_ONE

    @cached_property
    def shapes(self) -> Shapes:
        return shapes_of(self.start(0))

    def start(self, seed: int) -> dict[str, Any]:
        """The arrays before the first round; public."""
        return arrays_of(start_of(self.objective, self.training.hidden, seed))

    def steps(self, size: int) -> PrivateSteps | None:
        """What is promised about one participation of a client of this declared size."""
        if self.noise_multiplier is None:
            return None
        return PrivateSteps(
            clipping_norm=self.training.clipping_norm,
            noise_multiplier=self.noise_multiplier,
            sampling_rate=self.training.sampling_rate,
            steps=self.training.steps,
            rows=size,
            relation=self.relation,
        )

    def cost(self, size: int) -> PrivacyEvent | None:
        steps = self.steps(size)
        return None if steps is None else steps.event()

    def fit(
        self, instruction: Instruction, records: Any, size: int, source: GeneratorSource
    ) -> FitResult:
        with one_thread():
            return self._fit(instruction, records, size, source)

    def _fit(
        self, instruction: Instruction, records: Any, size: int, source: GeneratorSource
    ) -> FitResult:
        network = with_arrays(instruction.arrays)
        batches = self.objective.batches(records, instruction.given, source.generator())
        private, optimiser = self.steps(size), self.training.optimiser(instruction.round)
        if private is None:
            batch = max(1, round(self.training.sampling_rate * size))
            steps = PlainSteps(network, batches.loss, optimiser)
            _fit_plainly(steps, batches, self.training.steps, batch, source)
            return FitResult(_change(network, instruction.arrays), None)
        run = fit_privately(
            network,
            batches.records,
            batches.loss,
            private,
            optimiser=optimiser,
            source=source,
            prepare=batches.prepare,
        )
        return FitResult(_change(network, instruction.arrays), run.event)

    def reference(self, instruction: Instruction, records: Any) -> dict[str, Any]:
        """What these unprotected records teach, trained as a client trains but without draws.

        All records are part of each step and no noise is added, so anyone can compute it again.
        Gradients are clipped where clients clip theirs: clipping moves the optimum, and a change
        towards another optimum would point away from what honest clients send.
        """
        with one_thread():
            return self._reference(instruction, records)

    def _reference(self, instruction: Instruction, records: Any) -> dict[str, Any]:
        network = with_arrays(instruction.arrays)
        norm = math.inf if self.noise_multiplier is None else self.training.clipping_norm
        batches = self.objective.batches(records, instruction.given, np.random.default_rng(0))
        kept = ~blank_records(batches.records)
        batch = batches.prepared(tuple(part[kept] for part in batches.records))
        sums = PerceptronSum(network, batches.loss)
        move = self.training.optimiser(instruction.round).bind(sums.values)
        for _ in range(self.training.steps):
            sums.add_up(batch, norm)
            move(np.divide(sums.total, int(kept.sum()), out=sums.total))
        network.values[:] = sums.values
        return _change(network, instruction.arrays)

    def evaluate(self, arrays: Arrays, given: Arrays, rows: Unprotected) -> Mapping[str, float]:
        records = rows.records
        if not isinstance(records, TableRecords | ImageRecords):
            raise InvalidInput(
                f"expected TableRecords or ImageRecords to look at, found {type(records).__name__}"
            )
        with one_thread():
            return self.objective.evaluate(with_arrays(arrays), given, records.readable())


def _change(network: Perceptron, before: Arrays) -> dict[str, Any]:
    after = arrays_of(network)
    return {name: after[name] - array for name, array in before.items()}


def _fit_plainly(
    steps: PlainSteps, batches: TrainingBatches, count: int, batch: int, source: GeneratorSource
) -> None:
    """As many steps, of as many records, without clipping or noise: the twin of a private run."""
    draw = source.generator()
    readable = np.flatnonzero(~blank_records(batches.records))
    for _ in range(count if len(readable) else 0):
        places = draw.choice(readable, batch)
        steps.step(batches.prepared(tuple(part[places] for part in batches.records)))
