"""A server with the real key that asks for what it must not get, over the real wire."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from voile.federation.flower.courier import push
from voile.federation.flower.superlink import SuperLinkRun
from voile.federation.responder import SignedByServer
from voile.federation.secure_aggregation.signed import decode, encode
from voile.federation.wire import Wired, from_bytes, to_bytes

PATIENCE = 60.0


@dataclass(eq=False)
class HostileServer:
    """Sends any bytes to a node, and waits for what comes back.

    Args:
        run: a Flower run.
        seal: with the server's own key: signatures alone stop nothing here.
        node: whom it tries.
    """

    run: SuperLinkRun
    seal: SignedByServer
    node: str
    sent: list[bytes] = field(default_factory=list)

    def ask(self, content: bytes) -> Wired | None:
        """In a sound envelope."""
        return self.send(self.seal.seal(self.node, content))

    def send(self, request: bytes) -> Wired | None:
        """What the node signed in return; None if Flower brought no reply of voile's."""
        self.sent.append(request)
        number = self._number()
        return self._reply(request, push(self.run.grid, {number: request}, None)[number])

    def send_records(self, made: Callable[[int], Any]) -> Wired | None:
        """Any message of Flower's."""
        (name,) = self.run.grid.push_messages([made(self._number())])
        return self._reply(b"", name)

    def _number(self) -> int:
        until = time.monotonic() + PATIENCE
        while self.node not in (there := self.run.reachable()):
            assert time.monotonic() < until, f"{self.node} is not there"
            time.sleep(0.1)
        return there[self.node]

    def _reply(self, request: bytes, name: str) -> Wired | None:
        until = time.monotonic() + PATIENCE
        while not (found := self.run.pull([name])):
            assert time.monotonic() < until, f"{self.node} says nothing"
            time.sleep(0.05)
        content = found[0].content
        if content is None:
            return None
        return from_bytes(self.seal.open(self.node, request, content))


def changed(message: Any, **fields: Any) -> bytes:
    """A message with fields added or replaced, as bytes."""
    form, text, *blobs = decode(to_bytes(message))
    header: Mapping[str, Any] = {**json.loads(text), **fields}
    return encode([form, json.dumps(header).encode(), *blobs])
