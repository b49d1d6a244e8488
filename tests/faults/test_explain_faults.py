"""Explanations under kill -9, and two processes that ask for one at the same time."""

from __future__ import annotations

import json
import os
import random
import select
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.faults.forking import child, kill, lines
from tests.unit.app.budget_examples import House
from tests.unit.app.explain.examples import (
    ROWS,
    Costly,
    asking,
    balances,
    clipped,
    free,
    people,
    records,
)
from voile.app.explain import ReleasedExplanation, ReleaseService, RowsToExplain
from voile.core.explanation import Explanation
from voile.records.audit_log import PostProcessingRecord, ReleaseRecord
from voile.records.ledger.tables import ANSWERS
from voile.records.storage import Command, Reader

RECORD = clipped()
FREE = free()


def create(folder: Path) -> str:
    place = str(folder / "test.db")
    house = House.create(place, folder)
    people(house, epsilon=300.0)
    house.storage.close()
    return place


class Pausing:
    """Says how often something was drawn or committed, and waits for ever at one of these points.

    It stands for storage and release at once: `submit` returns after a commit, `draw` before one.
    """

    def __init__(self, house: House, pipe: int, stop: str) -> None:
        self._storage, self._pipe, self._stop = house.storage, pipe, stop
        self._counts: Counter[str] = Counter()

    def submit(self, command: Command[Any]) -> Any:
        found = self._storage.submit(command)
        self.reached("committed")
        return found

    def read_snapshot(self, question: Callable[[Reader], Any]) -> Any:
        return self._storage.read_snapshot(question)

    def reached(self, what: str) -> None:
        self._counts[what] += 1
        point = f"{what} {self._counts[what]}"
        os.write(self._pipe, f"{point}\n".encode())
        while point == self._stop:
            time.sleep(1)


def ask(place: str, folder: Path, way: str, stop: str = "") -> Callable[[int], None]:
    """Ask one question in another process; stop at a point, if one is named."""

    def work(pipe: int) -> None:
        house = House.reopen(place, folder)
        pausing = Pausing(house, pipe, stop)

        class NoisyAnswer(Costly):
            def draw(self, rows: Any) -> Explanation:
                found = super().draw(rows)
                pausing.reached("drawn")
                return found

        inner: Any = FREE if way == "free" else RECORD
        vault = replace(house.vault, storage=pausing)  # type: ignore[arg-type]
        explained = ReleaseService(vault).answer(
            NoisyAnswer(inner),
            RowsToExplain(ROWS[:1], identifiers=["ada"]),
            payer=None if way == "free" else "people",
            caller="explainer",
        )
        os.write(pipe, f"left {explained.records[0]}\n".encode())

    return work


def heard(place: str, folder: Path, way: str, stop: str = "") -> list[str]:
    """Everything up to the stop, where the process is killed."""
    said = b""
    with child(ask(place, folder, way, stop)) as (process, pipe):
        while select.select([pipe], [], [], 20)[0]:
            part = os.read(pipe, 4096)
            said += part
            if not part or (stop and stop.encode() + b"\n" in said):
                break
        kill(process)
    return said.decode().split("\n")[:-1]


@pytest.mark.parametrize("way", ["record", "free"])
def test_killed_between_draw_and_commit_nothing_happened(tmp_path: Path, way: str) -> None:
    place = create(tmp_path)
    assert heard(place, tmp_path, way, "drawn 1")[-1] == "drawn 1"
    house = House.reopen(place, tmp_path)
    assert list(balances(house)) == ["people"]
    assert not [
        each for each in records(house) if isinstance(each, ReleaseRecord | PostProcessingRecord)
    ]
    assert house.storage.submit(lambda t: t.scan(ANSWERS)) == []
    assert house.verify().verified
    house.storage.close()


