"""Rounds that are added up in secret: over real nodes, with whoever falls out at whatever step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.rounds import ListedRounds
from tests.unit.federation.secret_toys import (
    AGREED,
    NAMES,
    Falling,
    Moves,
    member,
    protocol,
    rounds_in_secret,
    secret_node,
    secret_nodes,
    secret_stage,
)
from tests.unit.federation.secure_aggregation.parties import refusal, signer
from tests.unit.federation.toys import START, client, stage
from voile.core.errors import InvalidInput, Refused
from voile.federation import (
    Advertised,
    CoordinateMedian,
    CountingGuard,
    FedAvg,
    Instruction,
    Krum,
    Node,
    Outcome,
    PlainRound,
    Rounds,
    SecureInstruction,
    SecureSum,
    Threads,
    TrimmedMean,
    Update,
    charged,
    digest_of_arrays,
)
from voile.federation.chain import link_before
from voile.federation.round_protocol import AgreedTerms, RoundCall
from voile.federation.secure_aggregation import ActiveServer, HonestButCurious, SignedMessage
from voile.federation.secure_sum import begin

MODELS: list[Any] = [HonestButCurious(), ActiveServer()]


def plainly(agreed: Any, names: Any = NAMES) -> Any:
    """The same updates in a plain round."""
    sizes = agreed.protocol.sizes
    nodes = [Node(client(name, sizes[name], task=agreed.task)) for name in names]
    plain = replace(agreed, protocol=PlainRound(FedAvg()), clients_per_round=len(names))
    return Rounds(Threads(nodes), {name: sizes[name] for name in names}).run(plain, START)


def close(found: Any, expected: Any, tolerance: float) -> bool:
    return all(np.abs(found[n] - expected[n]).max() <= tolerance for n in expected)


@pytest.mark.parametrize("model", MODELS, ids=["curious", "active"])
def test_the_arrays_are_those_of_a_plain_round_up_to_rounding(model: Any) -> None:
    agreed = secret_stage(model=model)
    found = rounds_in_secret(agreed, secret_nodes(agreed)).run(agreed, START)
    error = agreed.protocol.rounding_error(5, agreed.largest_change)  # type: ignore[attr-defined]
    assert 0 < error < 1e-6 * agreed.largest_change
    assert close(found.arrays, plainly(agreed).arrays, 2 * error + 1e-6)
    assert {row.outcome for row in found.rows} == {Outcome.ANSWERED}


def test_the_same_updates_give_the_same_bits() -> None:
    agreed = secret_stage()
    digests = {
        digest_of_arrays(
            Rounds(
                Threads(secret_nodes(agreed), at_once=at_once),
                agreed.protocol.sizes,  # type: ignore[attr-defined]
                agreement=AGREED,
                sign=signer("server"),
            )
            .run(agreed, START)
            .arrays
        )
        for at_once in (1, 3)
    }
    assert len(digests) == 1


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_whoever_falls_out_the_mean_is_that_of_the_survivors_or_nothing_moves(data: Any) -> None:
    model = data.draw(st.sampled_from(MODELS))
    agreed = secret_stage(model=model, rounds=1, task=Moves())
    steps = 6 if model.signs_survivors else 5
    falls = {
        name: data.draw(st.integers(1, steps), label=name)
        for name in data.draw(st.sets(st.sampled_from(NAMES), max_size=3))
    }
    # Everybody moves by another amount, so a wrong set of survivors shows.
    by = {name: float(2**place) for place, name in enumerate(NAMES)}
    nodes = [
        Node(
            replace(
                client(name, agreed.protocol.sizes[name], task=Moves(by=by[name])),  # type: ignore[attr-defined]
                agreement=AGREED,
            ),
            secure=member(agreed, name),
        )
        for name in NAMES
    ]
    asked = [Falling(n, falls[n.name]) if n.name in falls else n for n in nodes]
    found = rounds_in_secret(agreed, asked).run(agreed, START)
    counted = [row.client for row in found.rows if row.outcome.counts]
    moved = found.arrays["vector"] - START["vector"]
    if not counted:
        assert not moved.any()
        assert len(falls) > 1
        return
    sizes = agreed.protocol.sizes  # type: ignore[attr-defined]
    mean = sum(sizes[n] * by[n] for n in counted) / sum(sizes[n] for n in counted)
    assert np.allclose(moved, mean, rtol=0, atol=1e-4)
    # Asked to begin, for shares and for the vector: who falls out after that is in the sum.
    assert set(counted) == {n for n in NAMES if falls.get(n, steps) >= 4}


@pytest.mark.parametrize("aggregator", [CoordinateMedian(), TrimmedMean(), Krum(1)])
def test_aggregators_that_have_to_see_updates_are_refused(aggregator: Any) -> None:
    with pytest.raises(Refused, match="every single update"):
        protocol(aggregator=aggregator)


def test_thresholds_and_room_are_checked_when_a_stage_is_put_together() -> None:
    with pytest.raises(Refused, match="must survive"):
        secret_stage(model=HonestButCurious(threshold=2))
    with pytest.raises(Refused, match="must survive"):
        secret_stage(model=ActiveServer(), clients_per_round=1)
    with pytest.raises(InvalidInput, match="has a key"):
        SecureSum(HonestButCurious(), {}, {"ash": 3})


def test_no_set_of_parties_errs_more_than_is_said() -> None:
    """Light parties are asked where 32 bits are too coarse for them, and fine for the heaviest."""
    for asked, heavy in ((2300, 7), (2600, 3), (3000, 2), (4000, 5)):
        names = [f"p{place:05}" for place in range(2 * asked)]
        sizes = {name: heavy if place < asked else 1 for place, name in enumerate(names)}
        keys = dict.fromkeys((*names, "server"), bytes(32))
        found = SecureSum(HonestButCurious(), keys, sizes)
        said, least = found.rounding_error(asked, 1.0), found.model.threshold_of(asked)
        for some in (names[:asked], names[asked:], names[asked // 2 : asked // 2 + asked]):
            weights = sorted(map(found.weight, some))[:least]
            assert found.quantisation(some, 1.0).error_of_mean(weights) <= said


@pytest.mark.parametrize("size", [10**400, 2**53 + 1, 0, True, 1.5])
def test_sizes_that_are_no_weights_are_refused(size: Any) -> None:
    keys = dict.fromkeys(("ash", "beech", "cedar", "server"), bytes(32))
    with pytest.raises(InvalidInput, match="'ash' must declare"):
        SecureSum(HonestButCurious(), keys, {"ash": size, "beech": 3, "cedar": 3})


@pytest.mark.parametrize("name", ["\ud800", "\u00e9" * 100, "a" * 201, "", "../a"])
def test_names_of_attempts_that_are_none_are_refused(name: str, tmp_path: Path) -> None:
    agreed = secret_stage()
    message = replace(beginning(agreed), attempt=name)
    assert "letters and digits" in refusal(secret_node(agreed, "ash", tmp_path).handle, message)


def test_a_server_without_a_key_runs_no_secure_sum() -> None:
    agreed = secret_stage()
    with pytest.raises(InvalidInput, match="signs"):
        rounds_in_secret(agreed, secret_nodes(agreed), sign=None).run(agreed, START)


def test_it_reads_differently_with_another_model_or_other_keys() -> None:
    """The text is part of what a checkpoint must agree with."""
    texts = [repr(protocol(model=model)) for model in MODELS]
    texts += [repr(protocol(NAMES[:4])), repr(protocol())]
    assert len(set(texts)) == 3


# --- what a node takes, and what leaves it --------------------------------------------------------


def call_of(agreed: Any, previous: str | None = None, number: int = 1, **changes: Any) -> Any:
    first = link_before(AGREED, "pull", ()) if previous is None else previous
    made = Instruction("pull", number, START, agreement=AGREED)
    sizes = agreed.protocol.sizes
    clients = {name: AgreedTerms(size, "") for name, size in sizes.items()}
    sign = changes.pop("sign", signer("server"))
    assert not changes
    return RoundCall(made, clients, agreed.largest_change, {}, lambda _: None, first, sign)


def beginning(agreed: Any, attempt: str = "a1", **changes: Any) -> SecureInstruction:
    return begin(call_of(agreed, **changes), attempt, tuple(agreed.protocol.sizes))


def test_no_array_of_an_update_leaves_a_node() -> None:
    agreed = secret_stage(rounds=1)
    nodes = secret_nodes(agreed)
    watched = [Falling(node, 9) for node in nodes]
    rounds_in_secret(agreed, watched).run(agreed, START)
    answer = secret_node(agreed, "ash").handle(beginning(agreed))
    assert isinstance(answer, Advertised)
    assert answer.statement.arrays == {}
    assert answer.statement.event
    kinds = [[type(message) for message in each.seen] for each in watched]
    assert {tuple(kind) for kind in kinds} == {(SecureInstruction, *(SignedMessage,) * 3)}


def test_a_secret_node_sends_no_update_by_itself_and_a_plain_one_takes_no_secret_message() -> None:
    agreed = secret_stage()
    asked = Instruction("pull", 1, START, agreement=AGREED)
    node = secret_node(agreed, "ash")
    with pytest.raises(InvalidInput, match="nothing more"):
        node.handle(asked)
    plain = Node(replace(client("ash"), agreement=AGREED))
    assert isinstance(plain.handle(asked), Update)
    with pytest.raises(InvalidInput, match="nothing more"):
        plain.handle(beginning(agreed))


@dataclass(frozen=True, eq=False)
class WithBudget(SecureInstruction):
    """What a server would send to spend more."""

    epsilon: float = 9.0


def changed_instruction(message: SecureInstruction, **changes: Any) -> SecureInstruction:
    return replace(message, instruction=replace(message.instruction, **changes))


MOVED = {name: array + 1 for name, array in START.items()}


@pytest.mark.parametrize(
    "change",
    [
        lambda m: WithBudget(**vars(m)),
        lambda m: replace(m, attempt="a2"),
        lambda m: replace(m, asked=m.asked[:-1]),
        lambda m: replace(m, previous="00" * 32),
        lambda m: replace(m, signature=bytes(64)),
        lambda m: replace(m, signature=None),
        lambda m: replace(m, attempt=7),
        lambda m: replace(m, asked=list(m.asked)),
        lambda m: replace(m, instruction=None),
        lambda m: changed_instruction(m, arrays=MOVED),
        lambda m: changed_instruction(m, given=MOVED),
        lambda m: changed_instruction(m, round=2),
        lambda m: changed_instruction(m, agreement="4f" * 32),
        lambda m: changed_instruction(m, stage="other"),
    ],
)
def test_an_instruction_that_the_server_did_not_sign_like_that_costs_nothing(change: Any) -> None:
    agreed = secret_stage()
    node = secret_node(agreed, "ash")
    with pytest.raises((Refused, InvalidInput)):
        node.handle(change(beginning(agreed)))
    assert not node.client.guard.participations  # type: ignore[attr-defined]


def test_a_server_cannot_ask_fewer_than_was_agreed_on() -> None:
    agreed = secret_stage()
    node = secret_node(agreed, "ash")
    message = begin(call_of(agreed), "a1", NAMES[:3])
    assert "as agreed" in refusal(node.handle, message)


def test_a_server_cannot_ask_for_more_rounds_than_were_agreed_on() -> None:
    agreed = secret_stage(rounds=2)
    node = secret_node(agreed, "ash")
    message = beginning(agreed, previous="ab" * 32, number=3)
    assert "2 rounds" in refusal(node.handle, message)
    assert not node.client.guard.participations  # type: ignore[attr-defined]
    node.handle(beginning(agreed, previous="ab" * 32, number=2))


def test_another_servers_key_is_refused() -> None:
    agreed = secret_stage()
    message = beginning(agreed, sign=signer("another server"))
    assert "the server" in refusal(secret_node(agreed, "ash").handle, message)


def test_steps_without_an_attempt_are_refused() -> None:
    agreed = secret_stage(rounds=1)
    watched = [Falling(node, 9) for node in secret_nodes(agreed)]
    rounds_in_secret(agreed, watched).run(agreed, START)
    step = watched[0].seen[1]
    assert "no attempt" in refusal(secret_node(agreed, "ash").handle, step)
    assert "over" in refusal(watched[0].node.handle, watched[0].seen[-1])


# --- attempts -------------------------------------------------------------------------------------


def broken_off(agreed: Any, nodes: Any, after: int) -> None:
    """A server that is gone after so many exchanges."""

    class Gone(Exception):
        pass

    class Breaking(Threads):
        left = after

        def exchange(self, messages: Any, deadline: Any = None) -> Any:
            if not self.left:
                raise Gone
            self.left -= 1
            return super().exchange(messages, deadline)

    sizes = agreed.protocol.sizes
    with pytest.raises(Gone):
        Rounds(Breaking(nodes), sizes, agreement=AGREED, sign=signer("server")).run(agreed, START)


@pytest.mark.parametrize("after", [1, 2, 3])
def test_a_server_that_breaks_off_before_unmasking_begins_again_with_new_keys(
    after: int, tmp_path: Path
) -> None:
    agreed = secret_stage(rounds=1)
    watched = [Falling(node, 99) for node in secret_nodes(agreed, tmp_path, seed=None)]
    broken_off(agreed, watched, after)
    found = rounds_in_secret(agreed, watched).run(agreed, START)
    assert {row.outcome for row in found.rows} == {Outcome.RESENT}  # the stored update
    began = [m for m in watched[0].seen if isinstance(m, SecureInstruction)]
    assert len({m.attempt for m in began}) == 2


def test_complete_crash_repeat_without_one_party_is_not_unmasked(tmp_path: Path) -> None:
    """The server forgets the sum: the round is over, and its arrays stay as they are."""
    agreed = secret_stage(rounds=1)
    books = CountingGuard(9)
    first = rounds_in_secret(agreed, secret_nodes(agreed, tmp_path, guard=books))
    assert any(row.outcome.counts for row in first.run(agreed, START).rows)
    again = secret_nodes(agreed, tmp_path, guard=books)  # new processes over the same disks
    nodes = [Falling(again[0], 3), *again[1:]]
    found = rounds_in_secret(agreed, nodes).run(agreed, START)
    assert all("have left for one attempt" in str(each.error) for each in found.errors)
    assert digest_of_arrays(found.arrays) == digest_of_arrays(START)
    assert {row.outcome for row in found.rows} == {Outcome.OVER}
    assert set(charged(found.rows)) == set(NAMES)  # and opened: the sum that was forgotten


def test_two_stores_of_one_folder_grant_one_attempt(tmp_path: Path) -> None:
    """Two processes of one party: only one of them reveals."""
    agreed = secret_stage(rounds=1)
    books = CountingGuard(9)
    names = secret_nodes(agreed, tmp_path, guard=books)
    twin = secret_node(agreed, "ash", tmp_path, guard=books)
    twin.handle(beginning(agreed))
    rounds_in_secret(agreed, names).run(agreed, START)
    assert "have left for one attempt" in refusal(twin.handle, beginning(agreed, "a2"))


def test_a_failed_sum_is_told_and_the_next_round_goes_on(tmp_path: Path) -> None:
    agreed = secret_stage(rounds=2)
    nodes = secret_nodes(agreed, tmp_path)
    falling = [Falling(nodes[0], 2), Falling(nodes[1], 2), Falling(nodes[2], 2), *nodes[3:]]
    log = ListedRounds()
    found = rounds_in_secret(agreed, falling, log=log).run(agreed, START)
    assert not any(report.changed for report in log.reports)
    outcomes = {row.client: row.outcome for row in found.rows if row.round == 1}
    assert outcomes == {
        "ash": Outcome.VANISHED,
        "beech": Outcome.VANISHED,
        "cedar": Outcome.VANISHED,
        "elm": Outcome.UNSUMMED,
        "fir": Outcome.UNSUMMED,
    }


def test_who_refuses_a_later_step_has_trained_and_counts_as_charged() -> None:
    """A refusal before anything was trained is free; this one is not."""

    def refusing(_: Any) -> Any:
        raise Refused("no further")

    agreed = secret_stage((*NAMES, "oak", "yew"), rounds=1)
    nodes = secret_nodes(agreed)
    members = [Falling(nodes[0], 2, refusing), Falling(nodes[1], 1, refusing), *nodes[2:]]
    found = rounds_in_secret(agreed, members).run(agreed, START)
    outcomes = {row.client: row.outcome for row in found.rows}
    assert (outcomes["ash"], outcomes["beech"]) == (Outcome.UNSUMMED, Outcome.REFUSED)
    assert outcomes["cedar"] is Outcome.ANSWERED
    assert "ash" in charged(found.rows)
    assert "beech" not in charged(found.rows)


def test_an_answer_of_another_kind_is_left_out() -> None:
    agreed = secret_stage((*NAMES, "oak", "yew"), rounds=1)
    nodes = secret_nodes(agreed)
    with_arrays = Falling(
        nodes[0], 1, lambda a: replace(a, statement=replace(a.statement, arrays=START))
    )
    plain = Falling(nodes[1], 1, lambda a: a.statement)
    found = rounds_in_secret(agreed, [with_arrays, plain, *nodes[2:]]).run(agreed, START)
    outcomes = {row.client: row.outcome for row in found.rows}
    assert (outcomes["ash"], outcomes["beech"]) == (Outcome.WRONG_SHAPE, Outcome.WRONG_TYPE)
    assert outcomes["fir"] is Outcome.ANSWERED


def test_a_party_that_adds_more_than_an_update_holds_spoils_the_round_and_not_the_arrays() -> None:
    agreed = secret_stage(rounds=1)
    nodes = secret_nodes(agreed)
    sound = nodes[0].secure.begin

    def cheating(*given: Any) -> Any:
        found = sound(*given)
        attempt = nodes[0].secure._running
        attempt._vector = attempt._vector + np.uint32(2**31)
        return found

    nodes[0].secure.begin = cheating
    found = rounds_in_secret(agreed, nodes).run(agreed, START)
    assert digest_of_arrays(found.arrays) == digest_of_arrays(START)
    assert {row.outcome for row in found.rows} == {Outcome.UNSUMMED}


def test_a_stage_with_a_plain_protocol_is_not_added_up_in_secret() -> None:
    agreed = secret_stage()
    node = secret_node(agreed, "ash")
    assert node.secure is not None
    node.secure.stages = {"pull": stage()}
    assert "has not agreed" in refusal(node.handle, beginning(agreed))
