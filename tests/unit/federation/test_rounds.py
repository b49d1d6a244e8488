"""Rounds in one process: who is asked, what is summed, what is told, and what goes wrong."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.rounds import ListedRounds
from tests.unit.federation.toys import (
    CAP,
    START,
    Odd,
    Pull,
    client,
    honest,
    rounds_over,
    rows_of,
    stage,
)
from voile.core.errors import InvalidInput, Refused
from voile.core.randomness import Seeded
from voile.federation import (
    CoordinateMedian,
    CountingGuard,
    FedAvg,
    Instruction,
    Krum,
    NoGuard,
    Outcome,
    PlainRound,
    ProgressEvent,
    Rounds,
    TrimmedMean,
    Unprotected,
    digest_of_arrays,
)
from voile.federation.history import event_as_text
from voile.federation.stage import drawn_schedule


class Agreeable(str):
    """Equal to whatever it is compared with."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False


NAMES = ("ash", "birch", "cedar", "elm", "fir", "oak")


def population(**settings: Any) -> list[Any]:
    return [client(name, 30 + 5 * i, **settings) for i, name in enumerate(NAMES)]


def federation(clients: Any = None, **settings: Any) -> Rounds:
    clients = population() if clients is None else clients
    return rounds_over(clients, source=Seeded(3), **settings)


# --- determinism ----------------------------------------------------------------------------------


def test_repetition_gives_the_same_bits() -> None:
    first = federation().run(stage(), START)
    assert digest_of_arrays(first.arrays) == digest_of_arrays(
        federation().run(stage(), START).arrays
    )
    assert not np.array_equal(first.arrays["vector"], START["vector"])


def test_the_order_of_clients_and_of_answers_does_not_matter() -> None:
    first = federation().run(stage(), START)
    backwards = federation(population()[::-1]).run(stage(), START)
    threads = federation(deadline=60, at_once=4).run(stage(), START)
    digests = {digest_of_arrays(r.arrays) for r in (first, backwards, threads)}
    assert len(digests) == 1


def test_single_updates_are_shown_in_order_of_names() -> None:
    """The first by name answers last."""
    others = threading.Semaphore(0)
    met: list[str] = []

    class Watching(CoordinateMedian):
        def combine(self, contributions: Any, memory: Any) -> Any:
            met.extend(part.client for part in contributions)
            return super().combine(contributions, memory)

    def first(instruction: Instruction) -> Any:
        for _ in range(2):
            assert others.acquire(timeout=30)
        time.sleep(0.05)
        return honest("ash", instruction)

    def other(name: str) -> Any:
        def reply(instruction: Instruction) -> Any:
            others.release()
            return honest(name, instruction)

        return reply

    clients = [Odd("ash", first), Odd("oak", other("oak")), Odd("elm", other("elm"))]
    federation(clients, at_once=3).run(
        stage(rounds=1, clients_per_round=3, protocol=PlainRound(Watching())), START
    )
    assert met == ["ash", "elm", "oak"]


def test_another_seed_gives_other_arrays() -> None:
    first = federation().run(stage(), START)
    other = federation(population(seed=2)).run(stage(), START)
    assert digest_of_arrays(first.arrays) != digest_of_arrays(other.arrays)


def test_weights_come_from_declared_sizes_not_from_what_is_there() -> None:
    """Two clients of equal updates but unequal declarations: the average tells the declaration."""
    sizes = {"ash": 10, "birch": 30}
    towards = {"ash": 1.0, "birch": 5.0}

    def reply(name: str) -> Any:
        def of(instruction: Instruction) -> Any:
            arrays = {n: np.full_like(a, towards[name]) for n, a in instruction.arrays.items()}
            event = event_as_text(Pull().cost(sizes[name]))
            return honest(name, instruction, arrays=arrays, event=event)

        return of

    clients = [Odd(name, reply(name), size) for name, size in sizes.items()]
    found = federation(clients).run(stage(rounds=1, clients_per_round=2), START)
    np.testing.assert_array_equal(found.arrays["vector"], [4.0, 4.0, 4.0])


