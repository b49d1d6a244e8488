"""The signed chain of rounds: what was shown to one party cannot be denied before another."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.unit.federation.secret_toys import (
    NAMES,
    rounds_in_secret,
    secret_node,
    secret_nodes,
    secret_stage,
)
from tests.unit.federation.secure_aggregation.parties import identities, refusal, signer
from tests.unit.federation.test_secure_sum import beginning, call_of
from tests.unit.federation.toys import START
from voile.core.errors import Refused
from voile.federation import KeptRounds, Outcome
from voile.federation.chain import first_link, link_before, next_link
from voile.federation.secure_aggregation import AttemptStep
from voile.federation.secure_aggregation.signed import SERVER, encode, signed
from voile.federation.secure_sum import begin


def kept(node: Any) -> KeptRounds:
    found = node.secure.chain
    assert isinstance(found, KeptRounds)
    return found


def test_all_parties_keep_the_same_links_each_signed_by_the_server() -> None:
    agreed = secret_stage()
    nodes = secret_nodes(agreed)
    rounds_in_secret(agreed, nodes).run(agreed, START)
    chains = [[(each.round, each.link) for each in kept(node).announced] for node in nodes]
    assert [number for number, _ in chains[0]] == [1, 2]
    assert all(chain == chains[0] for chain in chains)
    key = identities(NAMES)["server"]
    first, second = kept(nodes[0]).announced
    assert second.previous == first.link
    for each in (first, second):
        each.verify(key)
        with pytest.raises(Refused, match="the server"):
            replace(each, link="00" * 32).verify(key)


def test_a_server_that_goes_on_from_a_checkpoint_goes_on_with_the_chain(tmp_path: Any) -> None:
    agreed = secret_stage()
    nodes = secret_nodes(agreed)
    rounds_in_secret(agreed, nodes, checkpoints=tmp_path).run(agreed, START)
    (tmp_path / "pull.2.safetensors").unlink()
    again = secret_nodes(agreed)
    rounds_in_secret(agreed, again, checkpoints=tmp_path).run(agreed, START)
    (second,) = kept(again[0]).announced
    assert (second.round, second.link) == (2, kept(nodes[0]).announced[1].link)


def test_other_arrays_for_a_round_that_was_begun_are_refused_and_kept() -> None:
    agreed = secret_stage()
    node = secret_node(agreed, "ash")
    node.handle(beginning(agreed))
    moved = {name: array + np.float32(1) for name, array in START.items()}
    call = call_of(agreed)
    other = begin(replace(call, instruction=replace(call.instruction, arrays=moved)), "a2", NAMES)
    assert "with other arrays" in refusal(node.handle, other)
    links = {each.link for each in kept(node).announced}
    assert len(links) == 2  # both signatures of the server: that is the evidence


def test_parties_that_are_given_other_arrays_hold_other_links() -> None:
    """What is given besides the trained arrays is shown, too: a split there is seen as well."""
    agreed = secret_stage()
    nodes = secret_nodes(agreed)[:2]
    call = call_of(agreed)
    for node, by in zip(nodes, (1, 2), strict=True):
        given = {"black box": np.full(3, by, dtype=np.float32)}
        shown = replace(call, instruction=replace(call.instruction, given=given))
        node.handle(begin(shown, "a1", NAMES))
    first, second = (kept(node).announced[-1] for node in nodes)
    assert first.link != second.link


def test_those_who_were_shown_something_else_are_never_in_one_sum() -> None:
    """Whatever a server passes around: keys that were advertised for other arrays are refused."""
    agreed = secret_stage()
    call = call_of(agreed)
    for odd, refused in ((0, False), (1, True)):
        nodes, adverts = secret_nodes(agreed), {}
        for place, node in enumerate(nodes):
            given = {"black box": np.full(3, odd if place == 0 else 0, dtype=np.float32)}
            shown = replace(call, instruction=replace(call.instruction, given=given))
            adverts[node.name] = node.handle(begin(shown, "a1", NAMES)).advert
        listed = encode(
            [part for n, m in adverts.items() for part in (n.encode(), m.body, m.signature)]
        )
        for node in nodes:
            attempt, name = adverts[node.name].attempt, node.name
            message = signed(attempt, AttemptStep.SHARE, SERVER, name, listed, signer(SERVER))
            if refused:
                assert "is not signed by" in refusal(node.handle, message)
            else:
                assert node.handle(message).step is AttemptStep.SHARE


def test_given_arrays_are_in_the_chain_that_a_server_goes_on_with() -> None:
    agreed = secret_stage()
    nodes = secret_nodes(agreed)
    given = {"black box": np.ones(3, dtype=np.float32)}
    found = rounds_in_secret(agreed, nodes).run(agreed, START, given=given)
    assert {row.outcome for row in found.rows} == {Outcome.ANSWERED}


@pytest.mark.parametrize("number", [1, 2])
def test_a_round_that_is_chained_to_another_history_is_refused(number: int) -> None:
    agreed = secret_stage()
    node = secret_node(agreed, "ash")
    if number == 2:
        node.handle(beginning(agreed))
    message = beginning(agreed, previous="ab" * 32, number=number)
    assert "another history" in refusal(node.handle, message)


def test_who_was_not_shown_the_round_before_takes_part_and_keeps_what_it_is_shown() -> None:
    agreed = secret_stage()
    node = secret_node(agreed, "ash")
    node.handle(beginning(agreed, previous="ab" * 32, number=2))
    assert [each.previous for each in kept(node).announced] == ["ab" * 32]


def test_links_tell_agreements_stages_rounds_and_arrays_apart() -> None:
    links = {
        first_link("a", "s"),
        first_link("b", "s"),
        first_link("a", "t"),
        next_link(first_link("a", "s"), 1, "x"),
        next_link(first_link("a", "s"), 2, "x"),
        next_link(first_link("a", "s"), 1, "y"),
        link_before("a", "s", ["x", "y"]),
        link_before("a", "s", ["y", "x"]),
    }
    assert len(links) == 8
    assert link_before("a", "s", []) == first_link("a", "s")


def test_a_split_history_is_refused_by_whoever_took_part_before() -> None:
    """A server that shows one party other arrays in round 2 has signed two histories."""
    agreed = secret_stage()
    nodes = secret_nodes(agreed)
    found = rounds_in_secret(agreed, nodes).run(replace(agreed, rounds=1), START)
    assert {row.outcome for row in found.rows} == {Outcome.ANSWERED}
    link = kept(nodes[0]).announced[0].link
    call = call_of(agreed, previous=link, number=2)
    shown = [
        replace(call.instruction, arrays={n: a + np.float32(by) for n, a in START.items()})
        for by in (1, 2)
    ]
    for node, instruction in zip(nodes, shown, strict=False):
        node.handle(begin(replace(call, instruction=instruction), "a1", NAMES))
    first, second = (kept(node).announced[-1] for node in nodes[:2])
    assert (first.round, first.previous) == (second.round, second.previous)
    assert first.link != second.link
