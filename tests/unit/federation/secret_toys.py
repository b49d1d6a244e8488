"""The small federation of `toys`, added up in secret."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.unit.federation.secure_aggregation.parties import identities, signer
from tests.unit.federation.toys import Pull, client, stage
from voile.federation import (
    AttemptsOnDisk,
    Node,
    Rounds,
    SecureMember,
    SecureSum,
    Stage,
    SumAggregator,
    Threads,
)
from voile.federation.aggregators import FedAvg
from voile.federation.secure_aggregation import AttemptsInMemory, HonestButCurious, ThreatModel

AGREED = "3f" * 32
NAMES = ("ash", "beech", "cedar", "elm", "fir")


def protocol(
    names: Sequence[str] = NAMES,
    model: ThreatModel | None = None,
    aggregator: SumAggregator | None = None,
) -> SecureSum:
    sizes = {name: 30 + 10 * place for place, name in enumerate(names)}
    chosen = HonestButCurious() if model is None else model
    return SecureSum(chosen, identities(names), sizes, aggregator or FedAvg())


def secret_stage(
    names: Sequence[str] = NAMES, model: ThreatModel | None = None, **changes: Any
) -> Stage:
    settings: dict[str, Any] = {
        "protocol": protocol(names, model),
        "rounds": 2,
        "clients_per_round": len(names),
        "participations": 2,
    }
    return stage(**(settings | changes))


def member(agreed: Stage, name: str, folder: Path | None = None, **changes: Any) -> SecureMember:
    store = AttemptsInMemory() if folder is None else AttemptsOnDisk(folder / name / "attempts")
    return SecureMember({agreed.name: agreed}, signer(name), store, **changes)


def secret_node(agreed: Stage, name: str, folder: Path | None = None, **changes: Any) -> Node:
    assert isinstance(agreed.protocol, SecureSum)
    size = agreed.protocol.sizes[name]
    one = client(name, size, folder=folder, task=agreed.task, **changes)
    return Node(replace(one, agreement=AGREED), secure=member(agreed, name, folder))


def secret_nodes(agreed: Stage, folder: Path | None = None, **changes: Any) -> list[Any]:
    assert isinstance(agreed.protocol, SecureSum)
    return [secret_node(agreed, name, folder, **changes) for name in agreed.protocol.sizes]


def rounds_in_secret(agreed: Stage, nodes: Sequence[Any], **settings: Any) -> Rounds:
    assert isinstance(agreed.protocol, SecureSum)
    fixed: dict[str, Any] = {"agreement": AGREED, "sign": signer("server")}
    return Rounds(Threads(nodes), agreed.protocol.sizes, **(fixed | settings))


@dataclass
class Falling:
    """A node that falls out, or answers otherwise, when it is asked for the n-th time.

    Args:
        asked: how often so far.
        until: answers are those of the node before this one.
        instead: what it does then.
    """

    node: Node
    until: int
    instead: Any = None
    asked: int = 0
    seen: list[Any] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.node.name

    def handle(self, message: Any) -> Any:
        self.asked += 1
        self.seen.append(message)
        if self.asked < self.until:
            return self.node.handle(message)
        if self.instead is not None:
            return self.instead(self.node.handle(message))
        raise ConnectionError("gone")


@dataclass(frozen=True)
class Moves(Pull):
    """Moves every array by so much, whoever's rows they are."""

    by: float = 1.0

    def fit(self, instruction: Any, records: Any, size: int, source: Any) -> Any:
        found = super().fit(instruction, records, size, source)
        change = {name: array * 0 + self.by for name, array in found.change.items()}
        return replace(found, change=change)
