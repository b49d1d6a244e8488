"""Loops that once lost charges: one file opened twice while others close, closing under load.

Each loop raises `AssertionError` at the first violation and returns how many answers it checked.
Here they run for a few rounds; `python -m experiments.fault_loops` runs them for hundreds.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.forking import child, exit_code, lines
from tests.unit.app.budget_examples import EVENT, House, drawn, request
from voile.core.errors import BudgetExceeded, StorageFault
from voile.privacy.accounting import ZeroConcentratedFilter
from voile.records.ledger.tables import ANSWERS

FITS = ZeroConcentratedFilter(1.0, 1e-5).how_many(EVENT)
ROUNDS_OF_A_CHILD = 25


def tell(pipe: int, text: str) -> None:
    os.write(pipe, text.encode() + b"\n")


def create(place: str, folder: Path, epsilon: float) -> None:
    house = House.create(place, folder)
    house.open("clinic", epsilon=epsilon)
    house.storage.close()


def ask(house: House, content: str, pipe: int) -> None:
    """One answer that leaves the house, and is told only then."""
    house.service.answer_request(request(content), drawn(content))
    tell(pipe, content)


def check_books(place: str, folder: Path, heard: list[str]) -> None:
    """What left is what is stored, charged and on record: nothing lost, nothing else."""
    house = House.reopen(place, folder)
    stored = [row.answer.decode() for row in house.storage.submit(lambda t: t.scan(ANSWERS))]
    report = house.verify()
    house.storage.close()
    assert sorted(stored) == sorted(heard)
    assert report.verified, report.failed


# --- one file, opened twice, while another process opens and closes it ---------------------------


def open_twice(folder: Path, rounds: int) -> int:
    """A process opens its database a second time; then another one comes, and leaves again."""
    return sum(_open_twice(folder, str(folder / f"{number}.db")) for number in range(rounds))


def _open_twice(folder: Path, place: str) -> int:
    create(place, folder, epsilon=1.0)
    go_on, go = os.pipe()

    def stay(pipe: int) -> None:
        house = House.reopen(place, folder)
        for number in range(3):
            ask(house, f"early {number}", pipe)
        House.reopen(place, folder).storage.close()
        tell(pipe, "ready")
        os.read(go_on, 1)
        try:
            for number in range(FITS):
                ask(house, f"late {number}", pipe)
        except BudgetExceeded:
            tell(pipe, "refused")

    def visit(pipe: int) -> None:
        house = House.reopen(place, folder)
        ask(house, "visitor", pipe)
        house.storage.close()

    with child(stay) as (staying, pipe):
        heard = _lines_until(pipe, "ready")
        with child(visit) as (visitor, visitors_pipe):
            heard += lines(visitors_pipe)
            assert exit_code(visitor) == 0
        os.write(go, b"!")
        heard += lines(pipe)
        assert exit_code(staying) == 0
    os.close(go_on)
    os.close(go)
    assert heard.pop() == "refused"
    assert len(heard) == FITS
    check_books(place, folder, heard)
    return len(heard)


def _lines_until(pipe: int, last: str) -> list[str]:
    said = b""
    while not said.endswith(last.encode() + b"\n"):
        part = os.read(pipe, 4096)
        assert part, "the child ended too early"
        said += part
    return said.decode().split("\n")[:-2]


def test_opened_twice_while_another_process_closes_it_loses_nothing(tmp_path: Path) -> None:
    assert open_twice(tmp_path, 5) == 5 * FITS


# --- closing while threads are at work -----------------------------------------------------------


def close_under_load(folder: Path, new_place: Callable[[], str], rounds: int) -> int:
    """Threads answer until the storage is closed under them, again and again."""
    answers = 0
    for first in range(0, rounds, ROUNDS_OF_A_CHILD):
        numbers = range(first, min(first + ROUNDS_OF_A_CHILD, rounds))
        place = new_place()
        create(place, folder, epsilon=300.0)
        with child(_closing_often(place, folder, numbers)) as (process, pipe):
            heard = lines(pipe)
            assert exit_code(process) == 0
        check_books(place, folder, heard)
        answers += len(heard)
    return answers


def _closing_often(place: str, folder: Path, numbers: range) -> Callable[[int], None]:
    def work(pipe: int) -> None:
        for number in numbers:
            chance = random.Random(number)
            sys.setswitchinterval(chance.choice([0.005, 1e-5]))
            house = House.reopen(place, folder)
            ends: list[StorageFault] = []
            answered = threading.Event()
            workers = [
                threading.Thread(
                    target=_ask_for_ever, args=(house, f"{number}/{n}", pipe, ends, answered)
                )
                for n in range(4)
            ]
            for worker in workers:
                worker.start()
            if number % 2:  # else it may be closed before anything was answered
                assert answered.wait(30)
            time.sleep(chance.uniform(0, 0.006))
            house.storage.close()
            for worker in workers:
                worker.join(30)
            assert ["closed" in str(end) for end in ends] == [True] * 4, ends

    return work


def _ask_for_ever(
    house: House, name: str, pipe: int, ends: list[StorageFault], answered: threading.Event
) -> None:
    number = 0
    try:
        while True:
            ask(house, f"{name}/{number}", pipe)
            answered.set()
            number += 1
    except StorageFault as fault:
        ends.append(fault)


def test_closing_a_file_under_load_loses_nothing(tmp_path: Path) -> None:
    assert close_under_load(tmp_path, lambda: str(tmp_path / "test.db"), 25) > 0


@pytest.mark.real
def test_closing_postgresql_under_load_loses_nothing(tmp_path: Path, postgres_url: str) -> None:
    assert close_under_load(tmp_path, lambda: postgres_url, 8) > 0
