"""The walk of one private answer; opening and renewing on record; ledger against log."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.app.budget_examples import EVENT, RULES, House, drawn, guarantee, request
from tests.unit.app.explain.examples import ROWS, free
from tests.unit.records.audit_log.examples import LOG_KEY, ORIGIN, WITNESS_KEYS, policy
from tests.unit.records.ledger.examples import DATASET
from tests.unit.server.witnesses import witness_at

from voile.app.budget.verification import Evidence, verify
from voile.app.explain import NoisyAnswer, ReleaseService
from voile.app.explain.charging import AccountQuestions, _record
from voile.core.errors import BudgetExceeded, InvalidInput, Refused, VerificationFailed, VoileError
from voile.core.guarantee import ProtectedUnit
from voile.privacy.events import Composed, Gaussian, Laplace, Repeated, Zcdp
from voile.records.audit_log import (
    BudgetOpenedRecord,
    BudgetRenewedRecord,
    ParticipationRecord,
    RefusalRecord,
    ReleaseRecord,
    RemoteWitness,
    Report,
    SigningKey,
    Witness,
    decode_record,
    guarantees_digest,
    issue_receipt,
    verify_receipt,
)
from voile.records.audit_log.log import LEAVES
from voile.records.audit_log.merkle import EMPTY_ROOT
from voile.records.audit_log.notes import Checkpoint, Note
from voile.records.audit_log.witness import PART as WITNESS_PART
from voile.records.checkpoints import Keeper, kept_checkpoint
from voile.records.ledger import AdaptiveSpending, Alert, Children, PlannedSpending
from voile.records.ledger.event_text import event_text, written
from voile.records.ledger.tables import ANSWERS, BALANCES, ENTRIES, AnswerRow
from voile.records.ledger.tree import RunningTotals
from voile.records.storage import Transaction, open_storage


@pytest.fixture
def house(tmp_path: Path) -> House:
    made = House.create("memory:", tmp_path)
    made.open()
    return made


def records(house: House) -> list[Any]:
    return [decode_record(c) for c in house.storage.submit(lambda t: house.vault.log.records(t))]


def step(report: Report, name: str) -> str:
    return next(each.outcome for each in report.steps if each.name == name)


def detail(report: Report, name: str) -> str:
    return next(each.detail for each in report.steps if each.name == name)


def questions(house: House, name: str) -> AccountQuestions:
    account = house.storage.read_snapshot(lambda t: house.vault.ledger.account(t, "clinic"))
    return AccountQuestions.to_account(house.vault, account, [request(name)])


class TestTheWalk:
    def test_charge_answer_and_record_are_there_together(self, house: House) -> None:
        answer = house.answer()
        assert (answer.content, answer.charge, answer.replayed) == (
            b"noisy row 1",
            "clinic#1",
            False,
        )
        record = records(house)[answer.record]
        assert isinstance(record, ReleaseRecord)
        assert (record.charge, record.account) == ("clinic#1", "clinic")
        assert record.event == '{"kind":"gaussian","noise_multiplier":20.0}'
        assert record.cost == (1 / 800).hex()
        (stored,) = house.storage.submit(lambda t: t.scan(ANSWERS))
        assert (stored.answer, stored.record) == (b"noisy row 1", answer.record)

    def test_the_same_question_draws_nothing_and_costs_nothing(self, house: House) -> None:
        first = house.answer()

        def never() -> NoisyAnswer:
            raise AssertionError("drawn again")

        again = house.service.answer_request(request("row 1", caller="grace"), never)
        assert again.replayed
        assert replace(again, replayed=False) == first
        assert len(records(house)) == 2

    def test_a_receipt_can_be_issued_for_a_replayed_answer(self, house: House) -> None:
        house.answer()
        answer = house.answer()
        house.keep()
        receipt = issue_receipt(house.storage, house.vault.log, answer.record, answer.nonces)
        report = verify_receipt(
            bytes(receipt),
            policy(0),
            query=request("row 1").question.canonical_bytes,
            answer=answer.content,
        )
        assert report.verified

    def test_who_loses_a_race_gets_the_winners_answer(self, house: House) -> None:
        """Somebody else answers the question while this one is drawing."""

        def overtaken() -> NoisyAnswer:
            house.service.answer_request(request(caller="grace"), drawn("the winner's noise"))
            return NoisyAnswer(b"the loser's noise")

        answer = house.service.answer_request(request(), overtaken)
        assert (answer.content, answer.replayed) == (b"the winner's noise", True)
        assert sum(isinstance(record, ReleaseRecord) for record in records(house)) == 1

    def test_a_budget_used_up_while_drawing_refuses(self, house: House) -> None:
        """The second check: it fitted before the draw, and does not after it."""

        def meanwhile() -> NoisyAnswer:
            house.answer("other", event=Zcdp(0.02))
            return NoisyAnswer(b"too late")

        with pytest.raises(BudgetExceeded):
            house.service.answer_request(request(event=Zcdp(0.02)), meanwhile)
        assert [type(record) for record in records(house)] == [
            BudgetOpenedRecord,
            ReleaseRecord,
            RefusalRecord,
        ]
        assert house.verify().verified

    def test_a_refusal_is_recorded_and_nothing_is_drawn(self, house: House) -> None:
        def never() -> NoisyAnswer:
            raise AssertionError("computed although it does not fit")

        with pytest.raises(BudgetExceeded) as caught:
            house.service.answer_request(request(event=Gaussian(1.0)), never)
        refusal = records(house)[-1]
        assert isinstance(refusal, RefusalRecord)
        assert refusal.reason == str(caught.value)
        assert refusal.account == "clinic"
        assert house.verify().verified

    def test_records_state_what_each_request_promises(self, house: House) -> None:
        """The same subject, event and cost; another guarantee."""
        promised = guarantee(epsilon=0.125)
        house.service.answer_request(request("a"), drawn("1"))
        house.service.answer_request(request("b", guarantees=(promised,)), drawn("2"))
        first, second = records(house)[-2:]
        assert (first.epsilon, second.epsilon) == (guarantee().epsilon, 0.125)
        assert first.guarantees == guarantees_digest((guarantee(),))
        assert second.guarantees == guarantees_digest((promised,))

    def test_a_draw_that_fails_costs_nothing(self, house: House) -> None:
        def broken() -> NoisyAnswer:
            raise OSError("the model server is gone")

        with pytest.raises(OSError, match="gone"):
            house.service.answer_request(request(), broken)
        assert len(records(house)) == 1

    def test_fresh_noise_is_charged(self, house: House) -> None:
        house.answer()
        assert house.answer(fresh=True).charge == "clinic#2"

    def test_what_does_not_match_the_account_is_not_answered(self, house: House) -> None:
        wrong = (guarantee(unit=ProtectedUnit.CLIENT),)
        with pytest.raises(Refused, match="is for the unit"):
            house.service.answer_request(request(guarantees=wrong), drawn("x"))
        with pytest.raises(InvalidInput, match="needs a guarantee"):
            request(guarantees=())
        assert len(records(house)) == 1

    def test_a_long_event_is_in_the_log_by_digest(self, house: House) -> None:
        house.answer(event=Composed(tuple(Gaussian(50.0 + n) for n in range(20))))
        record = records(house)[-1]
        assert record.event.startswith("sha256:")
        assert house.verify().verified


class TestAlerts:
    def test_callbacks_come_after_the_commit_and_once(self, tmp_path: Path) -> None:
        heard: list[tuple[str, int, bool]] = []
        place = str(tmp_path / "a.db")

        def hear(alert: Alert) -> None:
            # Another connection sees the charge: it is committed.
            other = House.reopen(place, tmp_path)
            number = int(alert.charge.partition("#")[2])
            entry = other.storage.submit(lambda t: t.get(ENTRIES, "clinic", number))
            heard.append((alert.account, alert.threshold, entry is not None))
            other.storage.close()

        house = House.create(place, tmp_path, hear)
        house.open()
        for number in range(20):
            house.answer(str(number), event=Zcdp(0.0012))
        assert heard == [("clinic", 50, True), ("clinic", 75, True)]
        house.answer("0")
        assert len(heard) == 2

    def test_a_broken_callback_does_not_cost_the_answer(self, tmp_path: Path) -> None:
        def broken(_: Alert) -> None:
            raise RuntimeError("mail server down")

        house = House.create("memory:", tmp_path, broken)
        house.open()
        assert house.answer(event=Zcdp(0.02)).content == b"noisy row 1"


class TestOpeningAndRenewing:
    def test_both_are_on_record(self, house: House) -> None:
        house.open("wards", parent="clinic", children=Children.PARALLEL)
        house.renew("clinic")
        _, opened, renewed = records(house)
        assert isinstance(opened, BudgetOpenedRecord)
        assert (opened.parent, opened.children) == ("clinic", "parallel")
        assert opened.composition == "filter: zcdp"
        assert isinstance(renewed, BudgetRenewedRecord)
        assert (renewed.account, renewed.period, renewed.reason) == ("clinic", "1", "why")

    def test_a_refused_opening_is_in_neither(self, house: House) -> None:
        with pytest.raises(Exception, match="already"):
            house.open("second")
        assert len(records(house)) == 1
        assert house.verify().verified

    def test_the_longest_names_fit_into_a_record(self, house: House) -> None:
        long = "x" * 100
        house.open(long, parent="clinic", dataset="é" * 50, shares_rows_with=(DATASET,))
        house.service.answer_request(
            request(account=long, guarantees=(guarantee(dataset="é" * 50),)), drawn("x")
        )
        assert house.verify().verified


def busy_house(place: str, folder: Path) -> House:
    """A tree of all kinds with charges, renewals and a plan."""
    house = House.create(place, folder)
    house.open("clinic", epsilon=3.0, spending=AdaptiveSpending((8.0, 16.0)))
    house.open("wards", parent="clinic", epsilon=3.0, children=Children.PARALLEL)
    house.open("north", parent="wards")
    house.open("south", parent="wards")
    plan = (Repeated(Gaussian(40.0), 3), Laplace(50.0))
    house.open("study", parent="clinic", spending=PlannedSpending(plan))
    for number in range(6):
        house.answer(f"a{number}", account="north" if number % 2 else "south")
        house.answer(f"b{number}", account="clinic")
    house.answer("c", account="wards")
    house.answer("d", account="study", event=Gaussian(40.0))
    house.renew("wards")
    house.answer("e", account="north")
    house.renew("study")
    house.answer("f", account="study", event=Laplace(50.0))
    house.renew("clinic")
    house.answer("g", account="south")
    return house


class TestVerify:
    def test_every_account_is_recomputed_from_the_log(self, tmp_path: Path) -> None:
        house = busy_house("memory:", tmp_path)
        house.keep()
        report = house.verify()
        assert report.verified, report.failed
        assert [each.outcome for each in report.steps] == [
            "checked",
            "checked",
            "not checkable",
            *["checked"] * 6,
            "not checkable",
        ]

    def test_it_says_what_it_cannot_notice(self, house: House) -> None:
        assert "old backup would not show" in house.verify().steps[1].detail
        assert house.verify().steps[9].detail.startswith("no copy to count from")
        house.keep()
        house.answer()
        assert "1 of 2 records are newer" in house.verify().steps[9].detail

    @pytest.mark.parametrize(
        ("spoil", "failing"),
        [
            ("balance", {"journal", "totals"}),
            ("peak", {"journal", "totals"}),
            ("entry", {"journal", "charges", "costs"}),
            ("both", {"totals", "charges"}),
            ("record", {"log", "charges"}),
            ("no such account", {"journal", "charges", "costs", "answers"}),
            ("no such act", {"journal", "charges", "answers"}),
            ("no event", {"charges", "costs"}),
            ("half a number", {"journal", "charges", "costs"}),
            ("answer lost", {"answers"}),
            ("answer of nobody", {"answers"}),
            ("answers swapped", {"answers"}),
            ("answer of another account", {"answers"}),
            ("answer of another record", {"answers"}),
            ("answer changed", {"answers"}),
        ],
    )
    def test_whatever_is_changed_shows(self, tmp_path: Path, spoil: str, failing: set[str]) -> None:
        house = busy_house("memory:", tmp_path)
        house.keep()
        house.storage.submit(SPOIL[spoil])
        report = house.verify()
        failed = {each.name for each in report.steps if each.outcome == "failed"}
        assert failed == failing, report
        assert not report.verified

    @pytest.mark.parametrize(
        ("statement", "failing"),
        [
            ("UPDATE ledger_accounts SET epsilon = 100.0 WHERE name = 'clinic'", {"charges"}),
            (
                "UPDATE ledger_accounts SET delta = 1e308 WHERE name = 'clinic'",
                {"charges", "bounds"},
            ),
            ("UPDATE ledger_accounts SET children = 'odd'", {"journal"}),
            ("UPDATE ledger_accounts SET plan = '[' WHERE name = 'study'", {"journal"}),
            ("UPDATE ledger_accounts SET parent = 'nobody' WHERE name = 'north'", {"journal"}),
            ("DELETE FROM ledger_accounts WHERE name = 'north'", {"journal"}),
            ("DELETE FROM ledger_children WHERE child = 'north'", {"journal"}),
            ("UPDATE ledger_balances SET sums = 5", {"journal"}),
            (
                "INSERT INTO ledger_balances SELECT 'zzz', terms, period, sums, alerted, entries, "
                "time FROM ledger_balances WHERE account = 'north'",
                {"journal"},
            ),
            ("UPDATE ledger_entries SET cost = 5", {"journal", "charges", "answers"}),
            ("UPDATE ledger_answers SET answer = 'text' WHERE number = 5", {"answers"}),
            ("UPDATE ledger_answers SET number = number + 100", {"answers"}),
            ("DELETE FROM ledger_answers WHERE number = 5", {"answers"}),
            ("UPDATE ledger_entries SET cost = zeroblob(7)", {"journal", "charges", "costs"}),
            ("UPDATE ledger_balances SET sums = zeroblob(40)", {"journal"}),
            ("UPDATE ledger_balances SET time = '1700000000'", {"journal"}),
            ("UPDATE ledger_accounts SET epsilon = '3'", {"journal"}),
            ("UPDATE ledger_balances SET alerted = 90 WHERE account = 'clinic'", {"journal"}),
            ("UPDATE audit_leaves SET record = 'text' WHERE number = 3", {"log", "journal"}),
            ("UPDATE audit_heads SET size = 4611686018427387904", {"log", "kept copy"}),
        ],
    )
    def test_whatever_is_written_by_hand_is_reported(
        self, tmp_path: Path, statement: str, failing: set[str]
    ) -> None:
        place = tmp_path / "ledger.db"
        house = busy_house(str(place), tmp_path)
        house.keep()
        house.storage.close()
        with closing(sqlite3.connect(place)) as connection, connection:
            assert connection.execute(statement).rowcount > 0
        spoiled = House.reopen(str(place), tmp_path)
        report = spoiled.verify()
        failed = {each.name for each in report.steps if each.outcome == "failed"}
        assert failed == failing, report
        assert not report.verified
        with suppress(VoileError):  # refused or not, but never a Python error
            spoiled.answer("another")

    def test_without_the_replay_key_it_says_what_it_did_not_compare(self, house: House) -> None:
        house.answer("a")
        house.answer("a", fresh=True)  # an answer for each charge
        vault = house.vault
        report = verify(vault.storage, vault.ledger, vault.log, Evidence())
        assert step(report, "answers") == "checked"
        assert "2 answers; not compared" in detail(report, "answers")
        assert "handed in (--replay-key FILE)" in detail(report, "answers")
        assert "each the one on record" in detail(house.verify(), "answers")
        house.storage.submit(spoil_answer)
        report = verify(vault.storage, vault.ledger, vault.log, Evidence())
        assert "not that on record" in detail(report, "answers")

    def test_an_answer_to_a_charge_that_is_no_release_shows(self, house: House) -> None:
        """A client's participation is charged and on record, and has no answer to give again."""
        asked = questions(house, "a").charges[0]

        def participation(t: Transaction) -> None:
            grant, headline = house.vault.ledger.charge(t, asked), guarantee()
            record = ParticipationRecord(
                time=int(grant.time),
                account="clinic",
                charge=grant.charge,
                federation="study",
                stage="black box",
                round=1,
                epsilon=headline.epsilon,
                delta=headline.delta,
                **headline.protected.texts,
                event=event_text(EVENT),
                cost=written(grant.cost),
            )
            house.vault.log.append(t, record)

        house.storage.submit(participation)
        report = house.verify()
        assert report.verified, report.failed
        entry = house.storage.submit(lambda t: t.get(ENTRIES, "clinic", 1))
        assert entry is not None
        kept = AnswerRow(entry.query, 1, "clinic", "clinic", entry.time, 1, b"", b"", b"")
        house.storage.submit(lambda t: t.insert(ANSWERS, kept))
        assert "charges that are no releases" in detail(house.verify(), "answers")

    def test_acts_of_one_transaction_may_be_told_in_any_order(self, house: House) -> None:
        asked = [questions(house, name) for name in ("a", "b")]

        def two_answers(t: Transaction) -> None:
            grants = [house.vault.ledger.charge(t, each.charges[0]) for each in asked]
            for each, grant in reversed(list(zip(asked, grants, strict=True))):
                made = NoisyAnswer(b"noise")
                encoded = _record(house.vault, each.requests[0], each.asked[0], grant, made)
                record = house.vault.log.append_encoded(t, encoded)
                charged = grant.number, "clinic", "clinic", grant.time, record.number
                kept = AnswerRow(each.asked[0].digest, *charged, b"noise", made.digest, made.digest)
                t.insert(ANSWERS, kept)

        house.storage.submit(two_answers)
        house.answer("c")
        report = house.verify()
        assert report.failed is None, report.failed

    def test_a_record_told_twice_or_of_no_charge_shows(self, house: House) -> None:
        house.answer("a")
        house.answer("b")
        told = records(house)[-1]
        house.storage.submit(lambda t: house.vault.log.append(t, told))
        assert "twice in the log" in detail(house.verify(), "charges")
        for name in ("clinic#99", "elsewhere#0", "clinic#x", "clinic"):
            record = replace(told, charge=name)
            house.storage.submit(lambda t, record=record: house.vault.log.append(t, record))  # type: ignore[misc]
        said = detail(house.verify(), "charges")
        assert "clinic#99: in the log, but not charged" in said
        assert "and 2 more" in said

    def test_it_says_how_far_it_has_come(self, house: House) -> None:
        for number in range(3):
            house.answer(f"a{number}")
        seen: list[tuple[int, int]] = []
        verify(
            house.storage,
            house.vault.ledger,
            house.vault.log,
            Evidence(),
            progress=lambda done, size: seen.append((done, size)),
        )
        assert seen == [(4, 4)]

    def test_a_database_restored_from_an_old_backup_is_refused(self, tmp_path: Path) -> None:
        place = tmp_path / "ledger.db"
        house = House.create(str(place), tmp_path)
        house.open()
        house.answer("before")
        house.storage.close()
        shutil.copy(place, tmp_path / "backup.db")
        house = House.reopen(str(place), tmp_path)
        house.answer("after")
        house.keep()
        assert house.verify().verified
        house.storage.close()
        restored = House.reopen(str(tmp_path / "backup.db"), tmp_path)
        report = restored.verify()
        assert report.failed is not None
        assert report.failed.name == "kept copy"
        assert "set back" in report.failed.detail
        with pytest.raises(VerificationFailed, match="set back"):
            restored.keep()

    def test_nothing_is_computed_for_a_database_that_was_set_back(self, tmp_path: Path) -> None:
        """In Python, whoever holds the key: the policy is enough."""
        first = House.create(str(tmp_path / "one.db"), tmp_path)
        first.open()
        first.answer("row 1")
        first.keep()
        set_back = House.create(str(tmp_path / "two.db"), tmp_path)
        set_back.open()
        keeper = Keeper(RULES, kept_checkpoint(set_back.key))
        service = ReleaseService(replace(set_back.vault, log=keeper.knows(set_back.vault.log)))

        def computed() -> NoisyAnswer:
            raise AssertionError("something was computed")

        for fresh in (False, True):
            with pytest.raises(VerificationFailed, match="set back"):
                service.answer_request(request(), computed, fresh=fresh)
        with pytest.raises(VerificationFailed, match="set back"):
            service.answer(free(), ROWS, caller="ada")
        assert len(records(set_back)) == 1

    def test_a_witness_remembers_what_a_restored_database_forgot(self, tmp_path: Path) -> None:
        witness = WITNESS_KEYS[0]
        logs = {ORIGIN: (LOG_KEY.verifier,)}
        with (
            open_storage("memory:", [WITNESS_PART]) as memory,
            witness_at(Witness(memory, witness, logs)) as url,
        ):
            seen = Evidence(policy(1), (), LOG_KEY, (RemoteWitness(url),))
            outcomes = []
            for answers in (2, 3, 1):  # the third is the first one's past
                house = House.create("memory:", tmp_path)
                house.open()
                for number in range(answers):
                    house.answer(str(number))
                vault = house.vault
                found = verify(vault.storage, vault.ledger, vault.log, seen)
                outcomes.append(step(found, "witnesses"))
        assert outcomes[0] == "checked"
        assert outcomes[2] == "failed"

    def test_another_history_of_the_same_length_is_refused(self, tmp_path: Path) -> None:
        house = House.create("memory:", tmp_path)
        house.open()
        house.answer("one")
        house.keep()
        other = House.create("memory:", tmp_path)
        other.open()
        other.answer("two")
        report = other.verify()
        assert step(report, "kept copy") == "failed"

    def test_a_copy_signed_by_somebody_else_is_refused(self, house: House) -> None:
        stranger = SigningKey.generate("example.org/voile")
        keeper = Keeper(policy(0, log_keys=[stranger]), kept_checkpoint(house.key), stranger)
        keeper.publish(house.storage, house.vault.log)
        assert step(house.verify(), "kept copy") == "failed"

    def test_a_copy_of_another_log_is_called_that(self, house: House) -> None:
        stranger = SigningKey.generate("example.org/another")
        text = Checkpoint("example.org/another", 0, EMPTY_ROOT).text
        note = bytes(Note(text, (stranger.sign(text),)))
        evidence = Evidence(policy=policy(0), checkpoints=(("copy", note),))
        with pytest.raises(InvalidInput, match=r"copy is that of .example\.org/another"):
            verify(house.storage, house.vault.ledger, house.vault.log, evidence)

    def test_the_copy_lies_beside_the_key(self, house: House) -> None:
        house.keep()
        assert kept_checkpoint(house.key) == house.folder / "audit.checkpoint"
        assert kept_checkpoint(house.key).exists()


