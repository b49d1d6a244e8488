"""What crosses the line between server and client, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tests.unit.federation.toys import START, Pull, client
from voile.core.errors import InvalidInput, Refused
from voile.federation import Instruction, Update, digest_of_arrays

WIRE: dict[str, Any] = {
    "stage": "pull",
    "round": 1,
    "arrays": START,
    "given": {},
    "agreement": "",
}


def test_an_instruction_is_read_from_exactly_its_fields() -> None:
    read = Instruction.read(WIRE)
    assert (read.stage, read.round, set(read.arrays)) == ("pull", 1, set(START))


@pytest.mark.parametrize(
    "extra",
    ["seed", "noise_multiplier", "path", "schema", "epsilon", "budget", "records", "size", "task"],
)
def test_a_message_with_anything_more_is_refused(extra: str) -> None:
    with pytest.raises(InvalidInput, match=f"not accepted .*{extra}"):
        Instruction.read({**WIRE, extra: 1})
    with pytest.raises(TypeError):
        Instruction(**{**WIRE, extra: 1})


@pytest.mark.parametrize("field", WIRE)
def test_a_message_with_anything_less_is_refused(field: str) -> None:
    with pytest.raises(InvalidInput, match="missing"):
        Instruction.read({name: value for name, value in WIRE.items() if name != field})


@pytest.mark.parametrize("wire", [None, [], "stage", 3])
def test_a_message_that_is_no_mapping_is_refused(wire: Any) -> None:
    with pytest.raises(InvalidInput, match="exactly the fields"):
        Instruction.read(wire)


@dataclass(frozen=True, eq=False)
class WithSeed(Instruction):
    """What a server would send to choose a client's noise."""

    seed: int = 0


def test_a_client_takes_no_message_with_further_fields() -> None:
    with pytest.raises(InvalidInput, match="nothing more"):
        client("a").answer(WithSeed("pull", 1, START, seed=7))


def obeys_the_server(instruction: Any) -> Any:
    """The mutant: noise from the server's seed where one is sent."""
    seed = getattr(instruction, "seed", None)
    node = client("a", seed=1 if seed is None else seed)
    task: Any = node.tasks["pull"]
    return task.fit(instruction, node.records, node.size, node.sources.source("a", "pull", 1))


def test_no_message_changes_the_noise() -> None:
    """Every message the client accepts gives the same draw; the mutant's draw follows the seed."""
    drawn = {client("a", seed=5).answer(Instruction("pull", 1, START)).arrays["vector"].tobytes()}
    for seed in range(3):
        try:
            answer = client("a", seed=5).answer(WithSeed("pull", 1, START, seed=seed))
        except InvalidInput:
            continue
        drawn.add(answer.arrays["vector"].tobytes())
    assert len(drawn) == 1
    mutated = {
        obeys_the_server(WithSeed("pull", 1, START, seed=seed)).change["vector"].tobytes()
        for seed in range(3)
    }
    assert len(mutated) == 3


def test_an_update_has_no_weight() -> None:
    """Weights follow from declared sizes: a client cannot send one, drawn or otherwise."""
    wire = {"client": "a", "stage": "pull", "round": 1, "arrays": START, "resent": False}
    wire |= {"event": "", "account": None, "note": None, "agreement": ""}
    assert Update.read(wire).client == "a"
    with pytest.raises(InvalidInput, match=r"not accepted .*weight"):
        Update.read({**wire, "weight": 3.0})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stage": ""}, "printable"),
        ({"stage": "a\nb"}, "printable"),
        ({"stage": 3}, "printable"),
        ({"round": 0}, "counted from 1"),
        ({"round": True}, "counted from 1"),
        ({"round": 1.0}, "counted from 1"),
        ({"arrays": [1]}, "mapping"),
        ({"arrays": {"x": [1.0]}}, "numpy arrays"),
        ({"arrays": {"x": np.zeros(2)}}, "float32"),
        ({"arrays": {"x": np.array([np.nan], dtype=np.float32)}}, "not finite"),
        ({"given": {"x": np.array([np.inf], dtype=np.float32)}}, "not finite"),
    ],
)
def test_unsound_instructions_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Instruction(**{**WIRE, **changes})


def test_arrays_of_an_instruction_cannot_be_written_to_nor_reached_from_outside() -> None:
    mine = {"x": np.zeros(2, dtype=np.float32)}
    message = Instruction("pull", 1, mine)
    mine["x"][0] = 5
    assert message.arrays["x"][0] == 0
    with pytest.raises(ValueError, match="read-only"):
        message.arrays["x"][0] = 1


def test_digests_tell_names_shapes_and_bits_apart() -> None:
    one = np.arange(4, dtype=np.float32)
    different: list[dict[str, Any]] = [
        {"x": one},
        {"y": one},
        {"x": one.reshape(2, 2)},
        {"x": one.reshape(4, 1)},
        {"x": np.nextafter(one, np.float32(9))},
        {"x": one, "y": one},
        {"x": one[:2], "y": one[2:]},
    ]
    assert len({digest_of_arrays(arrays) for arrays in different}) == len(different)
    assert digest_of_arrays({"b": one, "a": one}) == digest_of_arrays({"a": one, "b": one})


# --- the client -----------------------------------------------------------------------------------


def test_an_unknown_stage_is_refused_whatever_its_name() -> None:
    with pytest.raises(Refused, match="not set up"):
        client("a").answer(Instruction("../../etc", 1, START))


def test_arrays_of_other_shapes_are_refused_before_anything_is_charged() -> None:
    node = client("a")
    with pytest.raises(InvalidInput, match="shapes"):
        node.answer(Instruction("pull", 1, {"vector": np.zeros(4, dtype=np.float32)}))
    assert not node.guard.participations  # type: ignore[attr-defined]


def test_a_task_that_spends_more_than_was_charged_sends_nothing() -> None:
    from voile.privacy.events import Gaussian

    node = client("a", task=Pull(spent=Gaussian(0.1)))
    with pytest.raises(Refused, match=r"where .* was charged"):
        node.answer(Instruction("pull", 1, START))


@pytest.mark.parametrize("size", [0, -1, True, 2.0, "3"])
def test_a_declared_size_is_a_number_of_records(size: Any) -> None:
    with pytest.raises(InvalidInput, match="declare"):
        client("a", size=size, records=np.zeros((1, 3)))


def test_rows_and_tasks_stay_out_of_the_representation() -> None:
    node = client("a", records=np.full((40, 3), 0.123456))
    assert "0.123" not in repr(node)
