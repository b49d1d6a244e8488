"""A replay key is known by one stored answer; what it does not open gets no receipt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.app.budget_examples import House
from tests.unit.app.explain.examples import ROWS, asking, clipped, people
from voile.app.explain import ReleasedExplanation, ReleaseService
from voile.core.errors import Refused, VerificationFailed
from voile.records.ledger import ReplayKey
from voile.records.ledger.tables import ANSWERS, AnswerRow
from voile.records.storage import Transaction
from voile.records.stored_answers import KeySample
from voile.records.vault import Vault


@pytest.fixture
def house(tmp_path: Path) -> House:
    made = House.create("memory:", tmp_path)
    made.open()
    return made


def sample(house: House) -> KeySample | None:
    own = house.vault
    return own.storage.submit(lambda t: KeySample.from_records(t, own.ledger, own.log))


def opened_again(house: House, key: ReplayKey | None = None) -> Vault:
    """As another process would find it, perhaps with another key."""
    place = house.vault.place
    if key is not None:
        place = replace(place, replay_key=house.folder / "another.key")
        key.save(place.replay_key)
    return replace(house.vault, place=place, key_sample=sample(house))


def changed(house: House, change: Callable[[AnswerRow], AnswerRow]) -> None:
    """Somebody writes into the database."""

    def write(t: Transaction) -> None:
        (kept,) = t.scan(ANSWERS)
        t.replace(ANSWERS, change(kept))

    house.storage.submit(write)


def explained(house: House) -> ReleasedExplanation:
    people(house)
    return asking(house, clipped(), "people")(ROWS[:2], identifiers=["ada", "bob"])


def test_a_ledger_without_answers_takes_any_key(house: House) -> None:
    assert sample(house) is None
    assert opened_again(house, ReplayKey.generate()).key


@pytest.mark.parametrize("answer", [explained, House.answer], ids=["explanation", "bytes"])
def test_the_key_of_another_ledger_is_refused(
    house: House, answer: Callable[[House], object]
) -> None:
    answer(house)
    assert opened_again(house).key == house.vault.key
    stranger = opened_again(house, ReplayKey.generate())
    with pytest.raises(Refused, match=r"another\.key: does not open the stored answers"):
        _ = stranger.key


def test_a_ledger_that_answered_under_two_keys_is_known_by_the_first(house: House) -> None:
    """Other keys were not noticed once; then the right one must not be refused for good."""
    house.answer()
    place = replace(house.vault.place, replay_key=house.folder / "another.key")
    ReplayKey(bytes([9] * 32)).save(place.replay_key)
    stranger = replace(house, service=ReleaseService(replace(house.vault, place=place)))
    for number in range(12):
        stranger.answer(f"row {number}")
    assert opened_again(house).key == house.vault.key
    with pytest.raises(Refused):
        _ = replace(stranger.vault, key_sample=sample(house)).key


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda kept: kept._replace(answer=b"exchanged"), id="another answer"),
        pytest.param(lambda kept: kept._replace(committed=bytes(32)), id="cannot be read"),
        pytest.param(lambda kept: kept._replace(record=-1), id="no record"),
        pytest.param(lambda kept: kept._replace(record=0), id="a record of something else"),
    ],
)
def test_an_answer_that_was_exchanged_stops_everything_but_its_verification(
    house: House, change: Callable[[AnswerRow], AnswerRow]
) -> None:
    house.answer()
    changed(house, change)
    vault = opened_again(house)
    with pytest.raises(Refused, match="voile budget verify"):
        _ = vault.key
    assert vault.key_as_found == house.vault.key


def test_no_receipt_is_written_whose_nonces_open_nothing(house: House) -> None:
    """Also by who opened the ledger while it was empty, and had no key to compare."""
    charge = house.answer().charge
    house.keep()
    stranger = replace(opened_again(house, ReplayKey.generate()), key_sample=None)
    with pytest.raises(VerificationFailed, match="does not commit to this answer"):
        ReleaseService(stranger).receipt(charge)
    assert house.service.receipt(charge).nonces


def test_an_explanation_that_is_not_on_record_gets_no_receipt(house: House) -> None:
    answer = explained(house)
    house.keep()
    assert house.service.receipts(answer)
    ada, bob = answer.entries
    for name, other in (
        ("answer", replace(ada, explanation=bob.explanation)),
        ("query", replace(ada, question=bob.question)),
    ):
        with pytest.raises(VerificationFailed, match=f"does not commit to this {name}"):
            house.service.receipts(replace(answer, entries=(other,)))
