"""Records: one class for each kind, canonical bytes, a strict decoder."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.records.audit_log.examples import LOG_KEY, release, signing_key

from voile.core.errors import InvalidInput
from voile.records.audit_log import (
    AbsenceRecord,
    AlertRecord,
    AnswersErasedRecord,
    AssessmentRecord,
    BudgetApprovalRecord,
    BudgetOpenedRecord,
    BudgetPolicyRecord,
    BudgetRenewedRecord,
    CheckpointAcceptedRecord,
    EventsAssessmentRecord,
    EvidenceRecord,
    FederationRoundRecord,
    KeyIssuedRecord,
    KeyRevokedRecord,
    KeyRotationRecord,
    LiftRecord,
    MeasureRecord,
    ObservationRecord,
    ParticipationRecord,
    PostProcessingRecord,
    Record,
    RefusalRecord,
    RewardRecord,
    RoundShownRecord,
    RuleRecord,
    TrustRecord,
    WeightingRecord,
    canonical_bytes,
    decode_record,
)
from voile.records.audit_log.records import KINDS, LARGEST_RECORD, Draft

HASH = bytes(range(32))
RECORDS: list[Record] = [
    release(),
    replace(release(), event='{"kind":"gaussian","noise_multiplier":4.0}', cost="0x1.0p-5"),
    RefusalRecord(
        time=1, account="a", reason="budget exceeded", epsilon=1.0, delta=0.0, query=HASH
    ),
    RefusalRecord(time=1, account="a", reason="budget exceeded", epsilon=1.0, delta=0.0),
    BudgetOpenedRecord(
        time=2,
        account="clinic/2026",
        epsilon=3.0,
        delta=1e-5,
        unit="row",
        relation="blank one",
        dataset="clinic v1",
        parent="clinic",
    ),
    BudgetOpenedRecord(
        time=2,
        account="clinic",
        epsilon=3.0,
        delta=1e-5,
        unit="row",
        relation="blank one",
        dataset="clinic v1",
        composition="filter: zcdp",
        children="parallel",
    ),
    TrustRecord(
        time=3,
        federation="clinics: trusted averaging",
        round=4,
        client="north",
        accuracy=0.9,
        divergence=0.25,
        consistency=1.0,
        trust=0.88,
        weight=0.125,
        measure="Kullback-Leibler",
        covered="released",
        agreement="0f" * 32,
    ),
    WeightingRecord(
        time=3,
        federation="clinics: trusted averaging",
        round=4,
        public_rows=HASH,
        rows=200,
        steps=20,
        rate=0.1,
        level=0.01,
        directions=200,
        needed=0.25,
        median_discrimination=0.5,
        median_cosine=0.125,
        told_apart=1,
        tau=0.5,
        largest_share=0.5,
        shortest=0.1,
        longest=2.5,
        clipping_norm=1.0,
    ),
    EvidenceRecord(
        time=3,
        federation="clinics: trusted averaging",
        round=4,
        client="north",
        length=1.0,
        discrimination=0.5,
        cosine=0.125,
        scored=1.0,
        matched=1.0,
    ),
    RewardRecord(
        time=3,
        federation="clinics: trusted averaging",
        round=4,
        client="north",
        trust=0.88,
        reward=0.11,
    ),
    PostProcessingRecord(
        time=3,
        call="00" * 16,
        subject="post-processed exact Shapley values",
        rows=2,
        promise="made from public artefacts only",
        guarantees=HASH,
        query=HASH,
        answer=HASH,
        rows_root=HASH,
    ),
    PostProcessingRecord(
        time=3,
        call="00" * 16,
        subject="post-processed exact Shapley values",
        rows=2,
        promise="carried forward from training",
        guarantees=HASH,
        query=HASH,
        answer=HASH,
        rows_root=HASH,
        epsilon=1.0,
        delta=1e-5,
        unit="row",
        relation="blank one",
        dataset="clinic v1",
    ),
    BudgetRenewedRecord(
        time=3, account="a", period="2027", epsilon=1.0, delta=0.0, reason="a new cohort"
    ),
    FederationRoundRecord(
        time=4,
        federation="eight hospitals",
        round=0,
        clients=8,
        epsilon=0.1,
        delta=1e-7,
        model=HASH,
        published_hash=HASH,
    ),
    FederationRoundRecord(
        time=5,
        federation="eight hospitals",
        round=1,
        clients=8,
        epsilon=0.1,
        delta=1e-7,
        model=HASH,
        published_hash=HASH,
        previous_hash=HASH,
    ),
    ParticipationRecord(
        time=5,
        account="north",
        charge="north#7",
        federation="eight hospitals",
        stage="surrogate",
        round=2,
        epsilon=2.0,
        delta=1e-5,
        unit="row",
        relation="blank one",
        dataset="north v1",
        event="{}",
        cost=None,
    ),
    AbsenceRecord(
        time=5, federation="eight hospitals", round=2, client="north", outcome="no answer"
    ),
    RoundShownRecord(
        time=5,
        federation="eight hospitals",
        stage="surrogate",
        round=2,
        previous=HASH,
        link=HASH,
        begun=HASH,
        signature="ab" * 64,
        agreement="3f" * 32,
    ),
    AssessmentRecord(
        time=6,
        subject="clinic/2026",
        attack="membership inference",
        claimed_epsilon=1.0,
        claimed_delta=0.01,
        measured_epsilon=0.61,
        confidence=0.95,
        trials=100_000,
        outcome="the claim held",
        report=HASH,
    ),
    EventsAssessmentRecord(
        time=6,
        subject="eight hospitals",
        events=HASH,
        software="0.1",
        runs=1200,
        e_value=0.02,
        verdict="not refuted",
        findings=HASH,
    ),
    KeyRotationRecord(
        time=7,
        old_key=str(LOG_KEY.verifier),
        new_key=str(signing_key("next").verifier),
        reason="yearly",
    ),
    CheckpointAcceptedRecord(time=8, size=7, root=HASH, reason="disk replaced"),
    KeyIssuedRecord(
        time=9, key="3f9a10c2b4d5", duties="audit explain", expires=99, issuer="command line"
    ),
    KeyRevokedRecord(time=10, key="3f9a10c2b4d5", issuer="key 0d9a10c2b4d5"),
    RuleRecord(time=10, rules=bytes(32), number=0, count=1, rule='{"metric":"service.load"}'),
    ObservationRecord(time=10, metric="service.load", subject="service", value=12.0),
    AlertRecord(
        time=10,
        rule="9f8cc3ff4d88",
        metric="budget.used",
        subject="clinic",
        value=0.76,
        threshold=0.75,
        caller="0f9a10c2b4d5aa11",
        charge="clinic#4",
    ),
    MeasureRecord(
        time=10,
        rule="9f8cc3ff4d88",
        metric="budget.used",
        subject="clinic",
        value=0.81,
        threshold=0.8,
        action="limit",
        until="renewed",
    ),
    LiftRecord(time=10, rule="9f8cc3ff4d88", subject="clinic", cause="renewed"),
    AnswersErasedRecord(time=11, before=10.0, answers=3, issuer="command line"),
    BudgetPolicyRecord(
        time=12,
        account="a",
        thresholds="50 75 90",
        renew="monthly",
        cool_down=24.0,
        allowance=0.1,
        window="day",
        approval=-1.0,
        reason="as agreed",
    ),
    BudgetApprovalRecord(time=13, account="a", request="a#7", step="requested", event="{}"),
    BudgetApprovalRecord(
        time=14, account="a", request="a#7", step="spent", event="{}", charge="a#9"
    ),
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.kind)
def test_every_kind_comes_back_and_is_small(record: Record) -> None:
    content = canonical_bytes(record)
    assert decode_record(content) == record
    assert len(content) < LARGEST_RECORD
    for value in json.loads(content).values():
        assert type(value) in (str, int)


def test_every_kind_is_tried_here() -> None:
    assert {type(record) for record in RECORDS} == set(KINDS.values())


def test_the_bytes_of_a_release_never_change() -> None:
    """Written down once: a stored record must hash to the same leaf in every later version."""
    record = replace(release(7), query=HASH, answer=HASH[::-1], guarantees=HASH)
    assert canonical_bytes(record) == (
        b'{"account":"clinic/2026",'
        b'"answer":"1f1e1d1c1b1a191817161514131211100f0e0d0c0b0a09080706050403020100",'
        b'"charge":"charge 7","dataset":"clinic v1","delta":"0x1.0c6f7a0b5ed8dp-20",'
        b'"epsilon":"0x1.0000000000000p-2",'
        b'"guarantees":"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",'
        b'"kind":"release","mechanism":"analytic Gaussian",'
        b'"query":"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",'
        b'"relation":"blank one","subject":"readmission model v3","time":1700000007,'
        b'"unit":"row","version":1}'
    )


@given(
    epsilon=st.floats(allow_nan=False, allow_infinity=False),
    reason=st.text(st.characters(exclude_categories=["Cs"]), max_size=60),
    time=st.integers(-(2**53) + 1, 2**53 - 1),
)
def test_every_value_comes_back_bit_for_bit(epsilon: float, reason: str, time: int) -> None:
    record = RefusalRecord(time=time, account="a", reason=reason, epsilon=epsilon, delta=0.0)
    assert repr(decode_record(canonical_bytes(record))) == repr(record)


def changed(**changes: Any) -> bytes:
    """A release's JSON with fields replaced, added, or (None) removed."""
    flat = json.loads(canonical_bytes(release())) | changes
    kept = {name: value for name, value in flat.items() if value is not None}
    return json.dumps(kept, sort_keys=True, separators=(",", ":")).encode()