def spoil_balance(t: Transaction) -> None:
    balance = t.get(BALANCES, "clinic")
    assert balance is not None
    standing = RunningTotals.unpack(balance.sums)
    smaller = standing._replace(spent=tuple(each / 2 for each in standing.spent))
    t.replace(BALANCES, balance._replace(sums=smaller.pack()))


def spoil_peak(t: Transaction) -> None:
    balance = t.get(BALANCES, "wards")
    assert balance is not None
    standing = RunningTotals.unpack(balance.sums)
    t.replace(BALANCES, balance._replace(sums=standing._replace(peak=(0.0, 0.0)).pack()))


def last_charge(t: Transaction) -> Any:
    return [entry for entry in t.scan(ENTRIES, "clinic") if entry.cost][-1]


def spoil_entry(t: Transaction) -> None:
    entry = last_charge(t)
    t.replace(ENTRIES, entry._replace(cost=bytes(len(entry.cost))))


def spoil_account(t: Transaction) -> None:
    t.replace(ENTRIES, last_charge(t)._replace(account="nobody"))


def spoil_act(t: Transaction) -> None:
    t.replace(ENTRIES, last_charge(t)._replace(act="forgiven"))


def spoil_event(t: Transaction) -> None:
    t.replace(ENTRIES, last_charge(t)._replace(event="{"))


