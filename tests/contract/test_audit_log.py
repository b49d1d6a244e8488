"""The log on every storage: appends inside the caller's transaction, proofs, publishing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.records.audit_log.examples import (
    LOG_KEY,
    NONCES,
    ORIGIN,
    SmallLog,
    policy,
    release,
    signing_key,
)
from voile.core.errors import InvalidInput, VerificationFailed
from voile.records.audit_log import (
    PART,
    AuditLog,
    CheckpointAcceptedRecord,
    KeyChange,
    KeyRotationRecord,
    ReleaseRecord,
    SigningKey,
    canonical_bytes,
    decode_record,
    issue_receipt,
    publish,
    rotate,
    verify_receipt,
)
from voile.records.audit_log.log import CHECKPOINTS, HEADS, LEAVES, AppendedRecord, PublishedRow
from voile.records.audit_log.merkle import is_consistent, is_included, leaf_hash
from voile.records.audit_log.notes import Checkpoint, Note
from voile.records.audit_log.publishing import all_records, check_stored, latest_checkpoint
from voile.records.checkpoints import Keeper
from voile.records.storage import Part, Session, Storage, Table, Transaction, storage_on


@dataclass(frozen=True)
class Charge:
    number: int


CHARGES = Table("charges", Charge, key=("number",))
LEDGER = Part("ledger of this test", (CHARGES,))

NewSession = Callable[[], Session]


@pytest.fixture
def storage(new_session: NewSession) -> Iterator[Storage]:
    with storage_on(new_session(), [PART, LEDGER]) as opened:
        yield opened


@pytest.fixture
def log(storage: Storage) -> AuditLog:
    return storage.submit(lambda t: AuditLog.create(t, ORIGIN))


def append(storage: Storage, log: AuditLog, count: int, first: int = 0) -> None:
    def command(t: Transaction) -> None:
        for number in range(first, first + count):
            log.append(t, release(number))

    storage.submit(command)


class TestLog:
    def test_an_append_says_where_the_record_went(self, storage: Storage, log: AuditLog) -> None:
        for number in range(5):
            record = release(number)
            expected = AppendedRecord(number, leaf_hash(canonical_bytes(record)))
            assert storage.submit(lambda t, r=record: log.append(t, r)) == expected  # type: ignore[misc]

    def test_records_come_back_in_order_and_by_page(self, storage: Storage, log: AuditLog) -> None:
        append(storage, log, 12)
        expected = [canonical_bytes(release(number)) for number in range(12)]
        assert storage.submit(log.records) == expected
        page = storage.submit(lambda t: log.records(t, first=5, limit=3))
        assert page == expected[5:8]
        assert list(all_records(storage, log, 9)) == expected[:9]
        assert storage.submit(lambda t: log.record(t, 7)) == expected[7]

    def test_it_opens_again(self, new_session: NewSession) -> None:
        with storage_on(new_session(), [PART]) as storage:
            log = storage.submit(lambda t: AuditLog.create(t, ORIGIN))
            append(storage, log, 6)
            head = storage.submit(log.head)
        with storage_on(new_session(), [PART]) as storage:
            again = storage.submit(AuditLog.open)
            assert again == log
            assert storage.submit(again.head) == head
            append(storage, again, 3, first=6)
            assert check_stored(storage, again).size == 9

    def test_a_database_holds_one_log(self, storage: Storage, log: AuditLog) -> None:
        with pytest.raises(InvalidInput, match="already"):
            storage.submit(lambda t: AuditLog.create(t, "another.example/log"))
        with pytest.raises(InvalidInput, match="holds the log"):
            storage.submit(lambda t: AuditLog("another.example/log").append(t, release()))
        assert storage.submit(AuditLog.open) == log

    def test_without_a_log_nothing_is_appended(self, storage: Storage) -> None:
        with pytest.raises(InvalidInput, match="voile audit init"):
            storage.submit(lambda t: AuditLog(ORIGIN).append(t, release()))
        with pytest.raises(InvalidInput, match="voile audit init"):
            storage.submit(AuditLog.open)

    def test_an_origin_that_notes_cannot_carry_is_refused(self, storage: Storage) -> None:
        with pytest.raises(InvalidInput, match="origin"):
            storage.submit(lambda t: AuditLog.create(t, "two words"))


class TestTheCallersTransaction:
    """Charge, answer and log record happen together or not at all."""

    def test_a_command_that_fails_later_leaves_no_record(
        self, storage: Storage, log: AuditLog
    ) -> None:
        append(storage, log, 3)
        before = storage.submit(log.head)

        def charge_and_fail(t: Transaction) -> None:
            t.insert(CHARGES, Charge(1))
            log.append(t, release(3))
            raise RuntimeError("the answer could not be stored")

        with pytest.raises(RuntimeError, match="could not be stored"):
            storage.submit(charge_and_fail)
        assert storage.submit(log.head) == before
        assert storage.submit(lambda t: t.scan(CHARGES)) == []
        append(storage, log, 1, first=3)
        assert check_stored(storage, log).size == 4

    def test_a_refused_record_leaves_the_charge_to_the_caller(
        self, storage: Storage, log: AuditLog
    ) -> None:
        too_long = ReleaseRecord(**{**vars(release()), "account": "x" * 2000})

        def charge(t: Transaction) -> None:
            t.insert(CHARGES, Charge(1))
            log.append(t, too_long)

        with pytest.raises(InvalidInput, match="at most"):
            storage.submit(charge)
        assert storage.submit(lambda t: t.scan(CHARGES)) == []
        assert storage.submit(log.head).size == 0

    def test_several_records_in_one_transaction(self, storage: Storage, log: AuditLog) -> None:
        append(storage, log, 5)
        append(storage, log, 6, first=5)
        assert check_stored(storage, log).size == 11

    def test_many_threads_lose_no_record(self, storage: Storage, log: AuditLog) -> None:
        places: list[int] = []

        def work(worker: int) -> None:
            for number in range(10):
                record = release(100 * worker + number)
                done = storage.submit(lambda t, r=record: log.append(t, r))  # type: ignore[misc]
                places.append(done.number)

        threads = [threading.Thread(target=work, args=(worker,)) for worker in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert sorted(places) == list(range(120))
        assert check_stored(storage, log).size == 120

    def test_an_append_is_one_read_and_two_writes_whatever_the_size(
        self, storage: Storage, log: AuditLog
    ) -> None:
        append(storage, log, 63)

        def counted(t: Transaction) -> list[str]:
            counter = CountingTransaction(t)
            log.append(counter, release(63))  # completes subtrees on all levels
            return counter.calls

        assert storage.submit(counted) == ["get", "insert", "replace"]


class CountingTransaction:
    """Passes everything on and writes down what was called."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self.memory: dict[Any, Any] = {}  # as after another process has written
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        self.calls.append(name)
        return getattr(self._transaction, name)

    insert: Any
    replace: Any
    get: Any
    scan: Any


