"""Many clients on one machine, or on a Ray cluster, by Flower's own simulation engine.

Workers of the engine answer for nodes, whichever is due: a node is opened for a message and closed
after it, so what it knows lies on its disk. Nothing leaves the engine, and nothing is signed. A
secure sum keeps keys in memory between its steps, and needs nodes that stay: threads, or processes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.simulation import run_simulation

from voile.federation.flower.courier import CourierLost, CourierReply, packed, pull, push, unpacked
from voile.federation.flower.transport import FlowerTransport
from voile.federation.responder import Responder
from voile.federation.secure_aggregation.signed import decode, encode
from voile.federation.transport import MessageHandler, Transport

Result = TypeVar("Result")
OpenMember = Callable[[str], AbstractContextManager[MessageHandler]]
"""Opens the node of this name, in a worker; it is sent there, so what it holds can be pickled."""


@dataclass(frozen=True)
class UnsealedMessage:
    """Both sides of an envelope that says for whom it is, and nothing else."""

    def seal(self, recipient: str, content: bytes) -> bytes:
        return encode([recipient.encode(), content])

    def open(self, sender: str, request: bytes, reply: bytes) -> bytes:
        del sender, request
        return reply


@dataclass(frozen=True)
class UnsealedNode:
    """The node's side of it."""

    def open(self, request: bytes) -> bytes:
        return decode(request)[1]

    def seal(self, request: bytes, content: bytes) -> bytes:
        del request
        return content


@dataclass(frozen=True)
class SimulatedCourier:
    """Over the engine's grid, whose nodes have numbers: names are given to them in order."""

    grid: Grid
    names: Sequence[str]

    def reachable(self) -> Mapping[str, int]:
        return dict(zip(self.names, sorted(self.grid.get_node_ids()), strict=False))

    def push(self, messages: Mapping[int, bytes], seconds: float | None) -> dict[int, str]:
        return push(self.grid, messages, seconds)

    def pull(self, message_ids: Iterable[str]) -> list[CourierReply]:
        return pull(self.grid, message_ids)

    def renew(self) -> None:
        raise CourierLost("a simulation is not begun anew")


def simulate(
    names: Sequence[str],
    open_member: OpenMember,
    run: Callable[[Transport], Result],
    *,
    workers: int | None = None,
) -> Result:
    """Give `run` a transport over simulated nodes, and give back what it returns.

    Args:
        names: of the nodes.
        open_member: how a worker opens one of them.
        run: the server's part.
        workers: how many work side by side; one for each processor, if None.
    """
    server, found = ServerApp(), list[Result]()
    faults: list[BaseException] = []

    @server.main()
    def main(grid: Grid, _: Context) -> None:
        try:
            found.append(run(FlowerTransport(SimulatedCourier(grid, names), UnsealedMessage())))
        except BaseException as fault:  # told below: the engine would say that something failed
            faults.append(fault)

    cpus = workers or os.cpu_count() or 1
    settings: dict[str, Any] = {
        "init_args": {"num_cpus": cpus, "log_to_driver": False, "include_dashboard": False},
        "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
    }
    if "RAY_ADDRESS" in os.environ:  # a cluster that is there has its own processors
        del settings["init_args"]["num_cpus"]
    run_simulation(server, _client(open_member), len(names), "ray", settings)
    if faults:
        raise faults[0]
    return found[0]


def _client(open_member: OpenMember) -> ClientApp:
    app = ClientApp()
    app.query()(partial(_answer, open_member))
    return app


def _answer(open_member: OpenMember, message: Message, _: Context) -> Message:
    request = unpacked(message.content)
    assert request is not None
    name = decode(request)[0].decode()
    with open_member(name) as node:
        reply = Responder(node, UnsealedNode()).answer(request)
    return Message(packed(reply), reply_to=message)
