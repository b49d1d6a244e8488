"""One suite for every transport: each addressee is replied for once, whatever it does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.unit.federation.couriers import LocalCourier
from tests.unit.federation.secret_toys import AGREED, protocol, secret_nodes, secret_stage
from tests.unit.federation.secure_aggregation.parties import identities, signer
from tests.unit.federation.toys import START, Odd, client, honest
from voile.core.errors import Refused
from voile.federation import (
    Closing,
    Instruction,
    Joined,
    Node,
    Outcome,
    Rounds,
    Threads,
    Transport,
)
from voile.federation.flower import FlowerTransport
from voile.federation.responder import NodeSeal, Responder, SignedByServer
from voile.federation.secure_aggregation.attempts import BegunBefore

MESSAGE = Instruction("pull", 1, START)
AGREEMENT = "3f" * 32


def over_flower(nodes: Sequence[Any]) -> Transport:
    """Sealed bytes, which a courier in this process brings."""
    names = [node.name for node in nodes]
    keys = identities(names)
    responders = {
        node.name: Responder(
            node, NodeSeal(node.name, AGREEMENT, keys["server"], signer(node.name))
        )
        for node in nodes
    }
    seal = SignedByServer(AGREEMENT, signer("server"), keys)
    return FlowerTransport(LocalCourier(responders), seal, patience=0.2)


TRANSPORTS: dict[str, Callable[[Sequence[Any]], Transport]] = {
    "one after the other": Threads,
    "threads": lambda nodes: Threads(nodes, at_once=4),
    "flower": over_flower,
}


@pytest.fixture(params=TRANSPORTS)
def over(request: pytest.FixtureRequest) -> Callable[[Sequence[Any]], Transport]:
    return TRANSPORTS[request.param]


def raising(error: BaseException) -> Callable[[Any], Any]:
    def reply(_: Any) -> Any:
        raise error

    return reply


def saying(text: Any) -> Joined:
    """Something that can be said over any transport."""
    return Joined(str(text), "")


def shouting(name: str) -> Callable[[Any], Any]:
    return lambda _: saying(name.upper())


def test_every_addressee_is_replied_for_once(over: Any) -> None:
    nodes = [Odd(name, shouting(name)) for name in "abcdefgh"]
    found = list(over(nodes).exchange(dict.fromkeys("hgfb", MESSAGE)))
    assert sorted((reply.node, reply.content.client) for reply in found) == [
        ("b", "B"),
        ("f", "F"),
        ("g", "G"),
        ("h", "H"),
    ]
    assert all(reply.outcome is None and reply.seconds >= 0 for reply in found)
    assert [node.name for node in nodes if node.asked] == ["b", "f", "g", "h"]


def test_each_node_gets_its_own_message(over: Any) -> None:
    nodes = [Odd(name, lambda message: saying(message.round)) for name in "ab"]
    messages = {"a": Instruction("pull", 3, START), "b": Instruction("pull", 5, START)}
    found = {reply.node: reply.content for reply in over(nodes).exchange(messages)}
    assert found == {"a": saying(3), "b": saying(5)}


def test_what_a_node_does_instead_of_answering_is_its_outcome(over: Any) -> None:
    nodes = [
        Odd("fails", raising(RuntimeError("36.6"))),
        Odd("leaves", raising(SystemExit(3))),
        Odd("refuses", raising(Refused("no"))),
        Odd("has lost it", raising(BegunBefore("begun"))),
    ]
    found = {reply.node: reply for reply in over(nodes).exchange({n.name: MESSAGE for n in nodes})}
    assert {name: reply.outcome for name, reply in found.items()} == {
        "fails": Outcome.VANISHED,
        "leaves": Outcome.VANISHED,
        "refuses": Outcome.REFUSED,
        "has lost it": Outcome.REFUSED,
    }
    assert str(found["refuses"].error) == "no"
    assert isinstance(found["has lost it"].error, BegunBefore)


def test_what_a_node_raises_is_told_to_whoever_sits_at_its_machine_only() -> None:
    nodes = [Odd("fails", raising(RuntimeError("36.6")))]
    (here,) = Threads(nodes).exchange({"fails": MESSAGE})
    (far,) = over_flower(nodes).exchange({"fails": MESSAGE})
    assert "36.6" in str(here.error)
    assert far.error is None
    assert far.content is None


def test_who_cannot_be_reached_has_vanished(over: Any) -> None:
    (reply,) = over([Odd("a", shouting("a"))]).exchange({"nobody": MESSAGE})
    assert (reply.node, reply.outcome) == ("nobody", Outcome.VANISHED)


def test_who_is_late_is_not_heard_in_a_later_exchange(over: Any) -> None:
    free, done = threading.Event(), threading.Event()

    def slow(_: Any) -> Joined:
        free.wait(30)
        done.set()
        return saying("late")

    transport = over([Odd("slow", slow), Odd("quick", lambda _: saying("quick"))])
    try:
        first = list(transport.exchange({"slow": MESSAGE, "quick": MESSAGE}, deadline=0.5))
        outcomes = {reply.node: reply.outcome for reply in first}
        assert outcomes == {"slow": Outcome.LATE, "quick": None}
        (busy,) = transport.exchange({"slow": MESSAGE}, deadline=0.5)
        assert busy.outcome in (Outcome.VANISHED, Outcome.LATE)
    finally:
        free.set()
    assert done.wait(30)
    found = [reply.content for reply in transport.exchange({"quick": MESSAGE}, deadline=30)]
    assert found == [saying("quick")]


def test_a_node_answers_each_kind_of_message(over: Any) -> None:
    node = Node(client("ash"), lambda: {"checkpoint": b"signed"})
    transport = over([node, Odd("odd", lambda i: honest("odd", i))])
    (update,) = transport.exchange({"ash": MESSAGE})
    (closed,) = transport.exchange({"ash": Closing()})
    assert update.content.client == "ash"
    assert (closed.content.client, closed.content.files) == ("ash", {"checkpoint": b"signed"})


def test_a_node_that_adds_up_in_secret_answers_each_of_its_messages(over: Any) -> None:
    agreed = secret_stage(rounds=1)
    transport = over(secret_nodes(agreed))
    rounds = Rounds(
        transport, protocol().sizes, agreement=AGREED, sign=signer("server"), deadline=60.0
    )
    found = rounds.run(agreed, START)
    assert {row.outcome for row in found.rows} == {Outcome.ANSWERED}


def test_nobody_is_asked_before_replies_are_wanted_and_nobody_twice(over: Any) -> None:
    nodes = [Odd(name, shouting(name)) for name in "abc"]
    transport = over(nodes)
    list(transport.exchange(dict.fromkeys("abc", MESSAGE)))
    list(transport.exchange({}))
    assert [node.asked for node in nodes] == [[1], [1], [1]]