class TestProofs:
    SIZE = 45

    def test_all_proofs_of_a_stored_log_verify(self, storage: Storage, log: AuditLog) -> None:
        append(storage, log, self.SIZE)
        roots = storage.submit(lambda t: [log.root_at(t, n) for n in range(self.SIZE + 1)])
        leaves = [leaf_hash(canonical_bytes(release(n))) for n in range(self.SIZE)]

        def all_hold(t: Transaction) -> bool:
            return all(
                is_included(leaves[i], i, n, log.inclusion_proof(t, i, n), roots[n])
                for n in range(1, self.SIZE + 1, 3)
                for i in range(n)
            ) and all(
                is_consistent(m, n, log.consistency_proof(t, m, n), roots[m], roots[n])
                for n in range(1, self.SIZE + 1, 3)
                for m in range(n + 1)
            )

        assert storage.submit(all_hold)
        assert roots[-1] == storage.submit(log.head).root

    def test_sizes_that_are_not_there_are_refused(self, storage: Storage, log: AuditLog) -> None:
        append(storage, log, 5)
        asks: list[Callable[[Transaction], object]] = [
            lambda t: log.inclusion_proof(t, 5, 5),
            lambda t: log.inclusion_proof(t, -1, 5),
            lambda t: log.inclusion_proof(t, 0, 6),
            lambda t: log.consistency_proof(t, 4, 6),
            lambda t: log.consistency_proof(t, 4, 3),
            lambda t: log.consistency_proof(t, -1, 3),
            lambda t: log.root_at(t, 6),
            lambda t: log.record(t, 5),
        ]
        for ask in asks:
            with pytest.raises(InvalidInput):
                storage.submit(ask)


