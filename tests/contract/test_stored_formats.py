"""What was written before `Protected` was one value is written alike, and read.

The texts in `stored/` were written by a version in which unit, relation and data set were three
fields of everything that speaks of them. Nothing in them may ever have to change.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from tests.contract.releases import CASES
from tests.protecting import explained_row_of, row_of
from tests.unit.core.test_explanation_file import COMPLETE, PROMISE
from tests.unit.ledger.examples import DATASET, Books
from voile.audit_log import BudgetOpenedRecord
from voile.audit_log.digests import guarantees_digest
from voile.audit_log.records import canonical_bytes, decode_record
from voile.core.guarantee import Guarantee, Protected, ProtectedUnit, Relation
from voile.core.storage import Table, Transaction
from voile.ledger.opening import Done
from voile.ledger.tables import ACCOUNTS, BALANCES, CHILDREN, DATASETS, ENTRIES, PLAN_PARTS
from voile.ledger.tree import row_from
from voile.workflows.budget import opened_record

_FOLDER = Path(__file__).parent / "stored"
RELEASES: dict[str, Any] = json.loads((_FOLDER / "releases.json").read_text())
LEDGER: dict[str, Any] = json.loads((_FOLDER / "ledger.json").read_text())
TABLES: tuple[Table[Any], ...] = (ACCOUNTS, BALANCES, CHILDREN, DATASETS, ENTRIES, PLAN_PARTS)
PROTECTED = {
    "clinic": row_of(DATASET),
    "wards": row_of(DATASET),
    "people": explained_row_of(DATASET),
    "users": Protected(ProtectedUnit.USER, Relation.ADD_OR_REMOVE_ONE, DATASET),
    "sites": Protected(ProtectedUnit.CLIENT, Relation.BLANK_ONE, DATASET),
}


def test_every_release_has_stored_texts() -> None:
    assert set(RELEASES) == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_a_release_is_the_same_question_as_before(name: str) -> None:
    """Answers are stored under a digest of this: another text would be charged a second time."""
    identity = CASES[name].build().identity
    said = [identity.model, identity.explainer, identity.level, identity.parameters]
    assert said == RELEASES[name]["identity"]


@pytest.mark.parametrize("name", CASES)
def test_its_guarantees_are_written_and_printed_as_before(name: str) -> None:
    case, before = CASES[name], RELEASES[name]
    promised = case.build().guarantees(case.count)
    assert [json.dumps(guarantee.to_dict()) for guarantee in promised] == before["guarantees"]
    assert [str(guarantee) for guarantee in promised] == before["printed"]
    assert tuple(Guarantee.from_dict(json.loads(text)) for text in before["guarantees"]) == promised


def test_an_explanation_file_has_the_same_bytes(tmp_path: Path) -> None:
    path = COMPLETE.save(tmp_path / "complete.voile")
    digest = "52bf423d05de7e219a6813291a792daeddba6bf61ebe4aac480146bc10a17f24"
    assert hashlib.sha256(path.read_bytes()).hexdigest() == digest
    promised = "ff3a9b8fabd7c57124e0908df752b2cb3ff093df8f1d062d35fa93594813b125"
    assert guarantees_digest((PROMISE,)).hex() == promised


def test_the_tables_of_a_ledger_are_read_and_written_as_before() -> None:
    books = stored_books()
    nodes = {node.account.name: node for node in books.storage.submit(books.ledger.nodes)}
    assert {name: node.account.protected for name, node in nodes.items()} == PROTECTED
    assert books.problems() == []
    kept = {row.name: row for row in books.storage.submit(lambda t: t.scan(ACCOUNTS))}
    for name, node in nodes.items():
        assert row_from(node.account, node.balance.terms) == kept[name]
    assert books.charge("wards").charge == "clinic#3"


def test_accounts_are_opened_on_record_as_before() -> None:
    books = stored_books()
    accounts = {
        node.account.name: node.account for node in books.storage.submit(books.ledger.nodes)
    }
    for text in LEDGER["records"]:
        record = decode_record(text.encode())
        assert isinstance(record, BudgetOpenedRecord)
        account = accounts[record.account]
        done = Done(account, "", 0, (), account.opened, ())
        assert canonical_bytes(opened_record(done)).decode() == text


def stored_books() -> Books:
    books = Books.memory()
    books.clock.time += 10  # after all that is in the journal
    books.storage.submit(_write)
    return books


def _write(t: Transaction) -> None:
    for table in TABLES:
        for row in LEDGER["tables"][table.name]:
            t.insert(table, _record(table, row))


def _record(table: Table[Any], row: list[Any]) -> Any:
    kinds = get_type_hints(table.record).values()
    return table.record(
        *(bytes.fromhex(v) if kind is bytes else v for kind, v in zip(kinds, row, strict=True))
    )