def test_killed_after_the_commit_it_is_charged_and_replayed(tmp_path: Path) -> None:
    undisturbed = tmp_path / "undisturbed"
    undisturbed.mkdir()
    whole = heard(create(undisturbed), undisturbed, "record")
    assert whole[-1].startswith("left")
    last = [point for point in whole if point.startswith("committed")][-1]

    place = create(tmp_path)
    assert "left" not in heard(place, tmp_path, "record", last)[-1]
    house = House.reopen(place, tmp_path)
    before = balances(house)
    assert len(before) == 2
    explain = asking(house, RECORD, "people")
    explained = explain(ROWS[:1], identifiers=["ada"])
    assert explained.replayed
    assert balances(house) == before
    assert len([each for each in records(house) if isinstance(each, ReleaseRecord)]) == 1
    assert house.verify().verified
    house.storage.close()


def test_a_free_call_killed_after_the_commit_is_on_record_and_cost_nothing(tmp_path: Path) -> None:
    place = create(tmp_path)
    heard(place, tmp_path, "free", "committed 1")
    house = House.reopen(place, tmp_path)
    assert list(balances(house)) == ["people"]
    assert isinstance(records(house)[-1], PostProcessingRecord)
    house.storage.close()


def explain_for_ever(place: str, folder: Path, name: str) -> Callable[[int], None]:
    def work(pipe: int) -> None:
        house = House.reopen(place, folder)
        explain = asking(house, RECORD, "people")
        number = 0
        while True:
            who = [f"{name}/{number}", f"{name}/{number} too"]
            explained = explain(ROWS[:2], identifiers=who)
            said = {"who": who, "charges": explained.charges, "sum": total(explained)}
            os.write(pipe, json.dumps(said).encode() + b"\n")
            number += 1

    return work


def total(explained: ReleasedExplanation) -> float:
    return float(np.abs(explained.explanation.values).sum())


def test_kill_at_random_points_what_left_is_charged_and_given_again(tmp_path: Path) -> None:
    assert kill_while_explaining(tmp_path, 40) > 0


def kill_while_explaining(folder: Path, rounds: int) -> int:
    """How many explanations left; `AssertionError` if one is not charged, or not given again."""
    place, chance, told = create(folder), random.Random(3), []
    for number in range(rounds):
        with child(explain_for_ever(place, folder, str(number))) as (process, pipe):
            if number % 3:  # sometimes before it has answered anything at all
                select.select([pipe], [], [], 10)
            time.sleep(chance.uniform(0, 0.02))
            kill(process)
            told += [json.loads(line) for line in lines(pipe)]
    house = House.reopen(place, folder)
    assert house.verify().verified
    stored = house.storage.submit(lambda t: t.scan(ANSWERS))
    assert len(told) * 2 <= len(stored) <= len(told) * 2 + 2 * rounds
    assert len(stored) % 2 == 0  # both rows of a call, or none
    explain = asking(house, RECORD, "people")
    for said in told[:: max(1, len(told) // 20)]:
        again = explain(ROWS[:2], identifiers=said["who"])
        assert again.replayed
        assert list(again.charges) == said["charges"]
        assert total(again) == said["sum"]
    house.storage.close()
    return len(told)


def test_two_processes_that_ask_at_once_pay_once_and_get_one_answer(tmp_path: Path) -> None:
    place = create(tmp_path)
    start = time.monotonic() + 0.3

    def many(pipe: int) -> None:
        house = House.reopen(place, tmp_path)
        explain = asking(house, RECORD, "people")
        while time.monotonic() < start:
            time.sleep(0.001)
        for number in range(25):
            explained = explain(ROWS[:2], identifiers=[f"{number} a", f"{number} b"])
            os.write(pipe, f"{number}|{explained.charges}|{total(explained)}\n".encode())

    with child(many) as (_, left), child(many) as (_, right):
        one, two = lines(left), lines(right)
    assert len(one) == 25
    assert one == two
    house = House.reopen(place, tmp_path)
    assert len([each for each in records(house) if isinstance(each, ReleaseRecord)]) == 50
    assert len(balances(house)) == 51
    assert house.verify().verified
    house.storage.close()