def spoil_cost(t: Transaction) -> None:
    t.replace(ENTRIES, last_charge(t)._replace(cost=b"\0" * 5))


def spoil_both(t: Transaction) -> None:
    """Somebody who knows the ledger takes back a charge everywhere, but cannot touch the log."""
    entry = last_charge(t)
    t.replace(ENTRIES, entry._replace(cost=b"", event=""))
    for name in ("clinic", "wards", "south"):
        balance = t.get(BALANCES, name)
        assert balance is not None
        nothing = RunningTotals.fresh((0.0, 0.0))
        t.replace(BALANCES, balance._replace(sums=nothing.pack()))


def some_answers(t: Transaction) -> tuple[AnswerRow, AnswerRow]:
    first, second = t.scan(ANSWERS, limit=2)
    return first, second


def spoil_query(t: Transaction) -> None:
    """The answer cannot be found any more; as far as the tables go, it was lost."""
    entry = last_charge(t)
    t.replace(ENTRIES, entry._replace(query=bytes(32)))


def spoil_with_a_stray(t: Transaction) -> None:
    """What a writer that was cut off in the middle left behind: an answer without a charge."""
    first, _ = some_answers(t)
    t.insert(ANSWERS, first._replace(query=bytes(32), number=99))


def spoil_by_swapping(t: Transaction) -> None:
    """The contents of two answers, with their digests: only the log knows which is which."""
    one, two = some_answers(t)
    content = "answer", "digest", "committed"
    t.replace(ANSWERS, one._replace(**{name: getattr(two, name) for name in content}))
    t.replace(ANSWERS, two._replace(**{name: getattr(one, name) for name in content}))


