"""One suite for every round protocol: what a round makes of answers, whoever does not answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from tests.unit.federation.toys import START, Odd, Pull, honest
from voile.core.errors import Refused
from voile.federation import (
    CoordinateMedian,
    FedAdam,
    FedAvg,
    Instruction,
    Outcome,
    PlainRound,
    RoundProtocol,
    Threads,
)
from voile.federation.arrays import shapes_of
from voile.federation.history import event_as_text
from voile.federation.round_protocol import Agreed, RoundCall, RoundResult
from voile.federation.transport import NodeReply

PROTOCOLS: dict[str, RoundProtocol] = {
    "plain, sum": PlainRound(FedAvg()),
    "plain, sum with memory": PlainRound(FedAdam()),
    "plain, single updates": PlainRound(CoordinateMedian()),
}
EVENT = event_as_text(Pull().cost(40))
SHAPES = shapes_of(START)


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> RoundProtocol:
    return PROTOCOLS[request.param]


def call(names: str, told: list[int] | None = None, memory: Any = None) -> RoundCall:
    tell = (lambda _: None) if told is None else told.append
    clients = {name: Agreed(40, EVENT) for name in names}
    return RoundCall(
        Instruction("pull", 1, START, agreement="agreed"), clients, 100.0, memory, tell
    )


def moving(name: str, by: float) -> Odd:
    def reply(instruction: Instruction) -> Any:
        arrays = {n: np.full_like(a, by) for n, a in instruction.arrays.items()}
        return honest(name, instruction, arrays=arrays, agreement=instruction.agreement)

    return Odd(name, reply)


def refusing(_: Any) -> Any:
    raise Refused("no")


def run(protocol: RoundProtocol, nodes: list[Odd], told: list[int] | None = None) -> RoundResult:
    names = "".join(node.name for node in nodes)
    memory = protocol.remembered(SHAPES)
    return protocol.run(call(names, told, memory), Threads(nodes).exchange)


def same(first: Any, second: Any) -> bool:
    return set(first) == set(second) and all(np.array_equal(first[n], second[n]) for n in first)


def test_the_change_has_the_shapes_of_the_arrays(protocol: RoundProtocol) -> None:
    found = run(protocol, [moving("a", 1.0), moving("b", 3.0), moving("c", 2.0)])
    assert found.change is not None
    assert shapes_of(found.change) == SHAPES
    assert all((array > 0).all() and array.dtype == np.float32 for array in found.change.values())


def test_who_cannot_be_used_is_left_out_by_name_and_kind(protocol: RoundProtocol) -> None:
    bad = [
        Odd("d", refusing),
        moving("e", np.nan),
        Odd("f", lambda i: honest("f", i, agreement="another")),
        Odd("g", lambda i: honest("g", i, event="", agreement=i.agreement)),
    ]
    good = [moving("a", 1.0), moving("b", 3.0), moving("c", 2.0)]
    found, expected = run(protocol, [*bad, *good]), run(protocol, good)
    assert found.change is not None
    assert expected.change is not None
    assert same(found.change, expected.change)
    assert same(found.memory, expected.memory)
    assert {name: heard.outcome for name, heard in found.heard.items()} == {
        "a": Outcome.ANSWERED,
        "b": Outcome.ANSWERED,
        "c": Outcome.ANSWERED,
        "d": Outcome.REFUSED,
        "e": Outcome.NOT_FINITE,
        "f": Outcome.WRONG_SENDER,
        "g": Outcome.OTHER_COST,
    }
    assert list(found.heard) == sorted(found.heard)


def test_a_round_that_nobody_answers_changes_nothing(protocol: RoundProtocol) -> None:
    found = run(protocol, [Odd("a", refusing), Odd("b", refusing)])
    assert found.change is None
    assert same(found.memory, protocol.remembered(SHAPES))


def test_it_tells_how_many_were_heard_of(protocol: RoundProtocol) -> None:
    told: list[int] = []
    run(protocol, [moving("a", 1.0), Odd("b", refusing), moving("c", 2.0)], told)
    assert told[-1] == 3
    assert told == sorted(told)


def test_the_order_of_arrival_does_not_matter(protocol: RoundProtocol) -> None:
    nodes = [moving(name, by) for name, by in (("a", 0.1), ("b", 3.7), ("c", -2.3))]

    def backwards(messages: Mapping[str, Any]) -> Iterator[NodeReply]:
        return reversed(list(Threads(nodes).exchange(messages)))

    memory = protocol.remembered(SHAPES)
    first = protocol.run(call("abc", memory=memory), Threads(nodes).exchange)
    second = protocol.run(call("abc", memory=memory), backwards)
    assert first.change is not None
    assert second.change is not None
    assert same(first.change, second.change)
    assert same(first.memory, second.memory)


def test_two_that_differ_read_differently() -> None:
    """The text is part of what a checkpoint must agree with."""
    assert len({repr(each) for each in PROTOCOLS.values()}) == len(PROTOCOLS)
    assert repr(PlainRound(FedAdam(rate=0.1))) != repr(PlainRound(FedAdam(rate=0.2)))
