"""A federation's messages over Flower; see `voile.federation.Transport` for what is promised."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, NamedTuple

from voile.core.errors import InvalidInput, Refused
from voile.federation.flower.courier import Courier, CourierLost, CourierReply
from voile.federation.messages import Message
from voile.federation.responder import ServerSeal
from voile.federation.round_log import Outcome
from voile.federation.secure_aggregation.attempts import BegunBefore
from voile.federation.transport import NodeReply
from voile.federation.wire import DeclinedMessage, from_bytes, to_bytes

_SHORTEST: Final = 0.05
_LONGEST: Final = 1.0
"""Seconds between two looks for replies: they grow while nothing comes in."""


_SENDINGS: Final = 3
"""How often a message is sent before its node is given up."""
_FIRST_ANSWER: Final = 3
"""Without a deadline of its own, an exchange in which nobody has answered lasts so much longer."""
_SILENT: Final = 30.0
"""Seconds before somebody is told for whom an exchange waits."""
_MOST_NAMED: Final = 5


@dataclass(eq=False)
class AnswerTimes:
    """How long an answer may take where nobody has set a deadline.

    Ten minutes, or three times the slowest answer so far if that is longer. Late answers count too:
    a party that always needs longer is late at first, and not for ever.
    """

    least: float = 600.0
    slowest: float = 0.0

    @property
    def deadline(self) -> float:
        return max(self.least, 3 * self.slowest)

    def add(self, seconds: float) -> None:
        self.slowest = max(self.slowest, seconds)


class _Request(NamedTuple):
    """One sending of a message: as it was sealed, and when."""

    sealed: bytes
    since: float


@dataclass(eq=False)
class _Waiting:
    """A node that has not been heard of.

    Args:
        content: what it is told, not yet sealed.
        since: when it was first sent in this run, by a clock that only grows.
        clock: the same in seconds since 1970, for people.
        requests: by the name under which a reply will come in; none if it could not be sent.
        sendings: how often it was sent.
        declined: what it said instead of an answer to an earlier sending.
    """

    content: bytes
    since: float = 0.0
    clock: float = 0.0
    requests: dict[str, _Request] = field(default_factory=dict)
    sendings: int = 0
    declined: NodeReply | None = None


@dataclass(eq=False)
class FlowerTransport:
    """Seals every message for its node, and takes nothing for a reply that the node did not sign.

    If the way breaks, whoever has not been heard of is asked again in a new run. A message that is
    not answered is sent again after a third and two thirds of the deadline. Who has stored an
    update by then sends that one, bit for bit; a step of a secure sum gets the reply that it got.
    A SuperLink takes a node that was killed for one that is online for some seconds more. So a
    node that is gone before its first answer is waited for, once, as if it had not been there.

    Args:
        courier: brings the bytes.
        seal: of the server.
        patience: seconds to wait for nodes that are not there, and for a way that is broken.
        say: told in words what is being waited for.
        times: the deadline of exchanges that have none; None: as long as it takes.
        watch: told every second or so for whom it waits, and since when (seconds since 1970); what
            it raises ends the exchange.
    """

    courier: Courier
    seal: ServerSeal
    patience: float = 60.0
    say: Callable[[str], None] = field(default=lambda _: None, repr=False)
    times: AnswerTimes | None = None
    watch: Callable[[Mapping[str, float]], None] = field(default=lambda _: None, repr=False)
    _absent: set[str] = field(default_factory=set, init=False, repr=False)
    _known: set[str] = field(default_factory=set, init=False, repr=False)
    _late: dict[str, float] = field(default_factory=dict, init=False, repr=False)

    def exchange(
        self, messages: Mapping[str, Message], deadline: float | None = None
    ) -> Iterator[NodeReply]:
        asked = {name: _Waiting(to_bytes(message)) for name, message in messages.items()}
        fresh, pause, said, answered = dict(asked), _SHORTEST, False, False
        while asked:
            try:
                if fresh:
                    self._send(fresh, deadline)
                    fresh = {}
                self._send_again(asked, deadline)
                replies = list(self._replies(asked))
            except CourierLost as lost:
                self._renew(lost)
                fresh = dict(asked)
                continue
            answered = answered or any(reply.outcome is None for reply in replies)
            heard = {reply.node for reply in replies}
            silent = {name: one for name, one in asked.items() if name not in heard}
            replies += self._given_up(silent, self._patience_for_answers(deadline, answered))
            for reply in replies:
                del asked[reply.node]
                yield reply
            fresh = {name: one for name, one in asked.items() if not one.requests}
            self.watch({name: one.clock for name, one in asked.items()})
            if not said and any(time.monotonic() - one.since >= _SILENT for one in asked.values()):
                said = True
                self.say(f"waiting for {_named(asked)}")
            pause = _SHORTEST if replies else min(_LONGEST, 1.5 * pause)
            if asked:
                time.sleep(pause)

    def _limit(self, deadline: float | None) -> float | None:
        return self.times.deadline if deadline is None and self.times is not None else deadline

    def _patience_for_answers(self, deadline: float | None, answered: bool) -> float | None:
        """While nobody has answered, training may just take long: nobody is given up so soon."""
        if deadline is not None or self.times is None:
            return deadline
        return self.times.deadline if answered else _FIRST_ANSWER * self.times.deadline

    # --- out ----------------------------------------------------------------------------------

    def _send(self, fresh: Mapping[str, _Waiting], deadline: float | None) -> None:
        there = self._await(set(fresh))
        for one in fresh.values():
            one.since, one.clock = time.monotonic(), time.time()
            one.requests, one.sendings, one.declined = {}, 0, None
        self._push(fresh, there, deadline)

    def _send_again(self, asked: Mapping[str, _Waiting], deadline: float | None) -> None:
        limit, now = self._limit(deadline), time.monotonic()
        due = {
            name: one
            for name, one in asked.items()
            if limit is not None
            and one.sendings < _SENDINGS
            and now - one.since >= limit * one.sendings / _SENDINGS
        }
        if due:
            self.say(f"sending again what was not answered: {_named(due)}")
            self._push(due, self.courier.reachable(), deadline)

    def _push(
        self, due: Mapping[str, _Waiting], there: Mapping[str, int], deadline: float | None
    ) -> None:
        requests: dict[int, bytes] = {}
        for name, one in due.items():
            one.sendings += 1
            if name in there:
                requests[there[name]] = self.seal.seal(name, one.content)
        sent = self.courier.push(requests, self._lifetime(due, deadline)) if requests else {}
        for name, one in due.items():
            if there.get(name) in sent:
                sealed = requests[there[name]]
                one.requests[sent[there[name]]] = _Request(sealed, time.monotonic())

    def _lifetime(self, due: Mapping[str, _Waiting], deadline: float | None) -> float | None:
        """Seconds after which the SuperLink forgets a message.

        With a deadline, when it has passed. Without one later: how long a late answer took is worth
        knowing.
        """
        if deadline is None:
            limit = self._limit(None)
            return None if limit is None else _FIRST_ANSWER * limit
        elapsed = time.monotonic() - min(one.since for one in due.values())
        return max(deadline - elapsed, _LONGEST)

    def _await(self, names: set[str]) -> Mapping[str, int]:
        """Who is not there is waited for once, and then only looked for."""
        until, clock, said = time.monotonic() + self.patience, time.time(), False
        while True:
            there = self.courier.reachable()
            self._absent -= set(there)
            missing = names - set(there) - self._absent
            if not missing or time.monotonic() > until:
                self._absent |= missing
                return there
            self.watch(dict.fromkeys(missing, clock))
            if not said:
                self.say(f"waiting for {_listed(missing)} to come online")
                said = True
            time.sleep(_LONGEST / 2)

    def _renew(self, lost: CourierLost) -> None:
        self.say(f"the connection to the SuperLink is lost ({lost}); beginning a new Flower run")
        until = time.monotonic() + self.patience
        while True:
            self.watch({})
            try:
                self.courier.renew()
            except CourierLost:
                if time.monotonic() > until:
                    raise
                time.sleep(_LONGEST)
            else:
                self._absent.clear()  # after a restart nobody is there yet
                self._late.clear()
                return

    # --- in -----------------------------------------------------------------------------------

    def _replies(self, asked: Mapping[str, _Waiting]) -> Iterator[NodeReply]:
        names = {each: name for name, one in asked.items() for each in one.requests}
        for name, one in asked.items():
            if not one.requests:
                yield NodeReply(name, None, Outcome.VANISHED, 0.0)
        wanted, heard = [*names, *self._late], set[str]()
        for brought in self.courier.pull(wanted) if wanted else ():
            late = self._late.pop(brought.message_id, None)
            if late is not None and brought.content is not None:
                self._learn(time.monotonic() - late)
            found = names.pop(brought.message_id, None)
            if found is None or found in heard:
                continue
            reply = self._reply(found, asked[found], brought)
            if reply is not None:
                heard.add(found)
                yield reply

    def _learn(self, seconds: float) -> None:
        if self.times is not None:
            self.times.add(seconds)

    def _reply(self, name: str, one: _Waiting, brought: CourierReply) -> NodeReply | None:
        """None if another sending of the message may still be answered.

        A node takes no message that is older than the last: of two that overtook each other it
        declines the earlier one, and answers the later.
        """
        newest = next(reversed(one.requests))
        request = one.requests.pop(brought.message_id)
        if brought.content is None and name not in self._known:
            self._known.add(name)
            one.requests = {}
            return None
        self._known.add(name)
        reply = self._read(name, one, request.sealed, brought.content)
        if reply.outcome is None:
            self._learn(time.monotonic() - request.since)
        elif brought.message_id != newest and brought.content is not None:
            one.declined = reply
            return None
        return reply

    def _read(self, name: str, one: _Waiting, request: bytes, content: bytes | None) -> NodeReply:
        seconds = time.monotonic() - one.since
        if content is None:  # Flower's own word for a node that is gone
            self._absent.add(name)
            return NodeReply(name, None, Outcome.VANISHED, seconds)
        try:
            said = self.seal.open(name, request, content)
        except Refused as forged:
            return NodeReply(name, None, Outcome.VANISHED, seconds, forged)
        try:
            message = from_bytes(said)
        except InvalidInput as error:
            return NodeReply(name, None, None, seconds, error)
        if not isinstance(message, DeclinedMessage):
            return NodeReply(name, message, None, seconds)
        if not message.reason:
            return NodeReply(name, None, Outcome.VANISHED, seconds)
        kind = BegunBefore if message.begun_before else Refused
        return NodeReply(name, None, Outcome.REFUSED, seconds, kind(message.reason))

    def _given_up(self, asked: Mapping[str, _Waiting], limit: float | None) -> list[NodeReply]:
        now = time.monotonic()
        over = {
            name: one
            for name, one in asked.items()
            if limit is not None and now - one.since >= limit
        }
        if over:
            self.say(
                f"no answer in {limit:.0f} seconds from {_named(over)}: left out. To wait longer, "
                "set `deadline` under [superlink] in server.toml"
            )
        for one in over.values():
            self._late |= {each: request.since for each, request in one.requests.items()}
        return [
            one.declined or NodeReply(name, None, Outcome.LATE, now - one.since)
            for name, one in over.items()
        ]


def _named(asked: Mapping[str, _Waiting]) -> str:
    """Names, and since when the first of them was asked."""
    first = datetime.fromtimestamp(min(one.clock for one in asked.values()), UTC)
    return f"{_listed(asked)} (since {first:%Y-%m-%d %H:%M:%S} UTC)"


def _listed(names: Iterable[str]) -> str:
    ordered = sorted(names)
    return ", ".join(ordered[:_MOST_NAMED]) + (", …" if len(ordered) > _MOST_NAMED else "")