@pytest.mark.parametrize(
    "content",
    [
        changed(kind="rumour"),
        changed(version=2),
        changed(version="1"),
        changed(kind=None),
        changed(version=None),
        changed(account=None),
        changed(query=None),
        changed(extra="x"),
        changed(time="1"),
        changed(account=5),
        changed(epsilon=1),
        changed(epsilon="0.5"),
        changed(epsilon="0x1p-2"),
        changed(epsilon="0X1.0000000000000P-2"),
        changed(epsilon=" 0x1.0000000000000p-2"),
        changed(epsilon="inf"),
        changed(epsilon="nan"),
        changed(query="00" * 31),
        changed(query="AA" * 32),
        changed(query="0 0 " * 32),
        changed(query="zz" * 32),
        changed(account="x" * 2000),
        b"[]",
        b"not JSON",
        changed().replace(b",", b", "),
    ],
)
def test_what_is_not_written_by_us_is_refused(content: bytes) -> None:
    with pytest.raises(InvalidInput):
        decode_record(content)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("time", 1.0),
        ("time", True),
        ("time", 2**53),
        ("account", None),
        ("account", "\ud800"),
        ("account", "x" * LARGEST_RECORD),
        ("epsilon", 1),
        ("epsilon", float("nan")),
        ("delta", float("inf")),
        ("query", b"short"),
        ("answer", "00" * 32),
    ],
)
def test_a_field_of_another_type_or_size_is_refused(field: str, value: object) -> None:
    with pytest.raises(InvalidInput):
        canonical_bytes(replace(release(), **{field: value}))  # type: ignore[arg-type]


