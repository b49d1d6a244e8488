"""Rounds on Flower's engine and in threads: `python -m benchmarks.flower_parts.simulated`."""

from __future__ import annotations

import json
import os
import time
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from benchmarks.flower_parts.app.bare.arithmetic import start
from benchmarks.flower_parts.node import SameArithmetic, node_of
from voile.core.randomness import Seeded
from voile.federation import Node, Rounds, Stage, Threads
from voile.federation.flower.simulation import simulate

CLIENTS, ROUNDS = (10, 50, 200), 2


def opened(name: str) -> AbstractContextManager[Node]:
    return nullcontext(node_of(name))


def seconds(transport: Any, names: list[str]) -> float:
    """Wall-clock time of a round, after one to warm up."""
    stage = Stage("work", SameArithmetic(), 1 + ROUNDS, len(names), 1 + ROUNDS)
    ends: list[float] = []
    rounds = Rounds(
        transport, dict.fromkeys(names, 40), source=Seeded(1),
        progress=lambda seen: ends.append(time.perf_counter()) if seen.done else None,
    )  # fmt: skip
    rounds.run(stage, {"w": start()})
    return (ends[-1] - ends[0]) / ROUNDS


def main() -> None:
    found = []
    for clients in CLIENTS:
        names = [f"client-{number:03}" for number in range(clients)]
        simulated = simulate(names, opened, lambda t, n=names: seconds(t, n))  # type: ignore[misc]
        nodes = [node_of(name) for name in names]
        threads = seconds(Threads(nodes, at_once=os.cpu_count() or 1), names)
        found.append((clients, simulated, threads))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
