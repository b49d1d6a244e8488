"""One suite for every round protocol: what a round makes of answers, whoever does not answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from tests.unit.federation.secret_toys import Falling, Moves, member
from tests.unit.federation.secure_aggregation.parties import identities, signer
from tests.unit.federation.toys import START, Odd, Pull, client, honest, stage
from voile.core.errors import Refused
from voile.federation import (
    CoordinateMedian,
    FedAdam,
    FedAvg,
    Instruction,
    Node,
    Outcome,
    PlainRound,
    RoundProtocol,
    SecureSum,
    Threads,
)
from voile.federation.arrays import shapes_of
from voile.federation.chain import link_before
from voile.federation.history import event_as_text
from voile.federation.round_protocol import AgreedTerms, RoundCall, RoundResult
from voile.federation.secure_aggregation import ActiveServer, HonestButCurious
from voile.federation.transport import NodeReply

EVENT = event_as_text(Pull().cost(40))
SHAPES = shapes_of(START)
AGREED = "agreed"
EVERYBODY = "abcdefghij"


def secret(model: Any, aggregator: Any) -> SecureSum:
    return SecureSum(model, identities(EVERYBODY), dict.fromkeys(EVERYBODY, 40), aggregator)


PROTOCOLS: dict[str, RoundProtocol] = {
    "plain, sum": PlainRound(FedAvg()),
    "plain, sum with memory": PlainRound(FedAdam()),
    "plain, single updates": PlainRound(CoordinateMedian()),
    "secret, curious server": secret(HonestButCurious(), FedAvg()),
    "secret, active server": secret(ActiveServer(), FedAvg()),
    "secret, with memory": secret(HonestButCurious(), FedAdam()),
}


@dataclass(frozen=True)
class Answers:
    """Moves every array by so much; or something else, as an update or a statement is changed."""

    by: float = 1.0
    changed: Mapping[str, Any] | None = None
    refuses: bool = False


def refusing(_: Any) -> Any:
    raise Refused("no")


def plain_node(name: str, answers: Answers) -> Any:
    def reply(instruction: Instruction) -> Any:
        arrays = {n: np.full_like(a, answers.by) for n, a in instruction.arrays.items()}
        fixed = {"arrays": arrays, "agreement": instruction.agreement}
        return honest(name, instruction, **(fixed | dict(answers.changed or {})))

    return Odd(name, refusing if answers.refuses else reply)


def secret_node(protocol: SecureSum, name: str, answers: Answers, asked: int) -> Any:
    task = Moves(by=answers.by)
    agreed = stage(task=task, protocol=protocol, clients_per_round=asked)
    node = Node(replace(client(name, task=task), agreement=AGREED), secure=member(agreed, name))
    if answers.refuses:
        return Falling(node, 1, refusing)
    if answers.changed is None:
        return node
    changed = answers.changed
    return Falling(node, 1, lambda a: replace(a, statement=replace(a.statement, **changed)))


def nodes_for(protocol: RoundProtocol, answers: Mapping[str, Answers]) -> list[Any]:
    if isinstance(protocol, SecureSum):
        asked = len(answers)
        return [secret_node(protocol, n, each, asked) for n, each in answers.items()]
    return [plain_node(name, each) for name, each in answers.items()]


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> RoundProtocol:
    return PROTOCOLS[request.param]


def call(names: Any, told: list[int] | None = None, memory: Any = None) -> RoundCall:
    tell = (lambda _: None) if told is None else told.append
    clients = {name: AgreedTerms(40, EVENT) for name in sorted(names)}
    instruction = Instruction("pull", 1, START, agreement=AGREED)
    previous = link_before(AGREED, "pull", ())
    return RoundCall(instruction, clients, 100.0, memory, tell, previous, signer("server"))


def run(
    protocol: RoundProtocol, answers: Mapping[str, Answers], told: list[int] | None = None
) -> RoundResult:
    memory = protocol.remembered(SHAPES)
    nodes = nodes_for(protocol, answers)
    return protocol.run(call(answers, told, memory), Threads(nodes).exchange)


def same(first: Any, second: Any, tolerance: float = 0.0) -> bool:
    return set(first) == set(second) and all(
        np.allclose(first[n], second[n], rtol=0, atol=tolerance) for n in first
    )


MOVES = (1.0, 3.0, 2.0, 1.5, 2.5, 0.5)
GOOD = {name: Answers(by) for name, by in zip("abcdef", MOVES, strict=True)}


def test_the_change_has_the_shapes_of_the_arrays(protocol: RoundProtocol) -> None:
    found = run(protocol, GOOD)
    assert found.change is not None
    assert shapes_of(found.change) == SHAPES
    assert all((array > 0).all() and array.dtype == np.float32 for array in found.change.values())


def test_who_cannot_be_used_is_left_out_by_name_and_kind(protocol: RoundProtocol) -> None:
    bad = {
        "g": Answers(refuses=True),
        "h": Answers(changed={"agreement": "another"}),
        "i": Answers(changed={"event": ""}),
        "j": Answers(changed={"account": "a\nb"}),
    }
    found, expected = run(protocol, {**GOOD, **bad}), run(protocol, GOOD)
    assert found.change is not None
    assert expected.change is not None
    # In secret the integers are coarser where more are asked.
    tolerance = 1e-4 if isinstance(protocol, SecureSum) else 0.0
    assert same(found.change, expected.change, tolerance)
    assert same(found.memory, expected.memory, tolerance)
    assert {name: heard.outcome for name, heard in found.heard.items()} == {
        **dict.fromkeys(GOOD, Outcome.ANSWERED),
        "g": Outcome.REFUSED,
        "h": Outcome.WRONG_SENDER,
        "i": Outcome.OTHER_COST,
        "j": Outcome.WRONG_TYPE,
    }
    assert list(found.heard) == sorted(found.heard)


def test_values_that_are_no_numbers_move_nothing(protocol: RoundProtocol) -> None:
    """In a plain round the update is left out; in secret its party counts them as zeros."""
    found = run(protocol, {**GOOD, "g": Answers(np.nan)})
    assert found.change is not None
    assert all(np.isfinite(array).all() for array in found.change.values())
    expected = Outcome.ANSWERED if isinstance(protocol, SecureSum) else Outcome.NOT_FINITE
    assert found.heard["g"].outcome is expected


def test_a_round_that_nobody_answers_changes_nothing(protocol: RoundProtocol) -> None:
    found = run(protocol, dict.fromkeys("abc", Answers(refuses=True)))
    assert found.change is None
    assert same(found.memory, protocol.remembered(SHAPES))


def test_it_tells_how_many_were_heard_of(protocol: RoundProtocol) -> None:
    told: list[int] = []
    run(protocol, {**GOOD, "b": Answers(refuses=True)}, told)
    assert told[-1] == len(GOOD)
    assert told == sorted(told)


def test_the_order_of_arrival_does_not_matter(protocol: RoundProtocol) -> None:
    answers = {"a": Answers(0.1), "b": Answers(3.7), "c": Answers(-2.3)}
    memory = protocol.remembered(SHAPES)

    def over(order: Callable[[Any], Iterator[NodeReply]]) -> Any:
        threads = Threads(nodes_for(protocol, answers))

        def exchange(messages: Mapping[str, Any]) -> Iterator[NodeReply]:
            return order(list(threads.exchange(messages)))

        return protocol.run(call("abc", memory=memory), exchange)

    first, second = over(iter), over(reversed)
    assert first.change is not None
    assert second.change is not None
    assert same(first.change, second.change)
    assert same(first.memory, second.memory)


def test_two_that_differ_read_differently() -> None:
    """The text is part of what a checkpoint must agree with."""
    assert len({repr(each) for each in PROTOCOLS.values()}) == len(PROTOCOLS)
    assert repr(PlainRound(FedAdam(rate=0.1))) != repr(PlainRound(FedAdam(rate=0.2)))
