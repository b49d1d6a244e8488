"""What all parties agree on before the first round of a stage, and who is asked when."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from voile.core.errors import InvalidInput
from voile.federation.arrays import Arrays, digest_of_arrays
from voile.federation.history import event_as_text
from voile.federation.messages import check_name
from voile.federation.round_protocol import PlainRound, RoundProtocol
from voile.federation.stored_text import stored_text
from voile.federation.task import Task

Schedule: TypeAlias = tuple[tuple[str, ...], ...]
"""The names of the clients asked in each round."""


@dataclass(frozen=True)
class Stage:
    """One model trained over a number of rounds that is fixed beforehand.

    Args:
        name: how it is called in messages, books and files.
        task: what a client does.
        rounds: how many; nothing that is measured ends them early.
        clients_per_round: how many are asked in each.
        participations: how often one client may be asked. A courtesy of the server: each client's
            own guard is what enforces it.
        protocol: how the messages of a round become a change of the arrays.
        largest_change: an update with a larger value, in size, is left out.
        personal: what some clients do instead of `task`, by name: at another, declared cost.
    """

    name: str
    task: Task = field(repr=False)
    rounds: int
    clients_per_round: int
    participations: int
    protocol: RoundProtocol = field(default_factory=PlainRound)
    largest_change: float = 100.0
    personal: Mapping[str, Task] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        check_name("a stage", self.name)
        for field_name in ("rounds", "clients_per_round", "participations"):
            number = getattr(self, field_name)
            if isinstance(number, bool) or not isinstance(number, int) or number < 1:
                raise InvalidInput(f"{field_name} must be at least 1, found {number!r}")
        if not 0 < self.largest_change <= 1e30:
            raise InvalidInput(
                f"largest_change must lie above 0 and up to 1e30, found {self.largest_change}"
            )
        self.protocol.check(self.clients_per_round, self.largest_change)

    def task_of(self, client: str) -> Task:
        return self.personal.get(client, self.task)

    def agreement(
        self, sizes: Mapping[str, int], start: Arrays, given: Arrays, federation: str = ""
    ) -> str:
        """SHA-256 (hex) of everything a checkpoint must agree with to be continued.

        What a participation costs is part of it: arrays made under one promise must never be
        continued, or shown, under another. So is `federation`, the digest of what all parties have
        agreed on: charges name it, and rounds of two agreements could never be shown together.
        """
        facts = {
            "stage": self.name,
            "shapes": {name: list(shape) for name, shape in sorted(self.task.shapes.items())},
            "rounds": self.rounds,
            "clients per round": self.clients_per_round,
            "participations": self.participations,
            "protocol": stored_text(self.protocol),
            "largest change": self.largest_change,
            "sizes": dict(sorted(sizes.items())),
            "costs": [
                event_as_text(self.task_of(n).cost(size)) for n, size in sorted(sizes.items())
            ],
            "start": digest_of_arrays(start),
            "given": digest_of_arrays(given),
            "federation": federation,
        }
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def drawn_schedule(stage: Stage, names: list[str], draw: np.random.Generator) -> Schedule:
    """Who is asked in which round: at random among those who were asked least often so far.

    So nobody exceeds the cap, and rounds stay full as long as the cap allows it at all. The
    schedule is drawn before the first round: whom a server asks depends on no answer.
    """
    ordered = sorted(names)
    most = stage.participations * len(ordered)
    wanted = stage.rounds * stage.clients_per_round
    if stage.clients_per_round > len(ordered) or wanted > most:
        raise InvalidInput(
            f"{stage.name!r}: {stage.rounds} rounds of {stage.clients_per_round} clients need "
            f"{wanted} participations; {len(ordered)} clients with a cap of "
            f"{stage.participations} give {most}, each client at most once a round; ask fewer "
            "clients a round or raise the cap (which raises the noise)"
        )
    asked = np.zeros(len(ordered), dtype=np.int64)
    schedule = []
    for _ in range(stage.rounds):
        chosen = np.lexsort((draw.random(len(ordered)), asked))[: stage.clients_per_round]
        asked[chosen] += 1
        schedule.append(tuple(ordered[place] for place in sorted(chosen.tolist())))
    return tuple(schedule)
