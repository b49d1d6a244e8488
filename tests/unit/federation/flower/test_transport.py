"""What a transport over Flower makes of a way that breaks, and of replies that are not a node's."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.federation.couriers import LocalCourier
from tests.unit.federation.toys import START, client
from tests.unit.secure_aggregation.parties import identities, signer
from voile.core.errors import Refused
from voile.federation import Instruction, Node, Outcome
from voile.federation.envelopes import NodeSeal, SignedByServer
from voile.federation.flower import FlowerTransport
from voile.federation.flower.courier import CourierLost
from voile.federation.responder import Responder
from voile.secure_aggregation.signed import encode

NAMES = ("ash", "elm")
ASKED = dict.fromkeys(NAMES, Instruction("pull", 1, START))


def made(tmp_path: Any = None, **changes: Any) -> tuple[FlowerTransport, LocalCourier]:
    keys = identities(NAMES)
    courier = LocalCourier(
        {
            name: Responder(
                Node(client(name, folder=tmp_path)),
                NodeSeal(name, "", keys["server"], signer(name)),
            )
            for name in NAMES
        }
    )
    seal = SignedByServer("", signer("server"), keys)
    return FlowerTransport(courier, seal, **({"patience": 5.0} | changes)), courier


@pytest.mark.parametrize("losses", [1, 2, 3])
def test_who_was_not_heard_of_is_asked_again_in_a_new_run(losses: int, tmp_path: Any) -> None:
    transport, courier = made(tmp_path)
    courier.losses = losses
    first = {reply.node: reply.content for reply in transport.exchange(ASKED)}
    assert courier.runs >= 2
    assert set(first) == set(NAMES)
    again = {reply.node: reply.content for reply in transport.exchange(ASKED)}
    for name in NAMES:  # a repeated question gets the stored answer
        assert again[name].resent
        assert again[name].arrays["vector"].tobytes() == first[name].arrays["vector"].tobytes()


def test_a_way_that_stays_broken_is_given_up() -> None:
    transport, courier = made(patience=0.0)
    courier.losses = 1000
    with pytest.raises(CourierLost):
        list(transport.exchange(ASKED))


def test_who_is_not_there_is_waited_for_once(tmp_path: Any) -> None:
    said: list[str] = []
    transport, courier = made(tmp_path, patience=0.5, say=said.append)
    courier.away.add("elm")
    for _ in range(2):
        found = {reply.node: reply.outcome for reply in transport.exchange(ASKED)}
        assert found == {"ash": None, "elm": Outcome.VANISHED}
    assert said == ["waiting for elm"]
    courier.away.clear()
    assert all(reply.outcome is None for reply in transport.exchange(ASKED))


@pytest.mark.parametrize(
    "forged",
    [
        b"",
        b"anything",
        encode([b"voile reply 1", b"content", b"signature"]),
        NodeSeal("elm", "", b"", signer("elm")).seal(b"another request", b"content"),
    ],
)
def test_what_a_node_did_not_sign_is_no_reply(forged: bytes) -> None:
    transport, courier = made()
    exchange = transport.exchange({"elm": ASKED["elm"]})
    answer = courier._queues.pop(courier.numbers["elm"])
    courier._queues[courier.numbers["elm"]] = type(answer)()  # its own answer never comes
    courier.answer_instead("m0", forged)
    (reply,) = exchange
    assert (reply.outcome, reply.content) == (Outcome.VANISHED, None)
    assert isinstance(reply.error, Refused)


def test_flowers_own_word_that_a_node_is_gone_is_taken() -> None:
    transport, courier = made()
    courier._queues[courier.numbers["elm"]] = type(courier._queues[1])()
    courier.answer_instead("m0", None)
    (reply,) = transport.exchange({"elm": ASKED["elm"]})
    assert reply.outcome is Outcome.VANISHED
