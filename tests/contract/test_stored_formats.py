"""What was written before `Protected` was one value is written alike, and read.

The texts in `stored/` were written by a version in which unit, relation and data set were three
fields of everything that speaks of them. Nothing in them may ever have to change.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pytest

from tests.contract.releases import CASES, PEOPLE, SCHEMA
from tests.protecting import explained_row_of, row_of
from tests.unit.app.budget_examples import House
from tests.unit.core.test_explanation_file import COMPLETE, PROMISE
from tests.unit.records.ledger.examples import DATASET, Books
from voile.app.budget import opened_record
from voile.app.explain import (
    Answer,
    NoisyAnswer,
    ReleaseService,
    Request,
    paid_clusters,
    paid_synthetic_background,
)
from voile.core.explanation import Explanation
from voile.core.guarantee import Guarantee, Protected, ProtectedUnit, Relation
from voile.core.row_note import KnownNote, RowNote
from voile.records.audit_log import BudgetOpenedRecord
from voile.records.audit_log.digests import explanation_bytes, explanation_rows, guarantees_digest
from voile.records.audit_log.records import canonical_bytes, decode_record
from voile.records.ledger.event_text import event_text
from voile.records.ledger.opening import AccountChange
from voile.records.ledger.tables import ACCOUNTS, BALANCES, CHILDREN, DATASETS, ENTRIES, PLAN_PARTS
from voile.records.ledger.tree import row_from
from voile.records.storage import Table, Transaction
from voile.release import PrivateClusters, PrivateHistograms

_FOLDER = Path(__file__).parent / "stored"
RELEASES: dict[str, Any] = json.loads((_FOLDER / "releases.json").read_text())
STORED_ARTEFACTS: dict[str, Any] = json.loads((_FOLDER / "artefacts.json").read_text())
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
    (identity,) = CASES[name].build().identity.earlier or (None,)
    if identity is None:
        assert CASES[name].build().cost(1) is None  # nothing is stored of what costs nothing
        return
    said = [identity.model, identity.explainer, identity.level, identity.parameters]
    assert said == RELEASES[name]["identity"]


@pytest.mark.parametrize("name", CASES)
def test_its_guarantees_are_written_and_printed_as_before(name: str) -> None:
    case, before = CASES[name], RELEASES[name]
    promised = case.build().guarantees(case.count)
    stored = [Guarantee.from_dict(json.loads(text)) for text in before["guarantees"]]
    assert [json.dumps(guarantee.to_dict()) for guarantee in stored] == before["guarantees"]
    # Processors round the norm of a design differently in its last bit, and epsilon follows.
    assert [guarantee.epsilon for guarantee in promised] == pytest.approx(
        [guarantee.epsilon for guarantee in stored], rel=1e-12
    )
    same = [replace(new, epsilon=old.epsilon) for new, old in zip(promised, stored, strict=True)]
    assert same == stored
    # The tag in files is "blank one"; people read "zero-out".
    printed = [
        text.replace(", blank one, against", ", zero-out, against") for text in before["printed"]
    ]
    assert [str(guarantee) for guarantee in promised] == printed


def test_an_explanation_file_has_the_same_bytes(tmp_path: Path) -> None:
    before = _FOLDER / "saved" / "complete.voile"  # in version 1 of the format
    digest = "52bf423d05de7e219a6813291a792daeddba6bf61ebe4aac480146bc10a17f24"
    assert hashlib.sha256(before.read_bytes()).hexdigest() == digest
    assert Explanation.load(before) == COMPLETE
    path = COMPLETE.save(tmp_path / "complete.voile")
    digest = "42c9269f4ac947923b54978a497445ed90f6be98455c8d0bb9a18f916c27e5d9"
    assert hashlib.sha256(path.read_bytes()).hexdigest() == digest
    promised = "ff3a9b8fabd7c57124e0908df752b2cb3ff093df8f1d062d35fa93594813b125"
    assert guarantees_digest((PROMISE,)).hex() == promised


@pytest.mark.parametrize(
    ("name", "relation"),
    [
        ("synthetic background, blank one", Relation.BLANK_ONE),
        ("synthetic background, add or remove one", Relation.ADD_OR_REMOVE_ONE),
        ("clusters of features", Relation.BLANK_ONE),
    ],
)
def test_an_artefact_is_asked_for_and_charged_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, relation: Relation
) -> None:
    """When an artefact was no release yet: asked again, it must be found and not charged again."""
    asked: list[Request] = []
    answer = ReleaseService.answer_request

    def answered(
        service: ReleaseService, request: Request, draw: Callable[[], NoisyAnswer], **given: Any
    ) -> Answer:
        asked.append(request)
        return answer(service, request, draw, **given)

    house = House.create("memory:", tmp_path)
    house.open("clinic", relation=relation, epsilon=2.0)
    monkeypatch.setattr(ReleaseService, "answer_request", answered)
    where: Any = (house.service, "clinic", PEOPLE, SCHEMA)
    if name == "clusters of features":
        paid_clusters(*where, epsilon=1.0, delta=1e-6, count=2)
    else:
        paid_synthetic_background(*where, epsilon=1.0, delta=1e-6, size=20)
    (request,) = asked
    assert {
        "question": request.question.earlier[0].canonical_bytes.decode(),
        "event": event_text(request.event),
        "guarantees": [json.dumps(guarantee.to_dict()) for guarantee in request.guarantees],
        "subject": request.subject,
        "purpose": request.purpose,
        "caller": request.caller,
        "part": str(request.part),
    } == STORED_ARTEFACTS[name]


def test_artefacts_are_kept_as_before() -> None:
    stored = STORED_ARTEFACTS["content"]
    settings: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
    found = PrivateHistograms(PEOPLE, SCHEMA, protected=row_of("people 1"), size=4, **settings)
    content = bytes.fromhex(stored["synthetic background"])
    made = found.codec.unpack(content)
    assert np.array_equal(made.rows, np.arange(12.0).reshape(4, 3))
    assert [counts.tolist() for counts in made.histograms] == [[*range(n)] for n in (16, 2, 11)]
    assert found.codec.pack(made) == content
    joined = PrivateClusters(PEOPLE, SCHEMA, protected=row_of("people 1"), count=2, **settings)
    content = stored["clusters of features"].encode()
    groups = {"age + dose": ("age", "dose"), "sex": ("sex",)}
    assert joined.codec.unpack(content).groups == groups
    assert joined.codec.pack(joined.codec.unpack(content)) == content


def test_notes_that_were_texts_are_known_again(tmp_path: Path) -> None:
    path = _FOLDER / "notes.voile"
    loaded = Explanation.load(path)
    known = {note for note in loaded.notes if isinstance(note, KnownNote)}
    younger = {KnownNote.ABSOLUTE, KnownNote.NOT_ADDITIVE}  # than the file
    assert known == set(KnownNote) - younger
    assert all(map(loaded.carries, known))
    assert loaded.notes[0] == "public reference rows"
    assert loaded.notes[3] == RowNote("tolerance not reached", (1,))
    assert Explanation.load(loaded.save(tmp_path / "again.voile")) == loaded
    before = "1884ede9981151e8eac9197ee7524b8243fcde48ce948ba1d1b1bf3cfaa33ad9"
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before
    whole = "fb1a72b5f87f535b947f312bfd053e2cdfd28eb3315d1fa424c7b013cf4641c2"
    rows = "8f6bf36dd5b8e1f74958b9eda9cbbd7c0d2cd2faafe1b5cc8e268ec8603bf997"
    assert hashlib.sha256(explanation_bytes(loaded)).hexdigest() == whole
    assert hashlib.sha256(b"".join(explanation_rows(loaded))).hexdigest() == rows


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
        done = AccountChange(account, "", 0, (), account.opened, ())
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
