"""A small federation: clients that pull a vector towards the mean of their rows, with noise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from voile.core.guarantee import Relation
from voile.core.randomness import GeneratorSource
from voile.federation import (
    Arrays,
    Client,
    CountingGuard,
    FitResult,
    FreshCiphers,
    Instruction,
    Node,
    ParticipationGuard,
    Rounds,
    SeededSources,
    Stage,
    Threads,
    Unprotected,
    Update,
)
from voile.federation.history import event_as_text
from voile.privacy.events import Gaussian, PoissonSampled, PrivacyEvent, Repeated

START: dict[str, Any] = {
    "vector": np.zeros(3, dtype=np.float32),
    "scale": np.ones((2, 1), dtype=np.float32),
}
CAP = 2


@dataclass(frozen=True)
class Pull:
    """Half the way towards the mean of clipped rows, divided by the declared size, with noise."""

    noise: float = 1.0
    spent: PrivacyEvent | None = None

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return {"vector": (3,), "scale": (2, 1)}

    def cost(self, size: int) -> PrivacyEvent | None:
        rate = min(1.0, 10 / size)
        return Repeated(PoissonSampled(Gaussian(self.noise), rate, Relation.BLANK_ONE), 2)

    def fit(
        self, instruction: Instruction, records: Any, size: int, source: GeneratorSource
    ) -> FitResult:
        noise = source.generator().normal(size=3) * self.noise
        target = (np.clip(records, -1, 1).sum(axis=0) + noise) / size
        change = (target - instruction.arrays["vector"]) / 2
        zero = np.zeros((2, 1), dtype=np.float32)
        event = self.cost(size) if self.spent is None else self.spent
        return FitResult({"vector": change.astype(np.float32), "scale": zero}, event)

    def evaluate(self, arrays: Arrays, given: Arrays, rows: Unprotected) -> Mapping[str, float]:
        gap = np.asarray(rows.records).mean(axis=0) - arrays["vector"]
        return {"distance": float(np.linalg.norm(gap)), "given": float(len(given))}


def rows_of(name: str, size: int) -> Any:
    draw = np.random.default_rng(sum(map(ord, name)))
    return draw.normal(0.5, 0.2, (size, 3))


def client(
    name: str,
    size: int = 40,
    *,
    guard: ParticipationGuard | None = None,
    folder: Path | None = None,
    task: Any = None,
    seed: int | None = 1,
    records: Any = None,
) -> Client:
    return Client(
        name=name,
        size=size,
        records=rows_of(name, size) if records is None else records,
        tasks={"pull": Pull() if task is None else task},
        guard=CountingGuard(CAP) if guard is None else guard,
        sources=FreshCiphers() if seed is None else SeededSources(seed),
        folder=folder,
    )


def stage(**changes: Any) -> Stage:
    settings: dict[str, Any] = {
        "name": "pull",
        "task": Pull(),
        "rounds": 3,
        "clients_per_round": 4,
        "participations": CAP,
    }
    return Stage(**(settings | changes))


@dataclass
class Odd:
    """A node that answers whatever it likes."""

    name: str
    reply: Callable[[Instruction], Any]
    size: int = 40
    asked: list[int] = field(default_factory=list)

    def handle(self, message: Any) -> Any:
        self.asked.append(message.round)
        return self.reply(message)


def rounds_over(clients: Sequence[Any], *, at_once: int = 1, **settings: Any) -> Rounds:
    """All in this process; what is not a client handles messages itself."""
    nodes = [Node(each) if isinstance(each, Client) else each for each in clients]
    sizes = {each.name: each.size for each in clients}
    return Rounds(Threads(nodes, at_once=at_once), sizes, **settings)


def honest(name: str, instruction: Instruction, **changes: Any) -> Update:
    """A sound update that moves nothing, with some fields changed."""
    fields: dict[str, Any] = {
        "client": name,
        "stage": instruction.stage,
        "round": instruction.round,
        "arrays": {n: np.zeros_like(a) for n, a in instruction.arrays.items()},
        "event": event_as_text(Pull().cost(40)),
    }
    return Update(**(fields | changes))
