"""One suite for whatever remembers the rounds that a party was shown."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.protecting import row_of
from tests.unit.federation.secure_aggregation.parties import refusal
from voile.app.federate.books import PART, ClientBooks, Promise
from voile.federation import AnnouncedRound, ChainGuard, KeptRounds
from voile.federation.chain import first_link, next_link
from voile.records.audit_log import RoundShownRecord, decode_record
from voile.records.vault import open_vault

PROMISE = Promise(row_of("study v1"), 3.0, 1e-5)
AGREED, STAGE = "3f" * 32, "surrogate"


@contextmanager
def in_memory(folder: Path) -> Iterator[ChainGuard]:  # noqa: ARG001
    yield KeptRounds()


@contextmanager
def in_the_log(folder: Path) -> Iterator[ChainGuard]:
    with open_vault(folder, "north.example/log", extra_parts=(PART,)) as books:
        yield ClientBooks(books, "north", PROMISE, (), AGREED)


KINDS: dict[str, Any] = {"in memory": in_memory, "in the log": in_the_log}


@pytest.fixture(params=KINDS)
def guard(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ChainGuard]:
    with KINDS[request.param](tmp_path) as opened:
        yield opened


def announced(number: int, previous: str, arrays: str = "a") -> AnnouncedRound:
    link = next_link(previous, number, arrays)
    return AnnouncedRound(AGREED, STAGE, number, previous, link, "ab" * 32, bytes(64))


FIRST = announced(1, first_link(AGREED, STAGE))
SECOND = announced(2, FIRST.link)


def kept(guard: Any) -> list[str]:
    """Links in the order in which they were shown."""
    if isinstance(guard, KeptRounds):
        return [each.link for each in guard.announced]
    books = guard.books
    records = map(decode_record, books.storage.read_snapshot(books.log.records))
    return [each.link.hex() for each in records if isinstance(each, RoundShownRecord)]


def test_rounds_that_hang_together_are_taken_again_and_again(guard: ChainGuard) -> None:
    for each in (FIRST, FIRST, SECOND, FIRST, SECOND):
        guard.before_round(each)


def test_other_arrays_for_a_round_are_refused(guard: ChainGuard) -> None:
    guard.before_round(FIRST)
    other = announced(1, FIRST.previous, "b")
    assert "other arrays" in refusal(guard.before_round, other)
    assert kept(guard) == [FIRST.link, other.link]  # both, signed: that is the evidence
    guard.before_round(SECOND)  # what was shown first counts
    assert "another history" in refusal(guard.before_round, announced(2, other.link))


def test_a_first_round_hangs_on_the_agreement(guard: ChainGuard) -> None:
    assert "another history" in refusal(guard.before_round, announced(1, "cd" * 32))


def test_rounds_that_were_not_shown_are_no_contradiction(guard: ChainGuard) -> None:
    guard.before_round(FIRST)
    guard.before_round(announced(5, "cd" * 32))


def test_an_earlier_round_than_the_one_that_hangs_on_it_is_compared_too(guard: ChainGuard) -> None:
    guard.before_round(SECOND)
    other = announced(1, FIRST.previous, "b")
    assert "hangs on another" in refusal(guard.before_round, other)
    assert kept(guard) == [SECOND.link, other.link]
    guard.before_round(FIRST)


def test_stages_have_chains_of_their_own(guard: ChainGuard) -> None:
    guard.before_round(FIRST)
    start = first_link(AGREED, "black box")
    other = replace(announced(1, start, "b"), stage="black box")
    guard.before_round(other)
