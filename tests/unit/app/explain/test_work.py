"""What one answer may take: statements and calls, never seconds.

A statement for each record, or a check of what was checked before, makes these tests red. The
budgets of statements are close to what is needed; those of calls leave room for other versions of
Python.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.unit.app.budget_examples import RULES, House
from tests.unit.app.explain.examples import ROWS, Costly, clipped, people
from tests.unit.records.audit_log.examples import LOG_KEY
from tests.unit.records.ledger.examples import DATASET

from voile.app.explain import (
    ExplanationRequest,
    ReleasedExplanation,
    ReleaseService,
    RowsToExplain,
)
from voile.app.explain.questions import ReleaseTerms
from voile.app.explain.reading import AccountOf
from voile.app.explain.walk import Asked, as_bytes, ask, draw, look, settle_all, unanswered
from voile.core.guarantee import Protected, ProtectedUnit, Relation, RowPart
from voile.records.checkpoints import Keeper, kept_checkpoint
from voile.records.vault import Vault

BATCH = 32
READ_OR_WRITE = ("SELECT", "INSERT", "UPDATE", "DELETE", "WITH")


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """On SQLite, with a checkpoint that was pinned."""
    house = House.create(str(tmp_path / "test.db"), tmp_path)
    people(house)
    house.keep()
    keeper = Keeper(RULES, kept_checkpoint(house.key), LOG_KEY)
    vault = replace(house.vault, log=keeper.knows(house.vault.log), keeper=keeper)
    yield House(ReleaseService(vault), tmp_path)
    house.storage.close()


def person(name: str, **changes: Any) -> ExplanationRequest:
    rows = RowsToExplain(ROWS[:1], identifiers=[name])
    return ExplanationRequest(rows=rows, payer="people", caller="ada", **changes)


def persons(prefix: str, count: int) -> list[ExplanationRequest]:
    return [person(f"{prefix} {number}") for number in range(count)]


@contextmanager
def statements(house: House) -> Iterator[list[str]]:
    """What reads or writes records, as SQLite is told of it."""
    session: Any = house.storage._shared.session
    connections = [each._connection for each in (session, *session._readers.open)]
    found: list[str] = []

    def note(statement: str) -> None:
        if statement.startswith(READ_OR_WRITE):
            found.append(statement)

    for each in connections:
        each.set_trace_callback(note)
    yield found
    for each in connections:
        each.set_trace_callback(None)


def answered(house: House, release: Any, requests: list[ExplanationRequest]) -> list[str]:
    with statements(house) as found:
        outcomes = house.service.answer_many(release, requests)
    assert all(isinstance(each, ReleasedExplanation) for each in outcomes), outcomes
    return found


class TestStatements:
    def test_a_new_person(self, house: House) -> None:
        release = clipped()
        answered(house, release, persons("before", 2))
        answered(house, release, persons("then", 1))
        found = answered(house, release, persons("new", 1))
        assert len(found) <= 10
        tables = {each.split()[2] for each in found if each.startswith("INSERT")}
        assert len(tables) == 6  # a new person has an account, a charge, an answer and two records

    def test_new_people_in_a_batch_share_them(self, house: House) -> None:
        release = clipped()
        answered(house, release, persons("before", BATCH))
        found = answered(house, release, persons("new", BATCH))
        assert len(found) <= 12  # whatever the number of people

    @pytest.mark.parametrize("count", [1, BATCH])
    def test_people_who_were_answered_before(self, house: House, count: int) -> None:
        release, asked = clipped(), persons("known", count)
        answered(house, release, asked)
        found = answered(house, release, asked)
        assert len(found) <= 2
        assert all(each.startswith(("SELECT", "WITH")) for each in found)

    @pytest.mark.parametrize("count", [1, BATCH])
    def test_fresh_noise_for_people_who_are_known(self, house: House, count: int) -> None:
        release, asked = clipped(epsilon=0.2), persons("known", count)
        answered(house, release, asked)
        fresh = [replace(each, fresh=True) for each in asked]
        answered(house, release, fresh)
        assert len(answered(house, release, fresh)) <= 8

    @pytest.mark.parametrize("count", [1, BATCH])
    def test_public_rows_and_a_private_background(self, house: House, count: int) -> None:
        protected = Protected(ProtectedUnit.ROW, Relation.BLANK_ONE, DATASET)
        house.open("clinic", epsilon=50.0)
        inner = clipped()
        promise = tuple(replace(each, protected=protected) for each in inner.guarantees(1))
        over = Costly(inner, part=RowPart.BACKGROUND, guarantees=lambda _: promise)

        def asked(first: int) -> list[ExplanationRequest]:
            rows = [RowsToExplain(ROWS[:1] + 1e-6 * (first + n)) for n in range(count)]
            return [ExplanationRequest(rows=r, payer="clinic", caller="ada") for r in rows]

        answered(house, over, asked(0))
        assert len(answered(house, over, asked(count))) <= 10


def calls(act: Callable[[], Any]) -> tuple[int, Any]:
    """How many functions are called, in Python and in C; and what comes out."""
    count = 0

    def notice(frame: Any, event: str, what: Any) -> None:  # noqa: ARG001
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(notice)
    try:
        found = act()
    finally:
        sys.setprofile(before)
    return count, found


@pytest.mark.parametrize(("size", "most"), [(1, 2_000), (BATCH, 1_500)])
def test_calls_for_a_new_person(house: House, size: int, most: int) -> None:
    """But for the drawing: to look, to write down what was drawn, to settle."""
    release, vault = clipped(), house.vault
    facts = ReleaseTerms(release)
    for turn in range(4):
        asked = persons(f"turn {turn}", size)
        looking, looked = calls(partial(look, vault, partial(_asking, vault, facts, asked)))
        drawn = draw(release, asked, unanswered(looked))
        keeping, kept = calls(partial(as_bytes, release, drawn))
        settling, answers = calls(partial(settle_all, vault, looked, kept))
        assert not any(isinstance(each, Exception) for each in answers)
    assert (looking + keeping + settling) / size <= most


def _asking(
    vault: Vault, facts: ReleaseTerms, asked: list[ExplanationRequest], accounts: AccountOf
) -> Asked:
    return ask(vault, accounts, facts, asked)
