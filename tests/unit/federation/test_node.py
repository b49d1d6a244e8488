"""A node takes three kinds of message, of its own agreement, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.unit.federation.toys import START, client
from voile.core.errors import InvalidInput, Refused
from voile.federation import Closed, Closing, Instruction, Joined, Joining, Node, Update

AGREED = "3f" * 32


def node() -> Node:
    return Node(replace(client("ash"), agreement=AGREED), lambda: {"log": b"signed"})


def test_an_instruction_is_answered_with_an_update_of_the_same_agreement() -> None:
    answer = node().handle(Instruction("pull", 1, START, agreement=AGREED))
    assert isinstance(answer, Update)
    assert answer.agreement == AGREED


def test_at_the_end_it_hands_over_its_signed_log() -> None:
    assert node().handle(Closing(AGREED)) == Closed("ash", AGREED, {"log": b"signed"})


def test_before_the_first_round_it_says_that_it_takes_part() -> None:
    asked = node()
    assert asked.handle(Joining(AGREED)) == Joined("ash", AGREED)
    assert not asked.client.guard.participations  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "message", [Instruction("pull", 1, START), Closing(), Closing("4f" * 32), Joining()]
)
def test_what_belongs_to_another_agreement_is_refused(message: Any) -> None:
    asked = node()
    with pytest.raises(Refused, match="agreed"):
        asked.handle(message)
    assert not asked.client.guard.participations  # type: ignore[attr-defined]


@dataclass(frozen=True)
class ClosingAndMore(Closing):
    delete: str = "rows.csv"


@pytest.mark.parametrize("message", [None, "close", {}, ClosingAndMore(AGREED)])
def test_anything_else_is_refused(message: Any) -> None:
    with pytest.raises(InvalidInput, match="nothing more"):
        node().handle(message)
