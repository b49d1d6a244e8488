"""A federation's messages over Flower; see `voile.federation.Transport` for what is promised."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from voile.core.errors import InvalidInput, Refused
from voile.federation.envelopes import ServerSeal
from voile.federation.flower.courier import Courier, CourierLost
from voile.federation.messages import Message
from voile.federation.round_log import Outcome
from voile.federation.transport import NodeReply
from voile.federation.wire import Declined, from_bytes, to_bytes
from voile.secure_aggregation.attempts import BegunBefore

_SHORTEST: Final = 0.05
_LONGEST: Final = 1.0
"""Seconds between two looks for replies: they grow while nothing comes in."""


@dataclass(eq=False)
class _Waiting:
    """A node that has not been heard of.

    Args:
        content: what it is told, not yet sealed.
        since: when it was first sent.
        request: as it was sealed last.
        message_id: under which its reply will come in; None if it could not be sent.
    """

    content: bytes
    since: float
    request: bytes = b""
    message_id: str | None = None


@dataclass(eq=False)
class FlowerTransport:
    """Seals every message for its node, and takes nothing for a reply that the node did not sign.

    If the way breaks, whoever has not been heard of is asked again in a new run: who has stored an
    update by then sends that one.

    Args:
        courier: brings the bytes.
        seal: of the server.
        patience: seconds to wait for nodes that are not there, and for a way that is broken.
        say: told in words what is being waited for.
    """

    courier: Courier
    seal: ServerSeal
    patience: float = 60.0
    say: Callable[[str], None] = field(default=lambda _: None, repr=False)
    _absent: set[str] = field(default_factory=set, init=False, repr=False)

    def exchange(
        self, messages: Mapping[str, Message], deadline: float | None = None
    ) -> Iterator[NodeReply]:
        now = time.monotonic()
        asked = {name: _Waiting(to_bytes(message), now) for name, message in messages.items()}
        fresh, pause = dict(asked), _SHORTEST
        while asked:
            try:
                if fresh:
                    self._send(fresh, deadline)
                    fresh = {}
                replies = list(self._replies(asked))
            except CourierLost as lost:
                self._renew(lost)
                fresh = dict(asked)
                continue
            replies += self._given_up(asked, deadline)
            for reply in replies:
                del asked[reply.node]
                yield reply
            pause = _SHORTEST if replies else min(_LONGEST, 1.5 * pause)
            if asked:
                time.sleep(pause)

    # --- out ----------------------------------------------------------------------------------

    def _send(self, fresh: Mapping[str, _Waiting], deadline: float | None) -> None:
        there = self._await(set(fresh))
        requests: dict[int, bytes] = {}
        for name, one in fresh.items():
            one.message_id = None
            if name in there:
                one.since, one.request = time.monotonic(), self.seal.seal(name, one.content)
                requests[there[name]] = one.request
        sent = self.courier.push(requests, deadline) if requests else {}
        for name, one in fresh.items():
            one.message_id = sent.get(there[name]) if name in there else None

    def _await(self, names: set[str]) -> Mapping[str, int]:
        """Who is not there is waited for once, and then only looked for."""
        until, said = time.monotonic() + self.patience, False
        while True:
            there = self.courier.reachable()
            self._absent -= set(there)
            missing = names - set(there) - self._absent
            if not missing or time.monotonic() > until:
                self._absent |= missing
                return there
            if not said:
                self.say(f"waiting for {', '.join(sorted(missing)[:5])}")
                said = True
            time.sleep(_LONGEST / 2)

    def _renew(self, lost: CourierLost) -> None:
        self.say(f"the connection to the SuperLink is lost ({lost}); beginning a new Flower run")
        until = time.monotonic() + self.patience
        while True:
            try:
                self.courier.renew()
            except CourierLost:
                if time.monotonic() > until:
                    raise
                time.sleep(_LONGEST)
            else:
                self._absent.clear()  # after a restart nobody is there yet
                return

    # --- in -----------------------------------------------------------------------------------

    def _replies(self, asked: Mapping[str, _Waiting]) -> Iterator[NodeReply]:
        names: dict[str, str] = {}
        for name, one in asked.items():
            if one.message_id is None:
                yield NodeReply(name, None, Outcome.VANISHED, 0.0)
            else:
                names[one.message_id] = name
        for brought in self.courier.pull(list(names)) if names else ():
            found = names.pop(brought.message_id, None)
            if found is not None:
                yield self._reply(found, asked[found], brought.content)

    def _reply(self, name: str, one: _Waiting, content: bytes | None) -> NodeReply:
        seconds = time.monotonic() - one.since
        if content is None:  # Flower's own word for a node that is gone
            self._absent.add(name)
            return NodeReply(name, None, Outcome.VANISHED, seconds)
        try:
            said = self.seal.open(name, one.request, content)
        except Refused as forged:
            return NodeReply(name, None, Outcome.VANISHED, seconds, forged)
        try:
            message = from_bytes(said)
        except InvalidInput as error:
            return NodeReply(name, None, None, seconds, error)
        if not isinstance(message, Declined):
            return NodeReply(name, message, None, seconds)
        if not message.reason:
            return NodeReply(name, None, Outcome.VANISHED, seconds)
        kind = BegunBefore if message.begun_before else Refused
        return NodeReply(name, None, Outcome.REFUSED, seconds, kind(message.reason))

    def _given_up(self, asked: Mapping[str, _Waiting], deadline: float | None) -> list[NodeReply]:
        now = time.monotonic()
        return [
            NodeReply(name, None, Outcome.LATE, now - one.since)
            for name, one in asked.items()
            if deadline is not None and now - one.since >= deadline
        ]