class TestPublishing:
    RULES = policy(0)

    def test_a_receipt_of_a_published_checkpoint_verifies(
        self, storage: Storage, log: AuditLog
    ) -> None:
        append(storage, log, 9)
        published = publish(storage, log, self.RULES, [LOG_KEY])
        assert latest_checkpoint(storage) == bytes(published.note)
        for index in range(9):
            receipt = issue_receipt(storage, log, index, NONCES)
            assert verify_receipt(bytes(receipt), self.RULES).verified

    def test_a_record_waits_for_a_checkpoint_that_covers_it(
        self, storage: Storage, log: AuditLog
    ) -> None:
        append(storage, log, 3)
        with pytest.raises(InvalidInput, match="published"):
            issue_receipt(storage, log, 0)
        publish(storage, log, self.RULES, [LOG_KEY])
        append(storage, log, 1, first=3)
        with pytest.raises(InvalidInput, match="not among them"):
            issue_receipt(storage, log, 3)
        publish(storage, log, self.RULES, [LOG_KEY])
        assert issue_receipt(storage, log, 3).index == 3
        assert (
            Checkpoint.parse(
                Note.parse(issue_receipt(storage, log, 0, size=3).checkpoint).text
            ).size
            == 3
        )

    def test_publishing_twice_keeps_all_signatures(self, storage: Storage, log: AuditLog) -> None:
        new = signing_key("new")
        rules = policy(0, [LOG_KEY, new])
        append(storage, log, 3)
        publish(storage, log, rules, [LOG_KEY])
        publish(storage, log, rules, [new])
        latest = latest_checkpoint(storage)
        assert latest is not None
        assert len(Note.parse(latest).signers(rules.log_keys)) == 2

    def test_rotation_is_a_record_signed_by_both(self, storage: Storage, log: AuditLog) -> None:
        new = signing_key("new")
        rules = policy(0, [LOG_KEY, new])
        append(storage, log, 4)
        publish(storage, log, rules, [LOG_KEY])
        old_receipt = bytes(issue_receipt(storage, log, 1))
        published = rotate(storage, log, rules, KeyChange(LOG_KEY, new, "yearly"))
        assert len(published.note.signers(rules.log_keys)) == 2
        record = decode_record(storage.submit(lambda t: log.record(t, 4)))
        assert isinstance(record, KeyRotationRecord)
        assert (record.old_key, record.new_key) == (str(LOG_KEY.verifier), str(new.verifier))
        append(storage, log, 1, first=5)
        publish(storage, log, rules, [new])
        for receipt in (old_receipt, bytes(issue_receipt(storage, log, 5))):
            assert verify_receipt(receipt, rules).verified

    def test_keys_outside_the_policy_sign_nothing(self, storage: Storage, log: AuditLog) -> None:
        for signers in ([], [signing_key("stranger")]):
            with pytest.raises(InvalidInput, match="log_keys"):
                publish(storage, log, self.RULES, signers)
        assert latest_checkpoint(storage) is None

    def test_a_policy_of_another_log_is_refused(self, storage: Storage, log: AuditLog) -> None:
        other = signing_key("log", name="other.example")
        with pytest.raises(InvalidInput, match="the policy is for"):
            publish(storage, log, policy(0, [other], "other.example"), [other])


class TestTampering:
    """Whoever can write to the database can change it; publishing and checking notice."""

    def test_a_changed_record_shows(self, storage: Storage, log: AuditLog) -> None:
        append(storage, log, 10)

        def change(t: Transaction) -> None:
            leaf = t.get(LEAVES, 4)
            assert leaf is not None
            record = canonical_bytes(release(99))
            t.replace(LEAVES, type(leaf)(leaf.number, record, leaf.hashes))

        storage.submit(change)
        with pytest.raises(VerificationFailed, match="changed or removed"):
            check_stored(storage, log)

    def test_a_rewritten_history_is_not_signed(self, storage: Storage, log: AuditLog) -> None:
        append(storage, log, 10)
        publish(storage, log, policy(0), [LOG_KEY])

        def rewrite(t: Transaction) -> None:
            """All hashes made to fit, as the log's own code would."""
            head = t.get(HEADS, "log")
            assert head is not None
            t.replace(HEADS, type(head)(head.name, head.origin, head.size, b"x" * len(head.edge)))

        storage.submit(rewrite)
        with pytest.raises(VerificationFailed, match="nothing was signed"):
            publish(storage, log, policy(0), [LOG_KEY])

    def test_a_database_set_back_does_not_extend_what_was_seen(
        self, storage: Storage, log: AuditLog
    ) -> None:
        """The restored copy is sound by itself: only a checkpoint kept elsewhere tells."""
        append(storage, log, 6)
        seen = bytes(SmallLog.of([release(n) for n in range(9)]).note(9))
        with pytest.raises(VerificationFailed, match="set back"):
            publish(storage, log, policy(0), [LOG_KEY], seen=seen)
        assert latest_checkpoint(storage) is None
        append(storage, log, 3, first=6)
        assert publish(storage, log, policy(0), [LOG_KEY], seen=seen).checkpoint.size == 9

    @pytest.mark.parametrize("seen", [b"", b"nonsense", b"a\n1\n\n"])
    def test_a_damaged_earlier_checkpoint_stops_publishing(
        self, storage: Storage, log: AuditLog, seen: bytes
    ) -> None:
        with pytest.raises(VerificationFailed, match="damaged"):
            publish(storage, log, policy(0), [LOG_KEY], seen=seen)


