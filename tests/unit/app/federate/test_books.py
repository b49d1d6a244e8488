"""What a federation tells its recorder is charged, logged and refused in each party's own books."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import replace
from pathlib import Path

import pytest
from tests.protecting import row_of

from voile.app.budget.verification import Evidence, verify
from voile.app.federate.books import PART as ROUNDS_PART
from voile.app.federate.books import ClientBooks, Promise, ServerBooks
from voile.core.errors import BudgetExceeded, InvalidInput, Refused, VerificationFailed
from voile.core.guarantee import Relation
from voile.federation import Outcome, Participation, RoundReport
from voile.privacy.events import Gaussian, PoissonSampled, PrivacyEvent, Repeated
from voile.records.audit_log import (
    AbsenceRecord,
    AuditLog,
    FederationRoundRecord,
    ParticipationRecord,
    RefusalRecord,
    SigningKey,
    decode_record,
)
from voile.records.audit_log.notes import KeyKind
from voile.records.ledger import Ledger
from voile.records.vault import Vault, open_vault

EVENT: PrivacyEvent = Repeated(PoissonSampled(Gaussian(4.0), 0.1, Relation.BLANK_ONE), 10)
PROMISE = Promise(row_of("study v1"), 2.0, 1e-5)


def opened(folder: Path) -> AbstractContextManager[Vault]:
    return open_vault(folder, "north.example/log", extra_parts=(ROUNDS_PART,))


@pytest.fixture
def books(tmp_path: Path) -> Iterator[Vault]:
    with opened(tmp_path / "north") as vault:
        yield vault


def asked(number: int, event: PrivacyEvent | None = EVENT) -> Participation:
    return Participation("north", "black box", number, event)


def records(books: Vault) -> list[object]:
    return [decode_record(r) for r in books.storage.submit(lambda t: books.log.records(t))]


def test_a_client_grants_its_plan_and_nothing_beyond(books: Vault) -> None:
    recorder = ClientBooks(books, "north", PROMISE, (EVENT, EVENT))
    recorder.before_participation(asked(1))
    recorder.before_participation(asked(2))
    with pytest.raises(BudgetExceeded):
        recorder.before_participation(asked(3))
    kinds = [type(record) for record in records(books)[1:]]
    assert kinds == [ParticipationRecord, ParticipationRecord, RefusalRecord]


def test_a_refused_participation_leaves_nothing_unsigned(tmp_path: Path) -> None:
    with open_vault(tmp_path, "north.example/log", signing=None) as books:
        recorder = ClientBooks(books, "north", PROMISE, (EVENT,))
        recorder.before_participation(asked(1))
        with pytest.raises(BudgetExceeded):
            recorder.before_participation(asked(2))
        assert isinstance(records(books)[-1], RefusalRecord)
        assert books.unsigned == 0


def test_another_event_than_planned_is_refused(books: Vault) -> None:
    recorder = ClientBooks(books, "north", PROMISE, (EVENT,))
    louder = Repeated(PoissonSampled(Gaussian(2.0), 0.1, Relation.BLANK_ONE), 10)
    with pytest.raises(BudgetExceeded):
        recorder.before_participation(asked(1, louder))
    with pytest.raises(Refused, match="has no privacy guarantee"):
        recorder.before_participation(asked(1, None))


def test_no_record_of_a_client_is_dated_more_finely_than_in_hours(books: Vault) -> None:
    """How long it took from one to the next depends on what was drawn."""
    exact = replace(books, ledger=Ledger(clock=lambda: 1_700_003_599.5))
    recorder = ClientBooks(exact, "north", PROMISE, (EVENT,))
    recorder.before_participation(asked(1))
    with pytest.raises(BudgetExceeded):
        recorder.before_participation(asked(2))
    assert {record.time for record in records(books)} == {1_700_002_800}  # type: ignore[attr-defined]


def test_the_log_alone_adds_up_to_the_ledger(books: Vault) -> None:
    ClientBooks(books, "north", PROMISE, (EVENT, EVENT)).before_participation(asked(1))
    published = books.publish()
    evidence = Evidence(books.policy, (("copy", bytes(published.note)),))
    report = verify(books.storage, books.ledger, books.log, evidence)
    assert report.failed is None


def test_books_are_found_again_with_their_account(tmp_path: Path) -> None:
    for _ in range(2):
        with opened(tmp_path) as books:
            ClientBooks(books, "north", PROMISE, (EVENT, EVENT)).before_participation(asked(1))
    with opened(tmp_path) as books, pytest.raises(BudgetExceeded):
        ClientBooks(books, "north", PROMISE, (EVENT, EVENT)).before_participation(asked(3))
    with ExitStack() as stack, pytest.raises(InvalidInput, match="this folder belongs to"):
        stack.enter_context(open_vault(tmp_path, "south.example/log"))


def test_the_server_writes_rounds_in_a_chain_and_who_fell_out(books: Vault) -> None:
    server = ServerBooks(books, PROMISE)
    outcomes = (("north", Outcome.ANSWERED), ("south", Outcome.LATE))
    first = RoundReport("black box", 1, outcomes, True, "digest one")
    second = RoundReport("black box", 2, outcomes[:1], True, "digest two")
    for report in (first, second, second):  # told twice after a crash
        server.after_round(report)
    server.after_round(RoundReport("surrogate", 1, outcomes[:1], True, "digest three"))
    found = records(books)
    absent, one, two, other = found
    assert isinstance(absent, AbsenceRecord)
    assert (absent.client, absent.outcome) == ("south", "late")
    assert isinstance(one, FederationRoundRecord)
    assert isinstance(two, FederationRoundRecord)
    assert isinstance(other, FederationRoundRecord)
    assert (one.clients, one.previous_hash) == (1, None)
    assert (two.round, two.previous_hash) == (2, one.published_hash)
    assert other.previous_hash is None


def test_a_round_that_was_written_is_known_without_reading_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the log is, and after a restart."""
    outcomes = (("north", Outcome.ANSWERED),)
    reports = [RoundReport("black box", n, outcomes, True, f"digest {n}") for n in (1, 2, 3)]

    def unread(*_: object, **__: object) -> None:
        raise AssertionError("the log was read")

    with monkeypatch.context() as patch:
        patch.setattr(AuditLog, "records", unread)
        patch.setattr(AuditLog, "record", unread)
        for report in (*reports, reports[2], reports[1]):
            with opened(tmp_path) as books:
                ServerBooks(books, PROMISE).after_round(report)
    again = RoundReport("black box", 2, outcomes, True, "another digest")
    with opened(tmp_path) as books:
        ServerBooks(books, PROMISE).after_round(again)
        rounds = [record for record in records(books) if isinstance(record, FederationRoundRecord)]
    assert [record.round for record in rounds] == [1, 2, 3, 2]
    chain = [(record.previous_hash, record.published_hash) for record in rounds]
    assert [before for before, _ in chain] == [None, *(after for _, after in chain[:-1])]


