"""What is public before a federation that trains with local DP-SGD begins, and what follows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar, Final

from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import Protected, Relation
from voile.core.schema import Schema
from voile.federation.client import check_size
from voile.federation.messages import check_name
from voile.federation.round_protocol import PlainRound, RoundProtocol
from voile.federation.secure_sum import SecureSum
from voile.federation.stage import Stage
from voile.federation.task import Task
from voile.pipelines.network_task import CLIPPED_UNIT, Training
from voile.privacy.calibration import NoisyStage
from voile.training.private import classifier_norm


@dataclass(frozen=True)
class FederationFacts:
    """Everything that is public before a federation begins.

    Args:
        schema: what rows look like.
        sizes: the number of records each client declares.
        protected: a row of the clients' data; zero-out or replace one.
        rounds: of each stage.
        clients_per_round: how many are asked; everybody if absent.
        participations: how often one client takes part in a stage at most; as often as the rounds
            need, if absent.
        protocol: how the messages of a round become a change of the arrays.
        proximal: how strongly a client's training is drawn to the common arrays (FedProx).
    """

    schema: Schema
    sizes: Mapping[str, int]
    protected: Protected
    rounds: int = 10
    clients_per_round: int | None = None
    participations: int | None = None
    protocol: RoundProtocol = field(default_factory=PlainRound)
    proximal: float = 0.0

    clipped_unit: ClassVar = CLIPPED_UNIT
    """What one clipped gradient belongs to; nothing can be promised about anything else."""

    def __post_init__(self) -> None:
        if self.protected.unit is not self.clipped_unit:
            raise Refused(
                f"training clips what each {self.clipped_unit!s} adds, so it can promise nothing "
                f"about {self.protected}"
            )
        if self.protected.relation is Relation.ADD_OR_REMOVE_ONE:
            raise Refused(
                "clients declare their sizes in public, which 'add or remove one' keeps private; "
                "use 'zero-out'"
            )
        if not self.sizes:
            raise InvalidInput("a federation needs at least one client with a declared size")
        for name, size in self.sizes.items():
            check_name("a client", name)
            check_size(name, size)
        object.__setattr__(self, "sizes", MappingProxyType(dict(sorted(self.sizes.items()))))
        each = len(self.sizes) if self.clients_per_round is None else self.clients_per_round
        object.__setattr__(self, "clients_per_round", each)
        if self.participations is None:
            object.__setattr__(self, "participations", -(-self.rounds * each // len(self.sizes)))

    @property
    def rows_per_client(self) -> int:
        """Of a client in the middle."""
        ordered = sorted(self.sizes.values())
        return ordered[len(ordered) // 2]

    @property
    def cap(self) -> int:
        """How often one client takes part in a stage at most."""
        return self.participations or 1

    def stage(self, name: str, task: Task) -> Stage:
        """All stages have the same rounds."""
        each = self.clients_per_round or 1
        return Stage(name, task, self.rounds, each, self.cap, self.protocol)

    @property
    def secrecy(self) -> tuple[str, ...]:
        """What the secrecy of single updates rests on; nothing where a server sees them."""
        if not isinstance(self.protocol, SecureSum):
            return ()
        return self.protocol.model.assumptions(self.clients_per_round or 1)

    def noisy_stage(self, training: Training, share: float = 1.0) -> NoisyStage:
        """All the steps that one record can be part of, over all participations."""
        return NoisyStage(training.sampling_rate, training.steps * self.cap, share)


def classifier_training(facts: FederationFacts, hidden: tuple[int, ...]) -> Training:
    """The frozen rule for a classifier: settings of training as a function of public facts.

    Chosen on Adult and on generated data. With the number of steps fixed, the noise on a step
    hardly depends on how many records it draws, so batches are as large as they are quick.
    """
    sampling_rate = min(max(BATCH / facts.rows_per_client, 0.02), 0.25)
    steps = min(max(STEPS / facts.cap, 8), 40)
    return Training(
        hidden=hidden,
        clipping_norm=classifier_norm(facts.rows_per_client),
        sampling_rate=sampling_rate,
        epochs=steps * sampling_rate,
        rate=0.1,
        cooling=FINAL_RATE ** (1 / max(facts.rounds - 1, 1)),
        proximal=facts.proximal,
    )


BATCH: Final = 400
"""Records a step draws on average, of a client in the middle."""
STEPS: Final = 160
"""Of one record's client in a stage, over all participations."""
FINAL_RATE: Final = 0.1
"""The learning rate in the last round, over that in the first."""