class TestALostCopy:
    """A signed log whose pinned checkpoint is gone grows by nothing until somebody accepts it."""

    def test_it_is_refused_and_not_pinned_anew(
        self, storage: Storage, log: AuditLog, tmp_path: Path
    ) -> None:
        keeper, known = signed_once(storage, log, tmp_path)
        keeper.copy.unlink()
        for attempt in (
            lambda: append(storage, known, 1, first=5),
            lambda: storage.submit(known.check),
            lambda: storage.read_snapshot(known.check),
            lambda: publish(storage, known, policy(0), [LOG_KEY]),
        ):
            with pytest.raises(
                VerificationFailed, match="audit accept-checkpoint DATABASE --reason"
            ):
                attempt()
        for signer in (LOG_KEY, None):
            elsewhere = replace(keeper, signer=signer)
            for said in (elsewhere.keep(storage, log), elsewhere.keep_up(storage, log)):
                assert isinstance(said.error, VerificationFailed)
        assert not keeper.copy.exists()
        assert storage.submit(log.head).size == 5

    @pytest.mark.parametrize("signer", [LOG_KEY, None])
    def test_what_was_accepted_is_pinned_and_on_the_log(
        self, storage: Storage, log: AuditLog, tmp_path: Path, signer: SigningKey | None
    ) -> None:
        keeper, known = signed_once(storage, log, tmp_path)
        keeper = replace(keeper, signer=signer)
        with pytest.raises(InvalidInput, match="is not lost"):
            keeper.accept(storage, "why not")
        before = storage.submit(log.head)
        keeper.copy.unlink()
        with pytest.raises(InvalidInput, match="say why"):
            keeper.accept(storage, " ")
        accepted = keeper.accept(storage, "the disk was replaced")
        assert accepted.size == (5 if signer is None else 6)
        record = decode_record(storage.submit(lambda t: log.record(t, 5)))
        assert isinstance(record, CheckpointAcceptedRecord)
        assert (record.size, record.root) == (before.size, before.root)
        assert record.reason == "the disk was replaced"
        append(storage, known, 1, first=6)

    def test_nothing_is_accepted_that_was_never_signed_or_does_not_extend_its_own_checkpoint(
        self, storage: Storage, log: AuditLog, tmp_path: Path
    ) -> None:
        keeper = Keeper(policy(0), tmp_path / "audit.checkpoint", LOG_KEY)
        with pytest.raises(InvalidInput, match="no signed checkpoint yet"):
            keeper.accept(storage, "why not")
        append(storage, log, 5)
        other = bytes(SmallLog.of([release(n) for n in range(9)]).note(9))
        storage.submit(lambda t: t.insert(CHECKPOINTS, PublishedRow(9, other)))
        with pytest.raises(VerificationFailed, match="nothing was accepted"):
            keeper.accept(storage, "why not")
        assert not keeper.copy.exists()

    def test_the_first_checkpoint_is_kept_before_it_is_published(
        self, storage: Storage, log: AuditLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Killed in between, the next command is not told that the copy was lost."""
        append(storage, log, 5)
        keeper = Keeper(policy(0), tmp_path / "audit.checkpoint", LOG_KEY)

        def killed(*_: object) -> Note:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr("voile.records.audit_log.publishing._store", killed)
            with pytest.raises(KeyboardInterrupt):
                keeper.publish(storage, log)
        assert keeper.copy.exists()
        assert keeper.publish(storage, log).checkpoint.size == 5


def signed_once(storage: Storage, log: AuditLog, folder: Path) -> tuple[Keeper, AuditLog]:
    append(storage, log, 5)
    keeper = Keeper(policy(0), folder / "audit.checkpoint", LOG_KEY)
    keeper.publish(storage, log)
    return keeper, keeper.knows(log)
