"""The task of a client that trains a network, with DP-SGD or, in settings without, plainly."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from voile.core.errors import InvalidInput
from voile.core.guarantee import ProtectedUnit, Relation
from voile.core.optional import optional
from voile.core.randomness import GeneratorSource
from voile.federation.arrays import Arrays, Shapes, shapes_of
from voile.federation.messages import Instruction
from voile.federation.task import Fitted, Unprotected
from voile.pipelines.objectives import TrainingBatches, TrainingObjective, start_of
from voile.pipelines.tables import TableRecords
from voile.privacy.events import PrivacyEvent
from voile.training import arrays_of, with_arrays
from voile.training.private import (
    Adam,
    AdaptedNorm,
    PrivateSteps,
    Proximal,
    blank_records,
    fit_privately,
)

if TYPE_CHECKING:
    from torch import nn


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
    """

    hidden: tuple[int, ...] = (64,)
    clipping_norm: float | AdaptedNorm = 0.5
    sampling_rate: float = 0.2
    epochs: float = 6.0
    rate: float = 0.02
    cooling: float = 1.0
    proximal: float = 0.0

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

    def rate_in(self, number: int) -> float:
        """The learning rate of a round, counted from 1."""
        return self.rate * self.cooling ** (number - 1)

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
    ) -> Fitted:
        with one_thread():
            return self._fit(instruction, records, size, source)

    def _fit(
        self, instruction: Instruction, records: Any, size: int, source: GeneratorSource
    ) -> Fitted:
        network = with_arrays(instruction.arrays)
        batches = self.objective.batches(records, instruction.given, source.generator())
        private = self.steps(size)
        if private is None:
            _fit_plainly(network, batches, self.training, instruction.round, size, source)
            return Fitted(_change(network, instruction.arrays), None)
        follow, strength = Adam(self.training.rate_in(instruction.round)), self.training.proximal
        run = fit_privately(
            network,
            batches.records,
            batches.loss,
            private,
            optimiser=Proximal(follow, strength) if strength > 0 else follow,
            source=source,
            prepare=batches.prepare,
        )
        return Fitted(_change(network, instruction.arrays), run.event)

    def evaluate(self, arrays: Arrays, given: Arrays, rows: Unprotected) -> Mapping[str, float]:
        records = rows.records
        if not isinstance(records, TableRecords):
            raise InvalidInput(f"expected TableRecords to look at, found {type(records).__name__}")
        with one_thread():
            return self.objective.evaluate(with_arrays(arrays), given, records.readable())


_LOCK = threading.Lock()
_inside, _outside = 0, 1


@contextmanager
def one_thread() -> Iterator[None]:
    """One torch thread: sums have one order on every machine, and small networks are faster.

    Clients may train side by side; the last one to leave puts the number of threads back.
    """
    global _inside, _outside
    torch: Any = optional("torch", extra="torch")
    with _LOCK:
        if _inside == 0:
            _outside = torch.get_num_threads()
            torch.set_num_threads(1)
        _inside += 1
    try:
        yield
    finally:
        with _LOCK:
            _inside -= 1
            if _inside == 0:
                torch.set_num_threads(_outside)


def _change(network: nn.Sequential, before: Arrays) -> dict[str, Any]:
    after = arrays_of(network)
    return {name: after[name] - array for name, array in before.items()}


def _fit_plainly(
    network: nn.Sequential,
    batches: TrainingBatches,
    training: Training,
    number: int,
    size: int,
    source: GeneratorSource,
) -> None:
    """As many steps, of as many records, without clipping or noise: the twin of a private run."""
    torch: Any = optional("torch", extra="torch")
    draw = source.generator()
    optimiser = torch.optim.Adam(network.parameters(), lr=training.rate_in(number))
    start = [value.detach().clone() for value in network.parameters()]
    values: list[Any] = list(network.parameters())
    batch = max(1, round(training.sampling_rate * size))
    readable = np.flatnonzero(~blank_records(batches.records))
    network.train()
    for _ in range(training.steps if len(readable) else 0):
        places = torch.from_numpy(draw.choice(readable, batch))
        drawn = batches.prepare(tuple(part[places] for part in batches.records))
        optimiser.zero_grad(set_to_none=True)
        batches.loss(network, drawn).mean().backward()  # type: ignore[no-untyped-call]
        if training.proximal > 0:
            for value, anchor in zip(values, start, strict=True):
                value.grad += training.proximal * (value.detach() - anchor)
        optimiser.step()
    network.eval()
