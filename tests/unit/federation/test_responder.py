"""A node behind a wire: one line in its log for whatever it is asked."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.unit.federation.secret_toys import AGREED, protocol, secret_nodes, secret_stage
from tests.unit.federation.secure_aggregation.parties import identities, signer
from tests.unit.federation.test_envelopes import node as seal
from tests.unit.federation.test_envelopes import server
from tests.unit.federation.toys import START, Odd, client
from voile.core.errors import Refused
from voile.federation import Instruction, Joining, Node, Outcome, Rounds, Update
from voile.federation.responder import (
    Event,
    NodeLine,
    NodeLog,
    NodeSeal,
    Responder,
    SignedByServer,
    one_line,
)
from voile.federation.secure_aggregation import AttemptStep, SignedMessage
from voile.federation.secure_aggregation.attempts import BegunBefore
from voile.federation.secure_aggregation.signed import (
    decode,
    decode_names,
    encode,
    encode_names,
    signed,
)
from voile.federation.transport import NodeReply
from voile.federation.wire import DeclinedMessage, from_bytes, to_bytes

ASKED = Instruction("pull", 1, START)


def asked(handler: Any, message: Any, path: Path | None = None) -> tuple[Any, NodeLog]:
    log, one = NodeLog(path), server()
    content = message if isinstance(message, bytes) else to_bytes(message)
    request = one.seal("ash", content)
    reply = Responder(handler, seal(), log).answer(request)
    return from_bytes(one.open("ash", request, reply)), log


def raising(error: BaseException) -> Odd:
    def reply(_: Any) -> Any:
        raise error

    return Odd("ash", reply)


def test_an_answer_and_its_line(tmp_path: Path) -> None:
    update, log = asked(Node(client("ash")), ASKED, tmp_path / "log")
    assert type(update) is Update
    (line,) = log.lines()
    assert (line.event, line.text) == (Event.ANSWERED, "stage 'pull', round 1")


@pytest.mark.parametrize(
    ("error", "declined", "event"),
    [
        (Refused("its cap"), DeclinedMessage("its cap"), Event.REFUSED),
        (Refused("'loans' has ε = 3", to_others="no"), DeclinedMessage("no"), Event.REFUSED),
        (BegunBefore("lost"), DeclinedMessage("lost", begun_before=True), Event.REFUSED),
        (ValueError("patient 36.6"), DeclinedMessage(), Event.FAILED),
        (SystemExit(3), DeclinedMessage(), Event.FAILED),
    ],
)
def test_only_refusals_are_told_in_words(
    error: BaseException, declined: DeclinedMessage, event: Event, tmp_path: Path
) -> None:
    found, log = asked(raising(error), ASKED, tmp_path / "log")
    assert found == declined
    (line,) = log.lines()
    assert line.event is event
    assert str(error) in line.text  # its operator is told


@pytest.mark.parametrize("content", [b"", b"rubbish", to_bytes(Joining("other"))])
def test_what_cannot_be_read_is_refused_with_a_line(content: bytes, tmp_path: Path) -> None:
    found, log = asked(Node(client("ash")), content, tmp_path / "log")
    assert type(found) is DeclinedMessage
    assert [line.event for line in log.lines()] == [Event.REFUSED]


def test_an_answer_that_is_no_message_does_not_leave() -> None:
    found, _ = asked(Odd("ash", lambda _: {"rows": [1, 2]}), ASKED)
    assert found == DeclinedMessage()


def test_nobody_forges_a_line(tmp_path: Path) -> None:
    log = NodeLog(tmp_path / "log")
    log.write(Event.REFUSED, "a\n2026-01-01T00:00:00Z answered everything\u2028\x1b[2K")
    assert len(log.lines()) == 1
    assert "\x1b" not in (tmp_path / "log").read_text()
    assert one_line("x" * 900).endswith("…")
    assert NodeLine.read("half a li") is None


def test_a_node_answers_while_its_log_cannot_be_written(tmp_path: Path) -> None:
    """Such as on a full disk: what was charged and stored is sent nevertheless."""
    shown: list[str] = []
    log, one = NodeLog(tmp_path / "missing" / "log", shown.append), server()
    request = one.seal("ash", to_bytes(ASKED))
    reply = Responder(Node(client("ash")), seal(), log).answer(request)
    assert type(from_bytes(one.open("ash", request, reply))) is Update
    assert "answered" in shown[0]
    assert "cannot be written" in shown[1]


def test_a_terminal_that_is_gone_stops_no_node(tmp_path: Path) -> None:
    def gone(_: str) -> None:
        raise OSError(5, "Input/output error")

    log = NodeLog(tmp_path / "log", gone)
    log.write(Event.STARTED, "here")
    assert [line.text for line in log.lines()] == ["here"]


def test_a_line_that_was_cut_off_takes_no_other_with_it(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("2026-01-01T00:00:00Z answ")
    log = NodeLog(path)
    log.write(Event.STARTED, "here")
    assert [line.text for line in log.lines()] == ["here"]


def test_a_log_is_its_operators_alone(tmp_path: Path) -> None:
    """What went wrong is told there in words, which may quote a row."""
    log = NodeLog(tmp_path / "log")
    log.write(Event.FAILED, "patient 36.6")
    assert stat.S_IMODE((tmp_path / "log").stat().st_mode) & 0o077 == 0


class AskingTwice:
    """A transport that says everything twice, and then asks for another list of survivors."""

    def __init__(self, nodes: list[Any]) -> None:
        names = [node.name for node in nodes]
        keys = identities(names)
        self.seal = SignedByServer(AGREED, signer("server"), keys)
        self.responders = {
            node.name: Responder(
                node, NodeSeal(node.name, AGREED, keys["server"], signer(node.name))
            )
            for node in nodes
        }
        self.asked_for_others: list[Any] = []

    def exchange(
        self, messages: Mapping[str, Any], deadline: float | None = None
    ) -> Iterator[NodeReply]:
        del deadline
        for name, message in messages.items():
            first, again = self._say(name, message), self._say(name, message)
            assert to_bytes(first) == to_bytes(again)
            if isinstance(message, SignedMessage) and message.step is AttemptStep.UNMASK:
                self.asked_for_others.append(self._say(name, _without_one(message)))
                self.asked_for_others.append(self._say(name, _without_one(message)))
            yield NodeReply(name, first, None, 0.0)

    def _say(self, name: str, message: Any) -> Any:
        request = self.seal.seal(name, to_bytes(message))
        return from_bytes(self.seal.open(name, request, self.responders[name].answer(request)))


def _without_one(message: SignedMessage) -> SignedMessage:
    """The same step of the same attempt, signed by the server, with a survivor less."""
    listed, rest = decode(message.body)
    names = decode_names(listed, tuple(protocol().sizes))
    others = tuple(
        each for each in names if each != (names[0], names[1])[message.recipient == names[0]]
    )
    body = encode([encode_names(others), rest])
    return signed(
        message.attempt, message.step, "server", message.recipient, body, signer("server")
    )


def test_a_step_of_a_secure_sum_asked_twice_gets_the_same_bytes_and_no_other_survivors() -> None:
    agreed = secret_stage(rounds=1)
    transport = AskingTwice(secret_nodes(agreed))
    rounds = Rounds(transport, protocol().sizes, agreement=AGREED, sign=signer("server"))
    found = rounds.run(agreed, START)
    assert {row.outcome for row in found.rows} == {Outcome.ANSWERED}
    assert len(transport.asked_for_others) == 2 * len(protocol().sizes)
    assert all(isinstance(each, DeclinedMessage) for each in transport.asked_for_others)


def test_other_messages_are_answered_anew() -> None:
    """Books and logs change; a stored update is the business of the client."""
    node, one = Odd("ash", lambda _: DeclinedMessage("no")), server()
    responder = Responder(node, seal())
    for _ in range(2):
        responder.answer(one.seal("ash", to_bytes(ASKED)))
    assert node.asked == [1, 1]
