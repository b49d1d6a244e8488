"""A node of voile as a process: `python -m benchmarks.flower_parts.node SETTINGS`."""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from benchmarks.flower_parts.app.bare.arithmetic import WIDTH, change
from voile.core.randomness import GeneratorSource
from voile.federation import Arrays, Client, FitResult, Instruction, Node, NoGuard, Unprotected
from voile.federation.flower import SuperLinkPlace, node_key, serve
from voile.federation.responder import NodeLog, NodeSeal, Responder, TakenNumbers
from voile.privacy.events import PrivacyEvent


@dataclass(frozen=True)
class SameArithmetic:
    """The task of both; it promises nothing."""

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return {"w": (WIDTH, WIDTH)}

    def cost(self, size: int) -> PrivacyEvent | None:
        del size
        return None

    def fit(
        self, instruction: Instruction, records: Any, size: int, source: GeneratorSource
    ) -> FitResult:
        del records, size, source
        return FitResult({"w": change(instruction.arrays["w"].astype(np.float32))}, None)

    def evaluate(self, arrays: Arrays, given: Arrays, rows: Unprotected) -> Mapping[str, float]:
        del arrays, given, rows
        return {}


def node_of(name: str, folder: Path | None = None) -> Node:
    return Node(Client(name, 40, None, {"work": SameArithmetic()}, NoGuard(), folder=folder))


def main(settings: dict[str, str]) -> None:
    folder, name = Path(settings["folder"]), settings["name"]
    key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(settings["key"]))
    seal = NodeSeal(
        name,
        "",
        bytes.fromhex(settings["server"]),
        lambda text: key.sign(text.encode()),
        TakenNumbers(folder / "last-message"),
    )
    responder = Responder(node_of(name, folder), seal, NodeLog(folder / "node.log"))
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    place = SuperLinkPlace(settings["address"], Path(settings["authority"]))
    serve(responder, place, node_key(folder / "flower.key"), stop)


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
