"""A nonce opens one commitment of one log, and no other; receipts of older nonces stay valid."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.unit.app.budget_examples import House, request
from tests.unit.records.audit_log.examples import policy
from voile.app.explain.charging import Answer
from voile.core.errors import Refused
from voile.records.audit_log import AuditLog, CheckOutcome, issue_receipt, verify_receipt
from voile.records.storage import open_storage
from voile.records.storage.opening import PARTS as PART_VERSIONS
from voile.records.storage.opening import PartVersion
from voile.records.stored_answers import CommitmentTerms
from voile.records.vault import PARTS

OLD_RECEIPT = Path(__file__).with_name("old-receipt.tlog-proof")
"""Issued when nonces came from the account's name and the charge's number alone."""
KEPT = CommitmentTerms("example.org/a", b"terms", 7, b"question", b"answer")


def test_receipts_that_were_issued_before_still_verify() -> None:
    report = verify_receipt(
        OLD_RECEIPT.read_bytes(),
        policy(0),
        query=request("row 1").question.canonical_bytes,
        answer=b"noisy row 1",
    )
    opened = [step.outcome for step in report.steps if step.name in ("query", "answer")]
    assert report.verified
    assert opened == [CheckOutcome.CHECKED] * 2


@pytest.mark.parametrize(
    "other",
    [
        KEPT._replace(origin="example.org/b"),
        KEPT._replace(terms=b"others"),
        KEPT._replace(number=8),
        KEPT._replace(query=b"another"),
        KEPT._replace(answer=b"another"),
    ],
)
def test_whatever_differs_has_nonces_of_its_own(tmp_path: Path, other: CommitmentTerms) -> None:
    key = House.create("memory:", tmp_path).vault.key
    assert not set(KEPT.nonces(key).values()) & set(other.nonces(key).values())
    assert KEPT.nonces(key) == KEPT.nonces(key)


def opens(house: House, answer: Answer, nonces: dict[str, bytes], content: str) -> bool:
    """Whether these nonces open the record's commitments to this content."""
    house.keep()
    receipt = issue_receipt(house.storage, house.vault.log, answer.record, nonces)
    asked = request(content).question.canonical_bytes
    said = f"noisy {content}".encode()
    return verify_receipt(bytes(receipt), policy(0), query=asked, answer=said).verified


def test_a_receipt_of_one_log_opens_nothing_in_another(tmp_path: Path) -> None:
    """Two logs with one replay key, the same account and the same number of the charge."""
    houses = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        houses.append(House.create("memory:", tmp_path / name))
        houses[-1].open()
    one, two = (house.answer() for house in houses)
    assert one.charge == two.charge
    assert not set(one.nonces.values()) & set(two.nonces.values())
    assert opens(houses[0], one, one.nonces, "row 1")
    assert not opens(houses[1], two, one.nonces, "row 1")


def test_no_nonce_is_used_twice_after_a_backup_was_restored(tmp_path: Path) -> None:
    """The restored database charges under the same number once more, for something else."""
    place, copy = tmp_path / "a.db", tmp_path / "b.db"
    house = House.create(str(place), tmp_path)
    house.open()
    house.storage.close()
    shutil.copy(place, copy)
    first = House.reopen(str(place), tmp_path)
    restored = House.reopen(str(copy), tmp_path)
    one, two = first.answer("row 1"), restored.answer("row 2")
    assert one.charge == two.charge
    assert not set(one.nonces.values()) & set(two.nonces.values())
    for each in (first, restored):
        each.storage.close()


def test_a_replayed_answer_gets_its_receipt_from_what_is_kept(tmp_path: Path) -> None:
    place = str(tmp_path / "a.db")
    house = House.create(place, tmp_path)
    house.open()
    first = house.answer()
    house.storage.close()
    later = House.reopen(place, tmp_path)
    again = later.answer()
    assert again.replayed
    assert again.nonces == first.nonces
    assert opens(later, again, again.nonces, "row 1")
    later.storage.close()


def test_a_ledger_of_the_first_version_is_refused_with_the_reason(tmp_path: Path) -> None:
    place = str(tmp_path / "old.db")
    house = House.create(place, tmp_path)
    house.storage.submit(lambda t: t.replace(PART_VERSIONS, PartVersion("ledger", 1)))
    house.storage.close()
    with pytest.raises(Refused, match=r"(?s)may count less than was granted.*new database"):
        open_storage(place, PARTS)
    with open_storage(place, PARTS[1:]) as storage:  # its log can still be read
        log = storage.submit(AuditLog.open)
        assert storage.submit(lambda t: log.head(t)).size == 0
