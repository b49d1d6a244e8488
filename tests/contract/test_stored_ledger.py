"""A ledger stored before the arithmetic moved to `voile.privacy.accounting` reads bit for bit."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.stored.ledger.make import FOLDER, further, open_books, readings
from tests.unit.records.ledger.examples import Books

READINGS: dict[str, Any] = json.loads((FOLDER / "readings.json").read_text())


@pytest.fixture
def books(tmp_path: Path) -> Iterator[Books]:
    with zipfile.ZipFile(FOLDER / "ledger.zip") as packed:
        packed.extractall(tmp_path)
    opened = open_books(tmp_path / "ledger.db")
    yield opened
    opened.storage.close()


def check_readings(books: Books, stored: dict[str, Any]) -> None:
    """All of it is equal; a refusal may go on and say what would fit."""
    found, refusals = readings(books), stored["refusals"]
    assert {**found, "refusals": refusals} == stored
    for said, then in zip(found["refusals"], refusals, strict=True):
        assert said == then or said.startswith(f"{then}. ")


def test_every_sum_and_what_fits_are_equal_to_the_last_bit(books: Books) -> None:
    check_readings(books, READINGS["stored"])


def test_its_journal_adds_up_to_its_balances(books: Books) -> None:
    assert books.problems() == []


def test_further_charges_add_up_as_they_did(books: Books) -> None:
    further(books)
    check_readings(books, READINGS["charged further"])