def test_a_client_with_more_rows_than_declared_weighs_no_more() -> None:
    """The mutant that weighs by drawn sizes would tell these two federations apart."""
    zero = np.zeros((40, 3))
    records = [zero, np.zeros((400, 3))]
    found = []
    for mine in records:
        clients = [client("ash", 40, records=mine), client("birch", 40)]
        found.append(federation(clients).run(stage(rounds=1, clients_per_round=2), START).arrays)
    assert digest_of_arrays(found[0]) == digest_of_arrays(found[1])

    def by_drawn_size(rows: Any) -> float:
        return len(rows) / (len(rows) + 40)

    assert by_drawn_size(records[0]) != by_drawn_size(records[1])


# --- who is asked ---------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    clients=st.integers(1, 12),
    rounds=st.integers(1, 12),
    cap=st.integers(1, 5),
    seed=st.integers(0, 2**32 - 1),
    data=st.data(),
)
def test_schedules_are_full_and_keep_the_cap(
    clients: int, rounds: int, cap: int, seed: int, data: st.DataObject
) -> None:
    each = data.draw(st.integers(1, clients))
    names = [f"client {i}" for i in range(clients)]
    agreed = stage(rounds=rounds, clients_per_round=each, participations=cap)
    if rounds * each > cap * clients:
        with pytest.raises(InvalidInput, match="raise the cap"):
            drawn_schedule(agreed, names, np.random.default_rng(seed))
        return
    schedule = drawn_schedule(agreed, names, np.random.default_rng(seed))
    assert [len(set(asked)) for asked in schedule] == [each] * rounds
    assert max(Counter(name for asked in schedule for name in asked).values()) <= cap


def test_schedules_differ_from_seed_to_seed_and_reach_everybody() -> None:
    agreed = stage(rounds=3, clients_per_round=2, participations=1)
    schedules = {
        drawn_schedule(agreed, list(NAMES), np.random.default_rng(seed)) for seed in range(20)
    }
    assert len(schedules) > 10
    assert all({name for asked in s for name in asked} == set(NAMES) for s in schedules)


def test_more_clients_than_there_are_cannot_be_asked() -> None:
    with pytest.raises(InvalidInput, match="at most once a round"):
        federation().run(stage(clients_per_round=7, rounds=1), START)


# --- the cap is the client's ----------------------------------------------------------------------


def greedy(**settings: Any) -> Any:
    """A server that asks everybody in every round, whatever was agreed."""
    return stage(rounds=5, clients_per_round=6, participations=5, **settings)


def test_a_client_refuses_what_exceeds_its_cap_whatever_the_server_asks() -> None:
    books = CountingGuard(CAP)
    found = federation(population(guard=books)).run(greedy(), START)
    taken = Counter(p.client for p in books.participations)
    assert set(taken.values()) == {CAP}
    outcomes = Counter(row.outcome for row in found.rows)
    assert outcomes == {Outcome.ANSWERED: 6 * CAP, Outcome.REFUSED: 6 * (5 - CAP)}


def test_without_the_guard_the_cap_is_not_kept() -> None:
    """The mutant: a client that trusts the server's schedule."""
    found = federation(population(guard=NoGuard())).run(greedy(), START)
    assert Counter(row.outcome for row in found.rows) == {Outcome.ANSWERED: 30}


def test_a_repeated_question_is_a_new_participation_without_a_stored_update() -> None:
    books = CountingGuard(CAP)
    node = client("ash", guard=books)
    for _ in range(CAP):
        node.answer(Instruction("pull", 1, START))
    with pytest.raises(Refused, match="cap"):
        node.answer(Instruction("pull", 1, START))
    assert len(books.participations) == CAP


def test_a_stored_update_is_sent_again_whatever_arrays_come_with_the_question(
    tmp_path: Path,
) -> None:
    books = CountingGuard(CAP)
    first = client("ash", guard=books, folder=tmp_path).answer(Instruction("pull", 1, START))
    # Another process, with other randomness; the server tries other arrays.
    again = client("ash", guard=books, folder=tmp_path, seed=99)
    moved = {name: array + 1 for name, array in START.items()}
    second = again.answer(Instruction("pull", 1, moved))
    assert digest_of_arrays(first.arrays) == digest_of_arrays(second.arrays)
    assert (first.resent, second.resent) == (False, True)
    assert len(books.participations) == 1
    third = again.answer(Instruction("pull", 2, START))
    assert not third.resent
    assert len(books.participations) == 2


