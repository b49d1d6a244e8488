"""Messages are taken by whom they are for, from whom they are of, and once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.federation.secure_aggregation.parties import identities, signer
from voile.core.errors import Refused, UnreadableFile
from voile.federation.responder import NodeSeal, SignedByServer, TakenNumbers
from voile.federation.secure_aggregation.signed import decode, encode

AGREED = "ab" * 32
KEYS = identities(("ash", "elm"))


def server(**changes: Any) -> SignedByServer:
    settings: dict[str, Any] = {"agreement": AGREED, "sign": signer("server"), "identities": KEYS}
    return SignedByServer(**(settings | changes))


def node(name: str = "ash", taken: TakenNumbers | None = None, **changes: Any) -> NodeSeal:
    settings: dict[str, Any] = {
        "name": name, "agreement": AGREED, "server": KEYS["server"], "sign": signer(name),
        "taken": taken or TakenNumbers(),
    }  # fmt: skip
    return NodeSeal(**(settings | changes))


def test_a_question_and_its_answer() -> None:
    one, other = server(), node()
    request = one.seal("ash", b"question")
    assert other.open(request) == b"question"
    assert one.open("ash", request, other.seal(request, b"answer")) == b"answer"


def test_a_message_is_taken_once_and_none_before_it(tmp_path: Path) -> None:
    one, path = server(clock=lambda: 5), tmp_path / "last"
    first, second = one.seal("ash", b"1"), one.seal("ash", b"2")
    taken = node(taken=TakenNumbers(path))
    assert taken.open(second) == b"2"
    for late in (first, second):
        with pytest.raises(Refused, match="not newer"):
            taken.open(late)
        with pytest.raises(Refused, match="not newer"):  # nor by the process after it
            node(taken=TakenNumbers(path)).open(late)
    assert node(taken=TakenNumbers(path)).open(one.seal("ash", b"3")) == b"3"


def test_a_message_that_is_refused_uses_no_number_up() -> None:
    taken, one = node(), server()
    for wrong in (server(sign=signer("elm")), server(agreement="cd" * 32)):
        with pytest.raises(Refused):
            taken.open(wrong.seal("ash", b"question"))
    with pytest.raises(Refused, match="another node"):
        taken.open(one.seal("elm", b"question"))
    assert taken.taken.last == -1


@pytest.mark.parametrize("part", range(6))
def test_no_part_can_be_changed(part: int) -> None:
    parts = decode(server().seal("ash", b"question"))
    parts[part] = bytes([parts[part][0] ^ 1]) + parts[part][1:]
    with pytest.raises(Refused):
        node().open(encode(parts))


@pytest.mark.parametrize("content", [b"", b"text", encode([b"voile request 1"]), encode([b""] * 6)])
def test_what_is_no_envelope_is_refused(content: bytes) -> None:
    with pytest.raises(Refused):
        node().open(content)
    with pytest.raises(Refused):
        server().open("ash", b"request", content)


def test_a_reply_is_for_one_request_and_of_one_node() -> None:
    one = server()
    request, other_request = one.seal("ash", b"1"), one.seal("ash", b"2")
    reply = node().seal(request, b"answer")
    for sender, asked in (("elm", request), ("ash", other_request), ("nobody", request)):
        with pytest.raises(Refused):
            one.open(sender, asked, reply)
    with pytest.raises(Refused):
        one.open("ash", request, node("elm").seal(request, b"answer"))


def test_a_number_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "last").write_text("soon")
    with pytest.raises(UnreadableFile):
        TakenNumbers(tmp_path / "last").take(1)


def test_a_clock_that_was_ahead_once_locks_nobody_out(tmp_path: Path) -> None:
    taken, path = node(), tmp_path / "last"
    wrong = server(clock=lambda: 9_000, sent=TakenNumbers(path))
    assert taken.open(wrong.seal("ash", b"1")) == b"1"
    right = server(clock=lambda: 5, sent=TakenNumbers(path))  # the process after it
    assert taken.open(right.seal("ash", b"2")) == b"2"
    assert taken.open(right.seal("ash", b"3")) == b"3"
