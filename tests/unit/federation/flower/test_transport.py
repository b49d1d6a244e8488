"""What a transport over Flower makes of a way that breaks, and of replies that are not a node's."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.unit.federation.couriers import LocalCourier
from tests.unit.federation.secret_toys import AGREED, protocol, secret_nodes, secret_stage
from tests.unit.federation.secure_aggregation.parties import identities, signer
from tests.unit.federation.toys import START, Odd, client, honest
from voile.core.errors import Refused
from voile.core.randomness import Seeded
from voile.federation import CountingGuard, Instruction, Node, Outcome, Rounds, Threads
from voile.federation.flower import FlowerTransport
from voile.federation.flower.courier import CourierLost
from voile.federation.flower.transport import AnswerTimes
from voile.federation.responder import NodeSeal, Responder, SignedByServer
from voile.federation.secure_aggregation.signed import encode

NAMES = ("ash", "elm")
ASKED = dict.fromkeys(NAMES, Instruction("pull", 1, START))


def made(
    tmp_path: Any = None, nodes: Sequence[Any] | None = None, agreement: str = "", **changes: Any
) -> tuple[FlowerTransport, LocalCourier]:
    nodes = [Node(client(name, folder=tmp_path)) for name in NAMES] if nodes is None else nodes
    keys = identities([node.name for node in nodes])
    courier = LocalCourier(
        {
            node.name: Responder(
                node, NodeSeal(node.name, agreement, keys["server"], signer(node.name))
            )
            for node in nodes
        }
    )
    seal = SignedByServer(agreement, signer("server"), keys)
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
    seen: list[Mapping[str, float]] = []
    transport, courier = made(tmp_path, patience=0.8, say=said.append, watch=seen.append)
    courier.away.add("elm")
    for _ in range(2):
        found = {reply.node: reply.outcome for reply in transport.exchange(ASKED)}
        assert found == {"ash": None, "elm": Outcome.VANISHED}
    assert said == ["waiting for elm to come online"]
    since = [each["elm"] for each in seen if set(each) == {"elm"}]
    assert len(since) > 1
    assert len(set(since)) == 1  # the time at which the wait began
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
    list(transport.exchange({"elm": ASKED["elm"]}))
    courier._queues[courier.numbers["elm"]] = type(courier._queues[1])()
    courier.answer_instead("m1", None)
    (reply,) = transport.exchange({"elm": ASKED["elm"]})
    assert reply.outcome is Outcome.VANISHED


@pytest.mark.parametrize(("gone", "outcome"), [(1, None), (2, Outcome.VANISHED)])
def test_who_is_gone_before_its_first_answer_is_waited_for_once(
    gone: int, outcome: Outcome | None
) -> None:
    """A node that was killed and comes back: the SuperLink takes it for online in between."""
    said: list[str] = []

    def leave(_: Mapping[str, float]) -> None:
        if not said:
            courier.away.add("elm")

    def come_back(text: str) -> None:
        said.append(text)
        courier.away.clear()

    transport, courier = made(say=come_back, watch=leave)
    for number in range(gone):
        courier.lost_messages.add(number)
        courier.answer_instead(f"m{number}", None)
    (reply,) = transport.exchange({"elm": ASKED["elm"]})
    assert reply.outcome is outcome
    assert said == ["waiting for elm to come online"]
    assert len(courier.pushed) == 2


# --- single messages that are lost on the way -----------------------------------------------------


@pytest.mark.parametrize("lost", ["message", "reply"])
def test_what_was_lost_is_sent_again_and_answered_at_no_further_cost(
    lost: str, tmp_path: Any
) -> None:
    """Message 1 is the one for elm. What it costs is charged once, and what it says is stored."""
    guard, said = CountingGuard(4), list[str]()
    nodes = [Node(client(name, folder=tmp_path, guard=guard)) for name in NAMES]
    transport, courier = made(nodes=nodes, say=said.append, times=AnswerTimes(least=0.9))
    (courier.lost_messages if lost == "message" else courier.lost_replies).add(1)
    found = {reply.node: reply for reply in transport.exchange(ASKED)}
    assert {name: reply.outcome for name, reply in found.items()} == dict.fromkeys(NAMES)
    assert found["elm"].content.resent == (lost == "reply")
    assert sorted(each.client for each in guard.participations) == sorted(NAMES)
    again = {reply.node: reply.content for reply in transport.exchange(ASKED)}
    for name in NAMES:
        stored = again[name].arrays["vector"].tobytes()
        assert found[name].content.arrays["vector"].tobytes() == stored
    assert len(said) == 1
    assert said[0].startswith("sending again what was not answered: elm (since 20")


def test_a_node_that_never_answers_is_left_out_and_named() -> None:
    said: list[str] = []
    seen: list[Mapping[str, float]] = []
    transport, courier = made(say=said.append, watch=seen.append, times=AnswerTimes(least=1.5))
    courier.lost_messages |= set(range(1, 100))
    found = {reply.node: reply.outcome for reply in transport.exchange(ASKED)}
    assert found == {"ash": None, "elm": Outcome.LATE}
    assert len(courier.pushed) == 3
    assert said[-1].startswith("no answer in 2 seconds from elm (since 20")
    assert "deadline" in said[-1]
    assert {"elm"} in [set(each) for each in seen]


def test_somebody_is_told_for_whom_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("voile.federation.flower.transport._SILENT", 0.0)
    free, said = threading.Event(), list[str]()

    def slow(asked: Any) -> Any:
        free.wait(30)
        return honest("ash", asked)

    def told(text: str) -> None:
        said.append(text)
        free.set()

    transport, _ = made(nodes=[Odd("ash", slow)], say=told)
    (reply,) = transport.exchange({"ash": ASKED["ash"]})
    assert reply.outcome is None
    assert len(said) == 1
    assert re.fullmatch(r"waiting for ash \(since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\)", said[0])


class Held:
    """A node that answers when it is let go."""

    def __init__(self) -> None:
        self.free = threading.Event()

    def __call__(self, asked: Any) -> Any:
        self.free.wait(30)
        return honest("ash", asked)


def test_while_nobody_has_answered_nobody_is_given_up_early() -> None:
    """All of them may train for long: the first answer tells how long an answer takes."""
    held, times = Held(), AnswerTimes(least=1.0)

    def let_go(waiting: Mapping[str, float]) -> None:
        if waiting and time.time() - waiting["ash"] > times.least:
            held.free.set()

    transport, _ = made(nodes=[Odd("ash", held)], times=times, watch=let_go)
    (reply,) = transport.exchange({"ash": ASKED["ash"]})
    assert reply.outcome is None
    assert times.deadline > 3 * times.least


def test_how_long_a_late_answer_took_is_learned() -> None:
    held, times = Held(), AnswerTimes(least=0.6)
    transport, courier = made(nodes=[Odd("ash", held), Node(client("elm"))], times=times)
    found = {reply.node: reply.outcome for reply in transport.exchange(ASKED)}
    assert found == {"ash": Outcome.LATE, "elm": None}
    before = times.deadline
    held.free.set()
    while not courier._replies:
        time.sleep(0.01)
    (reply,) = transport.exchange({"elm": ASKED["elm"]})
    assert reply.content.client == "elm"
    assert times.deadline > max(before, 3 * 0.6)


def test_a_refusal_of_what_was_overtaken_does_not_count() -> None:
    """The second sending is brought first; the node then declines the first one as too old."""
    transport, courier = made(times=AnswerTimes(least=0.9))
    held = courier._queues[courier.numbers["elm"]]
    late: Any = type(held)()
    courier._queues[courier.numbers["elm"]] = late
    exchange = transport.exchange({"elm": ASKED["elm"]})
    found: list[Any] = []
    reading = threading.Thread(target=lambda: found.extend(exchange))
    reading.start()
    first, second = late.get(timeout=30), late.get(timeout=30)
    courier._queues[courier.numbers["elm"]] = held
    name, content = second
    responder_reply = _answered(courier, held, name, content)
    courier._replies.pop(name)
    held.put(first)  # declined: its number is lower
    while first[0] not in courier._replies and reading.is_alive():
        time.sleep(0.01)
    courier.answer_instead(name, responder_reply)
    reading.join(30)
    (reply,) = found
    assert reply.outcome is None
    assert reply.content.client == "elm"


def _answered(courier: LocalCourier, held: Any, name: str, content: bytes) -> Any:
    held.put((name, content))
    while name not in courier._replies:
        time.sleep(0.01)
    return courier._replies[name]


class LosingOne(LocalCourier):
    """Of everything that is sent to all at once it loses one message or reply, of another node each
    time."""

    lost = ""

    def push(self, messages: Mapping[int, bytes], seconds: float | None) -> dict[int, str]:
        every = len(messages) == len(self.numbers)
        if every:
            losses = self.lost_messages if self.lost == "message" else self.lost_replies
            losses.add(sum(map(len, self.pushed)) + len(self.pushed) % len(messages))
        return super().push(messages, seconds)


@pytest.mark.parametrize("lost", ["message", "reply"])
def test_every_step_of_a_secure_sum_survives_a_loss(
    lost: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every step is lost for one party or another: nobody falls out, and the sum is the same."""
    monkeypatch.setattr("voile.federation.flower.transport._SENDINGS", 100)
    agreed, guard = secret_stage(rounds=1), CountingGuard(1)
    nodes = secret_nodes(agreed, tmp_path / "lossy", guard=guard)
    transport, courier = made(nodes=nodes, agreement=AGREED)
    courier.__class__, courier.lost = LosingOne, lost  # type: ignore[attr-defined]
    sizes = protocol().sizes

    def run(carried: Any) -> Any:
        signed: dict[str, Any] = {
            "agreement": AGREED,
            "sign": signer("server"),
            "source": Seeded(1),
        }
        return Rounds(carried, sizes, deadline=20.0, **signed).run(agreed, START)

    found, expected = run(transport), run(Threads(secret_nodes(agreed, tmp_path / "sound")))
    assert {row.outcome for row in found.rows} == {Outcome.ANSWERED}
    # Four steps; on a slow machine one may be sent to all of them again, and lose once more.
    assert len(courier.lost_messages | courier.lost_replies) >= 4
    assert len(guard.participations) == len(sizes)
    for name, array in expected.arrays.items():
        assert array.tobytes() == found.arrays[name].tobytes()