def spoil_answers_account(t: Transaction) -> None:
    t.replace(ANSWERS, some_answers(t)[0]._replace(account="study"))


def spoil_answers_record(t: Transaction) -> None:
    one, two = some_answers(t)
    t.replace(ANSWERS, one._replace(record=two.record))


def spoil_answer(t: Transaction) -> None:
    t.replace(ANSWERS, some_answers(t)[0]._replace(answer=b"another answer"))


def spoil_record(t: Transaction) -> None:
    leaves = t.scan(LEAVES)
    changed = leaves[-1].record.replace(b"gaussian", b"gaussiax")
    t.replace(LEAVES, leaves[-1]._replace(record=changed))


SPOIL: dict[str, Callable[[Transaction], None]] = {
    "balance": spoil_balance,
    "peak": spoil_peak,
    "entry": spoil_entry,
    "both": spoil_both,
    "record": spoil_record,
    "no such account": spoil_account,
    "no such act": spoil_act,
    "no event": spoil_event,
    "half a number": spoil_cost,
    "answer lost": spoil_query,
    "answer of nobody": spoil_with_a_stray,
    "answers swapped": spoil_by_swapping,
    "answer of another account": spoil_answers_account,
    "answer of another record": spoil_answers_record,
    "answer changed": spoil_answer,
}


def test_the_event_of_the_examples_is_cheap() -> None:
    assert Gaussian(20.0) == EVENT
