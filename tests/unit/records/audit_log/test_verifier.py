"""The verifier, step by step: what each step catches, and what a report says it could not check."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.records.audit_log.examples import (
    ANSWER,
    LOG_KEY,
    NONCES,
    ORIGIN,
    QUERY,
    WITNESS_KEYS,
    SmallLog,
    policy,
    release,
    signing_key,
)

from voile.records.audit_log import (
    AnchorEvidence,
    CheckOutcome,
    OtherCheckpoint,
    Policy,
    Receipt,
    RefusalRecord,
    Report,
)
from voile.records.audit_log.canonical import Malformed
from voile.records.audit_log.notes import Checkpoint, KeyKind, Note
from voile.records.audit_log.verifier import NAMES, verify_export, verify_receipt


@pytest.fixture(scope="module")
def small() -> SmallLog:
    return SmallLog.of([release(n) for n in range(20)])


def verify(receipt: Receipt, rules: Policy | None = None, **more: object) -> Report:
    given = {"query": QUERY, "answer": ANSWER} | more
    return verify_receipt(bytes(receipt), rules or policy(), **given)  # type: ignore[arg-type]


def outcomes(report: Report) -> dict[str, CheckOutcome]:
    assert [step.number for step in report.steps] == list(range(1, 12))
    assert [step.name for step in report.steps] == list(NAMES)
    return {step.name: step.outcome for step in report.steps}


def failed(report: Report) -> str:
    assert not report.verified
    assert report.failed is not None
    return report.failed.name


class TestReceipts:
    def test_a_sound_receipt_verifies_in_all_steps(self, small: SmallLog) -> None:
        elsewhere = OtherCheckpoint(bytes(small.note(20)), small.consistency(15, 20))
        anchored = AnchorEvidence(small.checkpoint(20), small.consistency(15, 20))
        report = verify(small.receipt(3, 15), elsewhere=elsewhere, anchored=anchored)
        assert set(outcomes(report).values()) == {CheckOutcome.CHECKED}
        assert report.verified
        assert report.record is not None
        assert report.record["charge"] == "charge 3"

    def test_the_last_record_is_the_last_number(self, small: SmallLog) -> None:
        inclusion = verify(small.receipt(14, 15)).steps[6]
        assert inclusion.detail == "record 14, number 15 of 15 records"

    def test_what_is_not_handed_in_is_listed_not_counted(self, small: SmallLog) -> None:
        report = verify_receipt(bytes(small.receipt(3, 15)), policy(0))
        assert report.verified
        unchecked = [n for n, o in outcomes(report).items() if o is CheckOutcome.NOT_CHECKABLE]
        assert unchecked == ["witnesses", "query", "answer", "consistency", "anchor"]

    def test_what_was_handed_in_must_open(self, small: SmallLog) -> None:
        """Taking the nonces out of a receipt must not turn a no into a shrug."""
        stripped = replace(small.receipt(3, 15), nonces={})
        assert failed(verify(stripped)) == "query"
        assert verify(stripped, query=None, answer=None).verified

    def test_a_record_without_commitments_is_fine_unless_asked_for_one(self) -> None:
        refusal = RefusalRecord(time=1, account="a", reason="budget", epsilon=1.0, delta=0.0)
        receipt = SmallLog.of([refusal]).receipt(0, 1)
        assert verify(receipt, query=None, answer=None).verified
        assert failed(verify(receipt, query=None)) == "answer"

    def test_step_2_truncation_anywhere_names_a_step(self, small: SmallLog) -> None:
        content = bytes(small.receipt(3, 15))
        for length in range(len(content)):
            report = verify_receipt(content[:length], policy(), query=QUERY, answer=ANSWER)
            assert not report.verified, length
            outcomes(report)

    def test_step_3_a_record_without_a_kind(self, small: SmallLog) -> None:
        assert failed(verify(replace(small.receipt(3, 15), record=b'{"a":1}'))) == "record"

    def test_step_4_another_log(self, small: SmallLog) -> None:
        rules = policy(0, [signing_key("log", name="other.example")], "other.example")
        assert failed(verify(small.receipt(3, 15), rules)) == "checkpoint"

    def test_step_5_wrong_key(self, small: SmallLog) -> None:
        rules = policy(3, [signing_key("another key")])
        assert failed(verify(small.receipt(3, 15), rules)) == "log signature"

    def test_step_5_unsigned(self, small: SmallLog) -> None:
        note = small.note(15, signers=[])
        assert failed(verify(small.receipt(3, 15, note))) == "log signature"

    def test_step_5_a_witness_cannot_stand_in_for_the_log(self, small: SmallLog) -> None:
        rogue = signing_key("log", KeyKind.WITNESS)
        note = small.note(15, signers=[], cosigners=[rogue, *WITNESS_KEYS])
        assert failed(verify(small.receipt(3, 15, note))) == "log signature"

    def test_step_6_too_few_witnesses(self, small: SmallLog) -> None:
        note = small.note(15, cosigners=WITNESS_KEYS[:2])
        receipt = small.receipt(3, 15, note)
        assert failed(verify(receipt, policy(3))) == "witnesses"
        assert verify(receipt, policy(2)).verified

    def test_step_6_one_witness_twice_is_one(self, small: SmallLog) -> None:
        note = small.note(15, cosigners=[WITNESS_KEYS[0]] * 3)
        assert failed(verify(small.receipt(3, 15, note), policy(2))) == "witnesses"

    def test_step_6_a_replayed_cosignature(self, small: SmallLog) -> None:
        """A cosignature of an earlier checkpoint on a later one."""
        early, late = small.note(10), small.note(15)
        replayed = Note(late.text, late.signatures[:1] + early.signatures[1:])
        report = verify(small.receipt(3, 15, replayed), policy(1))
        assert failed(report) == "witnesses"
        assert "witness0.example" in report.steps[5].detail

    def test_step_7_a_proof_for_another_leaf(self, small: SmallLog) -> None:
        receipt, other = small.receipt(3, 15), small.receipt(4, 15)
        for wrong in (
            replace(receipt, record=other.record),
            replace(receipt, path=other.path),
            replace(receipt, index=4),
            replace(receipt, index=15),
            replace(receipt, path=receipt.path[1:]),
        ):
            assert failed(verify(wrong)) == "inclusion"

    def test_step_7_a_proof_under_another_checkpoint(self, small: SmallLog) -> None:
        assert failed(verify(small.receipt(3, 15, small.note(16)))) == "inclusion"

    @pytest.mark.parametrize("name", ["query", "answer"])
    def test_steps_8_and_9_another_content(self, small: SmallLog, name: str) -> None:
        assert failed(verify(small.receipt(3, 15), None, **{name: b"something else"})) == name

    def test_steps_8_and_9_a_query_is_no_answer(self, small: SmallLog) -> None:
        swapped = {"query": NONCES["answer"], "answer": NONCES["query"]}
        receipt = replace(small.receipt(3, 15), nonces=swapped)
        assert failed(verify(receipt, query=ANSWER, answer=QUERY)) == "query"


class TestElsewhere:
    """Fork and rollback show only against another checkpoint; against one, they do."""

    def test_an_earlier_and_an_equal_checkpoint_serve_as_well(self, small: SmallLog) -> None:
        earlier = OtherCheckpoint(bytes(small.note(9)), small.consistency(9, 15))
        assert verify(small.receipt(3, 15), elsewhere=earlier).verified
        equal = OtherCheckpoint(bytes(small.note(15)))
        assert verify(small.receipt(3, 15), elsewhere=equal).verified

    def test_a_fork_shows(self, small: SmallLog) -> None:
        forked = SmallLog.of([release(n) for n in (*range(10), *range(50, 60))])
        receipt = forked.receipt(3, 15)
        assert verify(receipt).verified  # by itself it looks perfect
        for consistency in (small.consistency(15, 20), forked.consistency(15, 20), b""):
            elsewhere = OtherCheckpoint(bytes(small.note(20)), consistency)
            assert failed(verify(receipt, elsewhere=elsewhere)) == "consistency"

    def test_a_rollback_shows_once_the_log_grows_again(self, small: SmallLog) -> None:
        seen = bytes(small.note(20))
        regrown = SmallLog.of([release(n) for n in (*range(12), *range(100, 115))])
        consistency = regrown.consistency(20, 27)
        report = verify(regrown.receipt(3, 27), elsewhere=OtherCheckpoint(seen, consistency))
        assert failed(report) == "consistency"

    def test_another_root_for_the_same_size_shows(self, small: SmallLog) -> None:
        forked = SmallLog.of([release(n + 1) for n in range(15)])
        report = verify(small.receipt(3, 15), elsewhere=OtherCheckpoint(bytes(forked.note(15))))
        assert failed(report) == "consistency"

    def test_the_other_checkpoint_must_be_the_log_s(self, small: SmallLog) -> None:
        unsigned = small.note(15, signers=[signing_key("stranger")])
        report = verify(small.receipt(3, 15), elsewhere=OtherCheckpoint(bytes(unsigned)))
        assert failed(report) == "consistency"

    @pytest.mark.parametrize("proof", [b"x", b"\n", b"x\n", b"QUJD\n", b"\xff\n"])
    def test_a_damaged_proof_fails(self, small: SmallLog, proof: bytes) -> None:
        elsewhere = OtherCheckpoint(bytes(small.note(20)), proof)
        assert failed(verify(small.receipt(3, 15), elsewhere=elsewhere)) == "consistency"


class TestAnchor:
    """A log that its own key holder changed is sound by itself; against the chain it is not."""

    def test_a_receipt_is_joined_with_what_was_anchored_before_or_after(
        self, small: SmallLog
    ) -> None:
        for size in (9, 15, 20):
            joined = small.consistency(*sorted((size, 15)))
            anchored = AnchorEvidence(small.checkpoint(size), joined)
            assert verify(small.receipt(3, 15), anchored=anchored).verified
            if size != 15:
                assert (
                    failed(
                        verify(small.receipt(3, 15), anchored=replace(anchored, consistency=b""))
                    )
                    == "anchor"
                )

    def test_a_fork_of_an_anchored_log_shows(self, small: SmallLog) -> None:
        forked = SmallLog.of([release(n) for n in (*range(10), *range(50, 60))])
        for consistency in (small.consistency(15, 20), forked.consistency(15, 20), b""):
            anchored = AnchorEvidence(small.checkpoint(20), consistency)
            assert failed(verify(forked.receipt(3, 15), anchored=anchored)) == "anchor"

    def test_an_export_must_begin_with_what_was_anchored(self, small: SmallLog) -> None:
        records = list(small.storage.submit(small.log.records))

        def export(log: SmallLog, anchored: AnchorEvidence) -> Report:
            size = log.storage.submit(log.log.head).size
            held = log.storage.submit(log.log.records)
            return verify_export(held, bytes(log.note(size)), policy(), anchored=anchored)

        for size in (1, 12, 20):
            assert export(small, AnchorEvidence(small.checkpoint(size))).verified
        set_back = SmallLog.of([release(n) for n in range(12)])
        assert export(set_back, AnchorEvidence(small.checkpoint(12))).verified
        report = export(set_back, AnchorEvidence(small.checkpoint(13)))
        assert failed(report) == "anchor"
        assert "set back" in report.steps[10].detail
        for number in range(20):  # one record changed, the tree built and signed anew
            changed = SmallLog.of([release(n + 100 * (n == number)) for n in range(20)])
            assert export(changed, AnchorEvidence(changed.checkpoint(20))).verified
            outcome = failed(export(changed, AnchorEvidence(small.checkpoint(20))))
            assert outcome == "anchor", number
        assert len(records) == 20

    def test_a_chain_that_was_asked_and_knows_nothing_is_a_no(self, small: SmallLog) -> None:
        assert failed(verify(small.receipt(3, 15), anchored=AnchorEvidence(None))) == "anchor"


class TestRotation:
    def test_old_and_new_checkpoints_verify_under_a_policy_with_both_keys(
        self, small: SmallLog
    ) -> None:
        new_key = signing_key("new key")
        both = policy(3, [LOG_KEY, new_key])
        old, overlap, new = (
            small.note(10, signers=[LOG_KEY]),
            small.note(12, signers=[LOG_KEY, new_key]),
            small.note(15, signers=[new_key]),
        )
        for note, size in ((old, 10), (overlap, 12), (new, 15)):
            assert verify(small.receipt(3, size, note), both).verified
        assert failed(verify(small.receipt(3, 15, new), policy(3))) == "log signature"


class TestExports:
    def test_a_size_that_the_records_do_not_have_shows(self, small: SmallLog) -> None:
        """Signed by the log itself: the right root with a wrong size."""
        records = small.storage.submit(small.log.records)
        root = small.storage.submit(small.log.head).root
        text = Checkpoint(ORIGIN, 21, root).text
        note = Note(text, (LOG_KEY.sign(text),))
        assert failed(verify_export(records, bytes(note), policy(0))) == "inclusion"

    def test_a_whole_log_verifies(self, small: SmallLog) -> None:
        records = small.storage.submit(small.log.records)
        report = verify_export(records, bytes(small.note(20)), policy())
        assert report.verified
        assert outcomes(report)["inclusion"] is CheckOutcome.CHECKED

    def test_a_changed_missing_added_or_moved_record_shows(self, small: SmallLog) -> None:
        records = list(small.storage.submit(small.log.records))
        note = bytes(small.note(20))
        for wrong in (
            records[:-1],
            records[1:],
            [*records, records[0]],
            [records[1], records[0], *records[2:]],
            [*records[:5], records[5].replace(b"charge 5", b"charge 6"), *records[6:]],
        ):
            assert failed(verify_export(wrong, note, policy())) == "inclusion"
        wrong = [*records[:5], b"{}", *records[6:]]
        report = verify_export(wrong, note, policy())
        assert failed(report) == "record"
        assert "record 5" in report.steps[2].detail

    def test_an_empty_log_verifies(self) -> None:
        small = SmallLog.of([])
        assert verify_export([], bytes(small.note(0)), policy()).verified


class TestRulesComeFromThePolicy:
    def test_a_policy_comes_back_from_its_file(self) -> None:
        assert Policy.parse(str(policy(2))) == policy(2)

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ("version = 1", "version = 2"),
            ("version = 1", "version = true"),
            ("version = 1\n", ""),
            ("Ed25519, SHA-256", "none"),
            ("witness_threshold = 2", "witness_threshold = 4"),
            ("witness_threshold = 2", "witness_threshold = -1"),
            ("witness_threshold = 2", "witness_threshold = 2\nlenient = true"),
            ('origin = "example.org/voile"', 'origin = "example.org/other"'),
            ('origin = "example.org/voile"', "origin = 5"),
            ("witness_keys = [", "witness_keys = [5, "),
            ("version", "= version"),
        ],
    )
    def test_a_policy_is_read_strictly(self, old: str, new: str) -> None:
        text = str(policy(2))
        assert old in text
        with pytest.raises(Malformed):
            Policy.parse(text.replace(old, new))

    def test_one_key_under_two_names_is_refused(self) -> None:
        """It would count twice toward the threshold."""
        twin = signing_key("witness 0", KeyKind.WITNESS, "another-name.example")
        with pytest.raises(Malformed, match="twice"):
            Policy(ORIGIN, (LOG_KEY.verifier,), (WITNESS_KEYS[0].verifier, twin.verifier), 2)

    def test_the_log_cannot_be_its_own_witness(self) -> None:
        twin = signing_key("log", KeyKind.WITNESS, "witness.example")
        with pytest.raises(Malformed, match="twice"):
            Policy(ORIGIN, (LOG_KEY.verifier,), (twin.verifier,), 1)

    def test_keys_have_their_place(self) -> None:
        log, witness = LOG_KEY.verifier, WITNESS_KEYS[0].verifier
        for log_keys, witness_keys in [((), ()), ((witness,), ()), ((log,), (log,))]:
            with pytest.raises(Malformed):
                Policy(ORIGIN, log_keys, witness_keys)

    def test_a_proof_brings_no_key_of_its_own(self, small: SmallLog) -> None:
        """A checkpoint signed with a key that only the proof knows verifies nowhere."""
        own = signing_key("own")
        text = Checkpoint(ORIGIN, 15, small.storage.submit(lambda t: small.log.root_at(t, 15))).text
        note = Note(text, (own.sign(text), *small.note(15).signatures[1:]))
        assert failed(verify(small.receipt(3, 15, note))) == "log signature"
