"""Checkpoints are signed by a schedule, when a log is closed, and when a receipt needs one."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.unit.app.explain.examples import ROWS, clipped, free
from tests.unit.records.audit_log.examples import WITNESS_KEYS
from tests.unit.records.ledger.examples import opening
from voile.app.budget import open_budget
from voile.app.explain import ReleasedExplanation, ReleaseService, RowsToExplain
from voile.core.errors import InvalidInput, StorageFault, StorageFull, VerificationFailed
from voile.core.guarantee import ProtectedUnit, Relation
from voile.records.audit_log import PinnedCheckpoint, Policy, UnsignedRecord, verify_receipt
from voile.records.audit_log.publishing import latest_checkpoint
from voile.records.checkpoints import Keeper, Kept
from voile.records.ledger import Children, ReplayKey
from voile.records.storage import Transaction
from voile.records.vault import (
    Place,
    ScheduledSigning,
    SigningSchedule,
    Vault,
    open_vault,
    open_vault_at,
)

ORIGIN = "example.org/clinic"
NEVER = SigningSchedule(records=10**6, seconds=10**6)
EVERY = SigningSchedule(records=1, seconds=10**6)


class Clock:
    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time


class Signer:
    """Counts how often it was to sign; waits and fails as it is told."""

    def __init__(self) -> None:
        self.done = threading.Semaphore(0)
        self.count = 0
        self.error: Exception | None = None

    def __call__(self) -> Kept:
        self.count += 1
        self.done.release()
        if isinstance(self.error, StorageFull):
            return Kept("not published", error=self.error)
        if self.error is not None:
            raise self.error
        return Kept("signed")

    def wait(self) -> None:
        assert self.done.acquire(timeout=30)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def signer() -> Signer:
    return Signer()


@pytest.fixture
def signing(clock: Clock, signer: Signer) -> Iterator[ScheduledSigning]:
    made = ScheduledSigning(SigningSchedule(3, 60), signer, size=5, clock=clock)
    yield made
    made.close()


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.002)


class TestSchedule:
    @pytest.mark.parametrize(("records", "seconds"), [(0, 1), (1, 0), (1, math.inf), (1, math.nan)])
    def test_what_is_never_due_is_refused(self, records: int, seconds: float) -> None:
        with pytest.raises(InvalidInput, match="at least one record"):
            SigningSchedule(records, seconds)

    def test_nothing_is_due_while_everything_is_signed(
        self, signing: ScheduledSigning, signer: Signer
    ) -> None:
        assert signing.due_in() == math.inf
        signing.grew(5)
        signing.close()
        assert signing.due_in() == math.inf
        assert signer.count == 0

    def test_seconds_count_from_the_first_unsigned_record(
        self, signing: ScheduledSigning, clock: Clock, signer: Signer
    ) -> None:
        signing.grew(6)
        clock.time = 40
        assert signing.due_in() == 20
        assert signer.count == 0
        clock.time = 61
        signing.grew(7)  # two records, and late
        signer.wait()

    def test_so_many_records_are_enough(self, signing: ScheduledSigning, signer: Signer) -> None:
        signing.grew(7)
        assert signing.due_in() == 60
        signing.grew(8)
        signer.wait()
        eventually(lambda: signing.due_in() == math.inf)
        signing.grew(9)
        assert signing.due_in() == 60

    def test_it_is_signed_while_nothing_happens(self, signer: Signer) -> None:
        made = ScheduledSigning(SigningSchedule(100, 0.01), signer)
        made.grew(1)
        signer.wait()
        made.close()

    def test_closing_signs_what_is_left(self, signing: ScheduledSigning, signer: Signer) -> None:
        signing.grew(6)
        signing.close()
        signing.close()
        assert signer.count == 1
        signing.grew(20)
        assert signer.count == 1

    @pytest.mark.parametrize(
        "error", [StorageFull("no room"), StorageFault("replaced"), RuntimeError("unexpected")]
    )
    def test_what_failed_is_told_and_tried_again(
        self,
        signing: ScheduledSigning,
        signer: Signer,
        clock: Clock,
        error: Exception,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        signer.error, clock.time = error, 1000.0
        signing.grew(8)
        signer.wait()
        eventually(lambda: signing.due_in() == 60)  # not at once: the disk is still full
        (told,) = caplog.records
        assert told.levelno >= logging.WARNING
        assert bool(told.exc_info) == isinstance(error, RuntimeError)  # a fault has its own words
        clock.time += 61
        signer.error = None
        signing.grew(9)
        signer.wait()
        eventually(lambda: signing.due_in() == math.inf)

    def test_what_is_appended_meanwhile_is_not_forgotten(self, clock: Clock) -> None:
        begun, may_end = threading.Event(), threading.Event()

        def sign() -> Kept:
            begun.set()
            assert may_end.wait(30)
            return Kept("signed")

        made = ScheduledSigning(SigningSchedule(1, 60), sign, clock=clock)
        made.grew(1)
        assert begun.wait(30)
        made.grew(2)  # returns at once
        begun.clear()
        may_end.set()
        assert begun.wait(30)
        made.close()

    def test_an_append_does_not_fail_for_want_of_a_thread(
        self, signing: ScheduledSigning, signer: Signer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def none_left(_: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr(threading.Thread, "start", none_left)
        signing.grew(9)
        signing.close()
        assert signer.count == 1


# --- a log that is held open ---------------------------------------------------------------------


def opened(folder: Path, schedule: SigningSchedule | None) -> AbstractContextManager[Vault]:
    return open_vault(folder, ORIGIN, schedule)


def open_people(vault: Vault) -> None:
    account = opening(
        "people",
        unit=ProtectedUnit.EXPLAINED_ROW,
        relation=Relation.REPLACE_ONE,
        children=Children.PARALLEL,
        epsilon=50.0,
        delta=1e-5,
    )
    open_budget(vault.storage, vault.ledger, vault.log, account, caller="x")


def answer(vault: Vault, name: str | None = "ada", **changes: Any) -> ReleasedExplanation:
    asked: dict[str, Any] = {"payer": "people", "caller": "analyst"} | changes
    rows = RowsToExplain(ROWS[:1], identifiers=[name])
    return ReleaseService(vault).answer(clipped(), rows, **asked)


def kept_size(folder: Path) -> int:
    policy = Policy.parse((folder / "audit-policy.toml").read_text())
    kept = PinnedCheckpoint(folder / "audit.checkpoint", policy).read()
    return 0 if kept is None else kept.size


def test_answers_are_signed_while_the_log_is_open(tmp_path: Path) -> None:
    with opened(tmp_path, SigningSchedule(records=4, seconds=10**6)) as vault:
        open_people(vault)
        answer(vault)  # opens an account and charges it: three records so far
        assert vault.unsigned == 3
        answer(vault, "bob")
        eventually(lambda: vault.unsigned == 0)
        eventually(lambda: kept_size(tmp_path) == 5)
        answer(vault, "carol")
        assert vault.unsigned == 2
    assert kept_size(tmp_path) == 7


@pytest.mark.parametrize("schedule", [None, NEVER])
def test_what_is_kept_stays_where_it_was_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, schedule: SigningSchedule | None
) -> None:
    """A process may go elsewhere while its books are open: nothing is looked for or made there."""
    books, elsewhere = tmp_path / "books", tmp_path / "elsewhere"
    (elsewhere / "books").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    with opened(Path("books"), schedule) as vault:
        open_people(vault)
        monkeypatch.chdir(elsewhere)
        answer(vault)
        vault.publish()
        assert kept_size(books) == 3
        assert len(vault.kept_copies) == 1
    assert ReplayKey.load(books / "replay.key") == vault.key
    monkeypatch.chdir(tmp_path)
    with open_vault_at(Place.within(Path("books")), schedule) as vault:
        monkeypatch.chdir(elsewhere)
        assert answer(vault).replayed
        answer(vault, "bob")
        vault.publish()
    assert kept_size(books) == 5
    assert list((elsewhere / "books").iterdir()) == []


def test_a_log_is_signed_when_it_is_closed_even_after_an_error(tmp_path: Path) -> None:
    def fail() -> None:
        with opened(tmp_path, NEVER) as vault:
            open_people(vault)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert kept_size(tmp_path) == 1


def test_a_short_job_signs_at_its_end_itself(tmp_path: Path) -> None:
    with opened(tmp_path, None) as vault:
        open_people(vault)
    assert kept_size(tmp_path) == 0


def test_what_was_left_unsigned_is_signed_after_the_next_opening(tmp_path: Path) -> None:
    with opened(tmp_path, None) as vault:
        open_people(vault)
    with opened(tmp_path, NEVER) as vault:
        assert vault.unsigned == 1
    assert kept_size(tmp_path) == 1
    with opened(tmp_path, None) as vault:
        answer(vault)
    with opened(tmp_path, EVERY) as vault:
        eventually(lambda: vault.unsigned == 0)


def test_who_finds_everything_signed_signs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = list[Any]()
    publish = Keeper.publish

    def counted(keeper: Keeper, *given: Any) -> Any:
        published.append(given)
        return publish(keeper, *given)

    monkeypatch.setattr(Keeper, "publish", counted)
    with opened(tmp_path, NEVER) as vault:
        open_people(vault)
        vault.publish()
        with opened(tmp_path, NEVER):
            pass
    assert len(published) == 1


def test_a_record_that_was_given_up_is_not_waited_for(tmp_path: Path) -> None:
    with opened(tmp_path, NEVER) as vault:
        open_people(vault)

        def fail(t: Transaction) -> None:
            vault.log.append_encoded(t, vault.log.record(t, 0))  # type: ignore[arg-type]
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            vault.storage.submit(fail)
    assert kept_size(tmp_path) == 1


def test_no_answer_waits_for_a_signature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, may_end = threading.Event(), threading.Event()
    keep_up = Keeper.keep_up

    def slow(keeper: Keeper, *given: Any) -> Kept:
        begun.set()
        assert may_end.wait(30)
        return keep_up(keeper, *given)

    monkeypatch.setattr(Keeper, "keep_up", slow)
    with opened(tmp_path, EVERY) as vault:
        open_people(vault)
        assert begun.wait(30)
        assert not answer(vault).replayed
        may_end.set()
    assert kept_size(tmp_path) == 3


def test_a_witness_that_is_down_stops_no_answer_and_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(tmp_path, None):
        pass
    path = tmp_path / "audit-policy.toml"
    rules = Policy.parse(path.read_text())
    wanted = Policy(ORIGIN, rules.log_keys, (WITNESS_KEYS[0].verifier,), 1, ("http://127.0.0.1:9",))
    path.write_text(str(wanted))
    with opened(tmp_path, EVERY) as vault:
        open_people(vault)
        answer(vault)
    assert kept_size(tmp_path) == 3
    said = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert said
    assert "1 cosignature(s) required by the policy are missing" in said[-1]


# --- receipts ------------------------------------------------------------------------------------


def test_a_receipt_has_a_checkpoint_signed_if_it_needs_one(tmp_path: Path) -> None:
    with opened(tmp_path, None) as vault:
        open_people(vault)
        first = answer(vault)
        receipt = ReleaseService(vault).receipt(first.charges[0])
        assert vault.unsigned == 0
        second = answer(vault, "bob")
        ReleaseService(vault).receipt(first.charges[0])
        assert vault.unsigned == 2  # its own record is signed
        proofs = ReleaseService(vault).receipts(second)
        called = ReleaseService(vault).answer(free(), ROWS, caller="x")
        ReleaseService(vault).row_receipt(called, 0)
        assert vault.unsigned == 0
        rules = vault.policy
    (entry,) = first.entries
    assert verify_receipt(bytes(receipt), rules, query=entry.question, answer=entry.answer).verified
    (entry,) = second.entries
    assert verify_receipt(bytes(proofs[0]), rules, answer=entry.answer).verified


def test_where_the_key_is_elsewhere_the_command_is_named(tmp_path: Path) -> None:
    with opened(tmp_path, None) as vault:
        open_people(vault)
        charge = answer(vault).charges[0]
    key = (tmp_path / "audit.key").rename(tmp_path / "elsewhere.key")
    place = Place.within(tmp_path)
    with open_vault_at(place) as vault:
        with pytest.raises(UnsignedRecord, match=r"voile audit checkpoint.*where the signing key"):
            ReleaseService(vault).receipt(charge)
        other = Keeper.from_files(key, place.policy)
        assert other is not None
        other.publish(vault.storage, vault.log)
        report = verify_receipt(bytes(ReleaseService(vault).receipt(charge)), vault.policy)
        assert report.verified
        assert kept_size(tmp_path) == 0
    # What was signed elsewhere is not believed here by itself: somebody copies or accepts it.
    assert kept_size(tmp_path) == 0
    with pytest.raises(VerificationFailed, match="accept-checkpoint"), open_vault_at(place):
        pass


def test_nothing_is_signed_where_nobody_is_known_to_sign(tmp_path: Path) -> None:
    with opened(tmp_path, None) as vault:
        open_people(vault)
    (tmp_path / "audit-policy.toml").unlink()
    with open_vault_at(Place.within(tmp_path)) as vault:
        answer(vault)
        assert latest_checkpoint(vault.storage) is None
        assert vault.unsigned == 3
