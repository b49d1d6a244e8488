"""A node of the small federation of `toys`, as a process: `python -m tests.deployment.toy_node`.

It may be told to fall over: to end itself, without a word, when it is asked for the second time in
a stage, or at a step of a secure sum; or to hold an answer back until a file appears.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.unit.federation.toys import client
from voile.federation import AttemptsOnDisk, CountingGuard, Instruction, Node, SecureMember, Stage
from voile.federation.flower import SuperLinkPlace, node_key, serve
from voile.federation.flower.fleet import Pace
from voile.federation.responder import NodeLog, NodeSeal, Responder, TakenNumbers
from voile.federation.secure_aggregation import SignedMessage, Signer


@dataclass(frozen=True)
class ToySettings:
    """What a toy node is started with.

    Args:
        keys: private Ed25519 keys in hexadecimal, its own and the server's.
        cap: how often it takes part.
        dies_in: the round that it trains for, and then ends itself.
        dies_at: the step of a secure sum at which it does.
        held_in: the round whose answer it holds back until the file `go` is there.
        statistics: whether it takes part in private statistics, and not in the toy's stages.
        dies_during: the stage to which `dies_at` belongs; any, if empty.
    """

    name: str
    folder: str
    agreement: str
    keys: dict[str, str]
    address: str = ""
    authority: str = ""
    size: int = 40
    cap: int = 4
    secret: bool = False
    dies_in: int = 0
    dies_at: str = ""
    held_in: int = 0
    statistics: bool = False
    dies_during: str = ""

    def dumps(self) -> str:
        return json.dumps(asdict(self))


def signer_from(private: str) -> Signer:
    key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(private))
    return lambda text: key.sign(text.encode())


def public_from(private: str) -> bytes:
    key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(private))
    return key.public_key().public_bytes_raw()


def toy_node(settings: ToySettings, secret_stage: Stage | None = None) -> Node:
    """The same node in a process of its own and in a test."""
    folder = Path(settings.folder)
    one = client(
        settings.name, settings.size, folder=folder / "updates", guard=CountingGuard(settings.cap)
    )
    one = replace(one, agreement=settings.agreement)
    if secret_stage is None:
        return Node(one)
    store = AttemptsOnDisk(folder / "attempts")
    sign = signer_from(settings.keys[settings.name])
    return Node(one, secure=SecureMember({secret_stage.name: secret_stage}, sign, store))


@dataclass
class Failing:
    """Does what its settings say, and else what its node does."""

    node: Node
    settings: ToySettings

    @property
    def name(self) -> str:
        return self.node.name

    def handle(self, message: Any) -> Any:
        settings = self.settings
        if isinstance(message, SignedMessage) and self._dies_at(message):
            os.kill(os.getpid(), signal.SIGKILL)
        answer = self.node.handle(message)
        if isinstance(message, Instruction):
            if message.round == settings.dies_in:
                os.kill(os.getpid(), signal.SIGKILL)
            while message.round == settings.held_in and not self._may_go.exists():
                time.sleep(0.05)
        return answer

    def _dies_at(self, message: SignedMessage) -> bool:
        during = self.settings.dies_during
        in_time = during in ("", message.attempt.stage)
        return in_time and str(message.step) == self.settings.dies_at

    @property
    def _may_go(self) -> Path:
        return Path(self.settings.folder) / "go"


def run(settings: ToySettings) -> None:
    from tests.deployment.statistics_federation import statistics_node
    from tests.deployment.toy_federation import secret_toy_stage

    folder = Path(settings.folder)
    if settings.statistics:
        node = statistics_node(settings)
    else:
        node = toy_node(settings, secret_toy_stage(settings.keys) if settings.secret else None)
    seal = NodeSeal(
        settings.name,
        settings.agreement,
        public_from(settings.keys["server"]),
        signer_from(settings.keys[settings.name]),
        TakenNumbers(folder / "last-message"),
    )
    responder = Responder(Failing(node, settings), seal, NodeLog(folder / "node.log"))
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    place = SuperLinkPlace(settings.address, Path(settings.authority))
    serve(responder, place, node_key(folder / "flower.key"), stop, Pace(0.1, 0.5))


if __name__ == "__main__":
    run(ToySettings(**json.loads(Path(sys.argv[1]).read_text())))