def test_something_that_is_not_a_record_is_refused() -> None:
    with pytest.raises(InvalidInput, match="expected a record"):
        canonical_bytes("release")  # type: ignore[arg-type]


def test_fields_hold_only_what_can_be_written() -> None:
    for kind in KINDS.values():
        allowed = {"str", "int", "float", "bytes", "bytes | None", "str | None", "float | None"}
        assert {field.type for field in fields(kind)} <= allowed


class TestDraft:
    """What is left open of a record and filled in later gives the very same bytes."""

    @pytest.mark.parametrize("record", RECORDS, ids=lambda record: str(record.kind))
    def test_a_filled_draft_is_the_record(self, record: Record) -> None:
        written = {name: value for name, value in vars(record).items() if value is not None}
        for count in range(len(written) + 1):
            values = dict(list(written.items())[:count])
            assert Draft(record, *values).filled(**values) == canonical_bytes(record)

    @given(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=50),
        st.binary(min_size=32, max_size=32),
    )
    def test_whatever_was_there_before(self, charge: str, query: bytes) -> None:
        draft = Draft(release(), "charge", "query")
        expected = canonical_bytes(replace(release(), charge=charge, query=query))
        assert draft.filled(charge=charge, query=query) == expected

    @pytest.mark.parametrize(
        "values",
        [
            {"charge": 1, "query": HASH},
            {"charge": "a", "query": HASH[1:]},
            {"charge": "a" * LARGEST_RECORD, "query": HASH},
            {"charge": "\ud800", "query": HASH},
        ],
    )
    def test_what_no_record_may_hold_is_refused(self, values: dict[str, Any]) -> None:
        with pytest.raises(InvalidInput):
            Draft(release(), "charge", "query").filled(**values)
