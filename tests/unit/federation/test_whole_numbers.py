"""Sums of whole numbers are exact, in the clear and in secret, whatever order they come in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.federation.secret_toys import NAMES, protocol, rounds_in_secret, secret_nodes
from tests.unit.federation.toys import START, Odd, client, honest, rounds_over, stage
from voile.core.errors import InvalidInput
from voile.core.randomness import GeneratorSource
from voile.federation import (
    Arrays,
    FedAvg,
    FitResult,
    Instruction,
    Outcome,
    PlainRound,
    Stage,
    Unprotected,
    Update,
    WholeSum,
    digest_of_arrays,
)
from voile.federation.history import event_as_text
from voile.federation.secure_aggregation.quantisation import WholeNumbers
from voile.federation.wire import from_bytes, to_bytes
from voile.privacy.events import Gaussian

WHOLE: dict[str, Any] = {"counts": np.zeros((2, 2), dtype=np.int64)}
EVENT = Gaussian(2.0)
HUGE = 2**60 + 1


@dataclass(frozen=True)
class Counts:
    """Sends its records, which are whole numbers."""

    shape: tuple[int, ...] = (2, 2)

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return {"counts": self.shape}

    def cost(self, size: int) -> Gaussian:  # noqa: ARG002
        return EVENT

    def fit(
        self,
        instruction: Instruction,  # noqa: ARG002
        records: Any,
        size: int,  # noqa: ARG002
        source: GeneratorSource,  # noqa: ARG002
    ) -> FitResult:
        return FitResult({"counts": records}, EVENT)

    def evaluate(self, arrays: Arrays, given: Arrays, rows: Unprotected) -> Mapping[str, float]:  # noqa: ARG002
        return {}


def counting(largest: float = 2.0**61, clients: int = 3, **changes: Any) -> Stage:
    fixed: dict[str, Any] = {"task": Counts(), "rounds": 1, "clients_per_round": clients}
    summed = {"protocol": PlainRound(WholeSum()), "largest_change": largest}
    return stage(**(fixed | summed | changes))


def counter(name: str, numbers: Any, **changes: Any) -> Any:
    records = np.array(numbers, dtype=np.int64).reshape(2, 2)
    return client(name, task=Counts(), records=records, **changes)


def test_a_sum_beyond_what_floats_can_hold_is_exact_in_any_order() -> None:
    numbers = {"ash": [HUGE, 1, -HUGE, 3], "beech": [-1, 2, HUGE, 4], "cedar": [2, 3, 1, -7]}
    for order in (sorted(numbers), sorted(numbers, reverse=True)):
        clients = [counter(name, numbers[name]) for name in order]
        found = rounds_over(clients).run(counting(), WHOLE).arrays["counts"]
        assert found.dtype == np.int64
        assert found.tolist() == [[HUGE + 1, 6], [1, 0]]


def test_only_a_sum_of_whole_numbers_takes_them() -> None:
    clients = [counter(name, [1, 2, 3, 4]) for name in NAMES[:3]]
    averaged = counting(protocol=PlainRound(FedAvg()), largest_change=100.0)
    with pytest.raises(InvalidInput, match="WholeSum"):
        rounds_over(clients).run(averaged, WHOLE)
    with pytest.raises(InvalidInput, match="int64"):
        WholeSum().from_sum({"vector": np.zeros(3)}, 1.0, {})


def test_sums_that_64_bits_could_not_hold_are_refused_when_a_stage_is_made() -> None:
    for summed in (PlainRound(WholeSum()), replace(protocol(), aggregator=WholeSum())):
        counting(2.0**60, clients=5, protocol=summed)
        with pytest.raises(InvalidInput, match="64 bits"):
            counting(2.0**61, clients=5, protocol=summed)


@pytest.mark.parametrize(
    ("wrong", "outcome"),
    [
        (np.ones((2, 2), dtype=np.float32), Outcome.WRONG_TYPE),
        (np.ones((2, 2), dtype=np.int32), Outcome.WRONG_TYPE),
        (np.ones((2, 3), dtype=np.int64), Outcome.WRONG_SHAPE),
        (np.full((2, 2), 101, dtype=np.int64), Outcome.TOO_LARGE),
        (np.full((2, 2), -(2**63), dtype=np.int64), Outcome.TOO_LARGE),
    ],
)
def test_what_is_no_whole_number_of_the_size_agreed_on_is_left_out(
    wrong: Any, outcome: Outcome
) -> None:
    def reply(instruction: Instruction) -> Update:
        return honest("odd", instruction, arrays={"counts": wrong}, event=event_as_text(EVENT))

    clients = [counter("ash", [1, 2, 3, 4]), counter("beech", [1, 1, 1, 100]), Odd("odd", reply)]
    found = rounds_over(clients).run(counting(100.0), WHOLE)
    assert {row.client: row.outcome for row in found.rows}["odd"] is outcome
    assert found.arrays["counts"].tolist() == [[2, 3], [4, 104]]


@pytest.mark.parametrize("largest", [1000.0, 2.0**50])
def test_in_secret_the_sum_is_the_same_to_the_last_unit(largest: float, tmp_path: Path) -> None:
    """Nothing is rounded, weighted by sizes, or clipped; in 32 bits and in 64."""
    agreed = counting(largest, clients=5, protocol=replace(protocol(), aggregator=WholeSum()))
    draw = np.random.default_rng(5)
    most = int(largest) - 1
    numbers = {name: draw.integers(-most, most, (2, 2)) for name in NAMES}
    nodes = secret_nodes(agreed, tmp_path)
    for node in nodes:
        object.__setattr__(node.client, "records", numbers[node.name])
    found = rounds_in_secret(agreed, nodes).run(agreed, WHOLE)
    assert (found.arrays["counts"] == sum(numbers.values())).all()
    again = rounds_in_secret(agreed, nodes).run(agreed, WHOLE)  # a second attempt is refused
    assert not any(row.outcome.counts for row in again.rows)


@pytest.mark.parametrize(("bound", "width"), [(2.0**30, 32), (2.0**31, 64), (2.0**60, 64)])
def test_words_are_as_wide_as_the_sum_needs(bound: float, width: int) -> None:
    words = WholeNumbers(bound, parties=1)
    numbers = np.array([-int(bound) + 1, -1, 0, 1, int(bound) - 1])
    assert words.width == width
    assert (words.from_words(words.to_words(numbers, 1.0)) == numbers).all()
    assert words.within(words.to_words(numbers, 1.0), [1.0])
    # What wraps around is told apart from what fits only by its size: nothing raises.
    outside = words.to_words(np.array([2**width - 5], dtype=object).astype(np.uint64), 1.0)
    assert words.from_words(outside).tolist() == [-5]


def test_a_sum_that_no_parties_can_have_made_is_thrown_away() -> None:
    words = WholeNumbers(10.0, parties=3)
    assert words.within(words.to_words(np.array([30, -30]), 1.0), [1.0] * 3)
    assert not words.within(words.to_words(np.array([31]), 1.0), [1.0] * 3)


def test_digests_of_float_arrays_never_change_and_whole_ones_differ() -> None:
    stored = "4d24323e"
    assert digest_of_arrays(START)[:8] == stored
    whole = {"vector": np.zeros(3, dtype=np.int64)}
    narrow = {"vector": np.zeros(3, dtype=np.float32)}
    assert digest_of_arrays(whole) != digest_of_arrays(narrow)
    twice = {"vector": np.zeros(6, dtype=np.float32)}  # as many bytes
    assert digest_of_arrays(whole) != digest_of_arrays(twice)


def test_whole_numbers_cross_the_wire_bit_for_bit() -> None:
    sent = Instruction("count", 1, WHOLE, {"x": np.array([HUGE, -HUGE]), **START})
    found = from_bytes(to_bytes(sent))
    assert isinstance(found, Instruction)
    for name, array in sent.given.items():
        assert found.given[name].dtype == array.dtype
        assert (found.given[name] == array).all()
    assert found.arrays["counts"].dtype == np.int64


@pytest.mark.parametrize("shape", [b'{"int32": [2, 2]}', b'{"int64": [2, 3]}', b'{"int64": 4}'])
def test_other_kinds_of_numbers_are_no_message(shape: bytes) -> None:
    content = to_bytes(Instruction("count", 1, WHOLE))
    forged = content.replace(b'{"int64": [2, 2]}', shape)
    header = len(content) - len(forged)
    assert forged != content
    if header:  # the header says how long it is
        at = content.index(b'{"agreement"')
        length = int.from_bytes(content[at - 8 : at], "big") - header
        forged = forged[: at - 8] + length.to_bytes(8, "big") + forged[at:]
    with pytest.raises(InvalidInput):
        from_bytes(forged)


def test_a_stored_update_of_whole_numbers_is_sent_again_bit_for_bit(tmp_path: Path) -> None:
    one = counter("ash", [HUGE, 2, 3, 4], folder=tmp_path)
    first = one.answer(Instruction("pull", 1, WHOLE))
    again = counter("ash", [9, 9, 9, 9], folder=tmp_path, guard=one.guard)
    second = again.answer(Instruction("pull", 1, WHOLE))
    assert second.resent
    assert second.arrays["counts"].dtype == np.int64
    assert (second.arrays["counts"] == first.arrays["counts"]).all()