def test_a_party_is_signed_with_its_first_charge(tmp_path: Path) -> None:
    """While a run goes on, and if it is killed: books from before it are refused afterwards."""
    with open_vault(tmp_path, "north.example/log", signing=None) as books:
        before = shutil.copy(tmp_path / "log.db", tmp_path / "before.db")
        ClientBooks(books, "north", PROMISE, (EVENT, EVENT)).before_participation(asked(1))
        assert books.unsigned == 0
        assert (tmp_path / "audit.checkpoint").exists()
    shutil.copy(before, tmp_path / "log.db")
    with ExitStack() as stack, pytest.raises(VerificationFailed, match="set back"):
        stack.enter_context(open_vault(tmp_path, "north.example/log", signing=None))


def test_books_that_were_set_back_are_neither_opened_nor_charged(tmp_path: Path) -> None:
    """A client's and a server's: by the copy of the checkpoint beside the key."""
    with opened(tmp_path) as books:
        ClientBooks(books, "north", PROMISE, (EVENT, EVENT)).before_participation(asked(1))
    shutil.copy(tmp_path / "log.db", tmp_path / "backup.db")
    report = RoundReport("black box", 1, (("north", Outcome.ANSWERED),), True, "digest")
    with opened(tmp_path) as books:
        ClientBooks(books, "north", PROMISE, (EVENT, EVENT)).before_participation(asked(2))
        published = books.publish()
    copy = (tmp_path / "audit.checkpoint").read_bytes()
    assert copy == bytes(published.note)
    shutil.copy(tmp_path / "backup.db", tmp_path / "log.db")
    with ExitStack() as stack, pytest.raises(VerificationFailed, match="set back"):
        stack.enter_context(opened(tmp_path))
    (tmp_path / "audit.checkpoint").unlink()
    with ExitStack() as stack, pytest.raises(VerificationFailed, match="accept-checkpoint"):
        stack.enter_context(opened(tmp_path))
    # Of a log that was never signed the copy comes back while the books are open: a disk that was
    # away, another machine.
    with closing(sqlite3.connect(tmp_path / "log.db")) as database, database:
        database.execute("DELETE FROM audit_checkpoints")
    with opened(tmp_path) as books:
        (tmp_path / "audit.checkpoint").write_bytes(copy)
        before = records(books)
        with pytest.raises(VerificationFailed, match="set back"):
            ClientBooks(books, "north", PROMISE, (EVENT, EVENT)).before_participation(asked(2))
        with pytest.raises(VerificationFailed, match="set back"):
            ServerBooks(books, PROMISE).after_round(report)
        (node,) = books.storage.submit(books.ledger.nodes)
        assert records(books) == before
        assert node.standing.spent == (0.0,) * len(node.standing.spent)


def test_books_go_by_their_policy_file(tmp_path: Path) -> None:
    with opened(tmp_path) as books:
        rules = books.policy
    witness = SigningKey.generate("witness.example", KeyKind.WITNESS)
    asking = replace(rules, witness_keys=(witness.verifier,), threshold=1)
    (tmp_path / "audit-policy.toml").write_text(str(asking))
    with opened(tmp_path) as books:
        assert books.policy == asking
        assert books.publish().missing == 1