def test_clients_that_share_a_folder_do_not_send_each_others_updates(tmp_path: Path) -> None:
    message = Instruction("pull", 1, START)
    updates = [client(name, folder=tmp_path).answer(message) for name in ("a", "b", "a b", "a-b")]
    assert not any(update.resent for update in updates)


# --- faults ---------------------------------------------------------------------------------------


def raising(_: Instruction) -> Any:
    raise RuntimeError("row 17: 36.6 degrees")


def refusing(_: Instruction) -> Any:
    raise Refused("no")


def leaving(_: Instruction) -> Any:
    raise SystemExit(3)


def arrays_with(value: float) -> dict[str, Any]:
    return {name: np.full_like(array, value) for name, array in START.items()}


class Hostile(dict[str, Any]):
    """A mapping that cannot be listed."""

    def __iter__(self) -> Any:
        raise ZeroDivisionError

    def keys(self) -> Any:
        raise ZeroDivisionError


WIDE = {"vector": np.zeros(4, dtype=np.float32), "scale": START["scale"]}
DOUBLE = {name: array.astype(np.float64) for name, array in START.items()}
FAULTS: dict[str, tuple[Any, Outcome]] = {
    "raises": (raising, Outcome.VANISHED),
    "leaves": (leaving, Outcome.VANISHED),
    "refuses": (refusing, Outcome.REFUSED),
    "nothing": (lambda _: None, Outcome.WRONG_TYPE),
    "a dict": (lambda _: dict(START), Outcome.WRONG_TYPE),
    "NaN": (lambda i: honest("odd", i, arrays=arrays_with(np.nan)), Outcome.NOT_FINITE),
    "infinite": (lambda i: honest("odd", i, arrays=arrays_with(-np.inf)), Outcome.NOT_FINITE),
    "huge": (lambda i: honest("odd", i, arrays=arrays_with(1e30)), Outcome.TOO_LARGE),
    "hugely negative": (lambda i: honest("odd", i, arrays=arrays_with(-101)), Outcome.TOO_LARGE),
    "wide": (lambda i: honest("odd", i, arrays=WIDE), Outcome.WRONG_SHAPE),
    "one missing": (lambda i: honest("odd", i, arrays={}), Outcome.WRONG_SHAPE),
    "one more": (
        lambda i: honest("odd", i, arrays={**START, "more": START["scale"]}),
        Outcome.WRONG_SHAPE,
    ),
    "double": (lambda i: honest("odd", i, arrays=DOUBLE), Outcome.WRONG_TYPE),
    "lists": (
        lambda i: honest("odd", i, arrays={n: a.tolist() for n, a in START.items()}),
        Outcome.WRONG_TYPE,
    ),
    "objects": (
        lambda i: honest("odd", i, arrays={n: a.astype(object) for n, a in START.items()}),
        Outcome.WRONG_TYPE,
    ),
    "no arrays": (lambda i: honest("odd", i, arrays=None), Outcome.WRONG_TYPE),
    "hostile": (lambda i: honest("odd", i, arrays=Hostile(START)), Outcome.WRONG_TYPE),
    "array as name": (lambda i: honest(np.zeros(3), i), Outcome.WRONG_TYPE),  # type: ignore[arg-type]
    "another's name": (lambda i: honest("ash", i), Outcome.WRONG_SENDER),
    "another round": (lambda i: honest("odd", i, round=i.round + 1), Outcome.WRONG_SENDER),
    "no cost": (lambda i: honest("odd", i, event=""), Outcome.OTHER_COST),
    "another cost": (
        lambda i: honest("odd", i, event=event_as_text(Pull(noise=0.1).cost(40))),
        Outcome.OTHER_COST,
    ),
    "a cost that agrees to anything": (
        lambda i: honest("odd", i, event=Agreeable()),
        Outcome.WRONG_TYPE,
    ),
    "a number as account": (lambda i: honest("odd", i, account=7), Outcome.WRONG_TYPE),
    "an account of two lines": (lambda i: honest("odd", i, account="a\nb"), Outcome.WRONG_TYPE),
    "a number as note": (lambda i: honest("odd", i, note=7), Outcome.WRONG_TYPE),
    "another agreement": (
        lambda i: honest("odd", i, agreement="of others"),
        Outcome.WRONG_SENDER,
    ),
    "another stage": (lambda i: honest("odd", i, stage="other"), Outcome.WRONG_SENDER),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_round_goes_on_without_the_faulty_client(fault: str) -> None:
    """The arrays are those that the others alone would have given."""
    reply, outcome = FAULTS[fault]
    books = ListedRounds()
    everybody = stage(rounds=2, clients_per_round=7)
    odd = Odd("odd", reply)
    found = federation([*population(), odd], log=books).run(everybody, START)
    expected = federation().run(stage(rounds=2, clients_per_round=6), START)
    assert digest_of_arrays(found.arrays) == digest_of_arrays(expected.arrays)
    assert odd.asked == [1, 2]
    for report in books.reports:
        told = dict(report.outcomes)
        assert told.pop("odd") is outcome
        assert set(told.values()) == {Outcome.ANSWERED}


def test_books_hold_names_and_kinds_but_no_message() -> None:
    books = ListedRounds()
    found = federation([Odd("odd", raising)], log=books).run(
        stage(rounds=1, clients_per_round=1), START
    )
    assert "36.6" not in repr(books)
    assert "36.6" not in repr(found.rows)
    assert "36.6" in str(found.errors[0].error)


def test_a_round_that_nobody_answers_leaves_the_arrays() -> None:
    books = ListedRounds()
    found = federation([Odd("odd", raising)], log=books).run(
        stage(rounds=2, clients_per_round=1), START
    )
    assert digest_of_arrays(found.arrays) == digest_of_arrays(START)
    assert [report.changed for report in books.reports] == [False, False]


def test_too_few_answers_for_krum_leave_the_arrays() -> None:
    agreed = stage(rounds=1, clients_per_round=6, protocol=PlainRound(Krum(2)))
    found = federation().run(agreed, START)
    assert digest_of_arrays(found.arrays) == digest_of_arrays(START)
    enough = replace(agreed, protocol=PlainRound(Krum(1)))
    assert digest_of_arrays(federation().run(enough, START).arrays) != digest_of_arrays(START)


def test_two_nodes_cannot_have_one_name() -> None:
    second = Odd("ash", lambda i: honest("ash", i, arrays=arrays_with(9)))
    with pytest.raises(InvalidInput, match="two nodes are called 'ash'"):
        federation([*population(), second])


def test_who_cannot_be_reached_has_vanished() -> None:
    books = ListedRounds()
    found = federation(log=books)
    wider = replace(found, sizes={**found.sizes, "yew": 40})
    wider.run(stage(rounds=1, clients_per_round=7), START)
    told = dict(books.reports[0].outcomes)
    assert told.pop("yew") is Outcome.VANISHED
    assert set(told.values()) == {Outcome.ANSWERED}


def test_late_clients_are_left_out_and_count_as_gone_while_busy() -> None:
    free = threading.Event()

    def slow(instruction: Instruction) -> Any:
        free.wait(30)
        return honest("odd", instruction, arrays=arrays_with(50))

    books = ListedRounds()
    odd = Odd("odd", slow)
    try:
        found = federation([*population(), odd], log=books, deadline=1, at_once=3).run(
            stage(rounds=2, clients_per_round=7), START
        )
    finally:
        free.set()
    expected = federation().run(stage(rounds=2, clients_per_round=6), START)
    assert digest_of_arrays(found.arrays) == digest_of_arrays(expected.arrays)
    assert [dict(r.outcomes)["odd"] for r in books.reports] == [Outcome.LATE, Outcome.VANISHED]
    assert odd.asked == [1]


def test_a_late_answer_is_not_used_in_a_later_round() -> None:
    second_round = threading.Event()

    def slow(instruction: Instruction) -> Any:
        second_round.wait(30)
        return honest("odd", instruction, arrays=arrays_with(50))

    def waking(instruction: Instruction) -> Any:
        if instruction.round == 2:
            second_round.set()
            time.sleep(0.2)  # now the answer to round 1 comes in
        return honest("wake", instruction)

    books = ListedRounds()
    found = federation(
        [Odd("odd", slow), Odd("wake", waking)],
        log=books,
        deadline=1,
        at_once=2,
    ).run(stage(rounds=2, clients_per_round=2), START)
    assert digest_of_arrays(found.arrays) == digest_of_arrays(START)
    assert dict(books.reports[0].outcomes)["odd"] is Outcome.LATE


def test_the_users_interrupt_goes_through() -> None:
    def interrupt(_: Instruction) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        federation([Odd("odd", interrupt)]).run(stage(rounds=1, clients_per_round=1), START)


@settings(max_examples=60)
@given(
    kinds=st.lists(st.sampled_from(["honest", *FAULTS]), min_size=1, max_size=12),
    robust=st.sampled_from([FedAvg(), CoordinateMedian(), TrimmedMean(0.2), Krum(1)]),
    seed=st.integers(0, 2**32 - 1),
)
def test_a_fuzzed_population_never_stops_a_federation(
    kinds: list[str], robust: Any, seed: int
) -> None:
    clients: list[Any] = []
    for place, kind in enumerate(kinds):
        name = f"client {place}"
        if kind == "honest":
            clients.append(client(name))
        else:
            clients.append(Odd(name, FAULTS[kind][0]))
    books = ListedRounds()
    agreed = stage(rounds=2, clients_per_round=len(clients), protocol=PlainRound(robust))
    found = rounds_over(clients, log=books, source=Seeded(seed)).run(agreed, START)
    assert len(books.reports) == 2
    for name, array in found.arrays.items():
        assert array.dtype == np.float32
        assert array.shape == START[name].shape
        assert np.abs(array).max() <= 2  # honest clients pull into [−1, 1]
    told = {row.client for row in found.rows}
    assert told == {c.name for c in clients}


# --- what is told and measured --------------------------------------------------------------------


def test_progress_sees_every_answer_and_every_round() -> None:
    seen: list[ProgressEvent] = []
    federation(progress=seen.append).run(stage(), START)
    assert [s.answered for s in seen[:5]] == [1, 2, 3, 4, 4]
    assert [s.round for s in seen if s.done] == [1, 2, 3]
    assert [len(s.rows) for s in seen if s.done] == [4, 8, 12]
    assert {s.asked for s in seen} == {4}


def test_figures_are_measured_on_unprotected_rows_after_each_round() -> None:
    rows = Unprotected(rows_of("public", 50), "drawn from a generator")
    found = federation().run(stage(), START, unprotected=rows, given={"x": START["scale"]})
    assert [set(figures) for figures in found.figures] == [{"distance", "given"}] * 3
    assert found.figures[-1]["distance"] < found.figures[0]["distance"]
    assert found.figures[0]["given"] == 1


def test_the_report_carries_the_digest_of_the_arrays() -> None:
    books = ListedRounds()
    found = federation(log=books).run(stage(), START)
    assert books.reports[-1].digest == digest_of_arrays(found.arrays)
    assert [report.round for report in books.reports] == [1, 2, 3]


def test_given_arrays_reach_the_clients_and_are_not_trained() -> None:
    given = {"black box": np.arange(3, dtype=np.float32)}
    met: list[Any] = []

    def reply(instruction: Instruction) -> Any:
        met.append(instruction.given["black box"].copy())
        return honest("odd", instruction)

    found = federation([Odd("odd", reply)]).run(
        stage(rounds=1, clients_per_round=1), START, given=given
    )
    np.testing.assert_array_equal(met[0], given["black box"])
    assert set(found.arrays) == set(START)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: rounds_over([]), "at least one node"),
        (lambda: federation([Odd("a\tb", raising)]), "printable"),
        (lambda: federation([Odd("a", raising, size=0)]), "declare"),
        (lambda: stage(rounds=0), "rounds must be at least 1"),
        (lambda: stage(clients_per_round=True), "clients_per_round"),
        (lambda: stage(largest_change=float("nan")), "largest_change"),
        (lambda: stage(name=""), "printable"),
        (lambda: federation(deadline=0), "deadline"),
        (lambda: federation(at_once=0), "at_once"),
        (lambda: federation().run(stage(), {"vector": START["vector"]}), "shapes"),
    ],
)
def test_unsound_settings_are_refused(build: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        build()


def test_a_stage_without_a_privacy_promise_records_no_event() -> None:
    class Plain(Pull):
        def cost(self, size: int) -> None:  # noqa: ARG002
            return None

    books = CountingGuard(CAP)
    clients = [client("ash", guard=books, task=Plain())]
    found = federation(clients).run(stage(task=Plain(), rounds=1, clients_per_round=1), START)
    assert books.participations[0].event is None
    assert found.rows[0].event == ""
