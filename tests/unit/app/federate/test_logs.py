"""Logs that parties hand over: what a server accepts, an auditor can verify, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.protecting import row_of

from voile.app.federate import FederationAgreement
from voile.app.federate.logs import checked_log
from voile.core.errors import Refused
from voile.datasets import clinic_federation
from voile.federation import Closed, HistoryRow, Outcome
from voile.federation.history import event_as_text
from voile.privacy.events import Gaussian
from voile.records.audit_log import (
    ParticipationRecord,
    Policy,
    SigningKey,
    canonical_bytes,
    record_lines,
    verify_export,
)
from voile.records.audit_log.canonical import encode
from voile.records.audit_log.merkle import grow, leaf_hash, root_of
from voile.records.audit_log.notes import Checkpoint, Note
from voile.records.ledger.event_text import event_for_log, event_text

KEY = SigningKey.generate("north.example/log")
AGREEMENT = FederationAgreement(
    protected=row_of("study v1"),
    schema=clinic_federation(10, seed=1).schema,
    sizes={"north": 40},
    epsilon=2.0,
    delta=1e-5,
    keys={"north": KEY.verifier},
)
EVENT = Gaussian(4.0)
ROW = HistoryRow("black box", 1, "north", Outcome.ANSWERED, event_as_text(EVENT), 0.0)
CHARGE = canonical_bytes(
    ParticipationRecord(
        time=0,
        account="study v1: north",
        charge="study v1: north#1",
        federation="study v1",
        stage="black box",
        round=1,
        epsilon=2.0,
        delta=1e-5,
        **row_of("study v1").texts,
        event=event_for_log(event_text(EVENT)),
        agreement=AGREEMENT.digest,
    )
)


def signed(records: Sequence[bytes], newline: bytes = b"\n") -> dict[str, bytes]:
    """A log of these records, signed with the agreed key."""
    edge = b""
    for size, record in enumerate(records):
        edge, _ = grow(size, edge, leaf_hash(record))
    text = Checkpoint("north.example/log", len(records), root_of(edge)).text
    return {
        "records.jsonl": b"".join(record + newline for record in records),
        "checkpoint.txt": bytes(Note(text, (KEY.sign(text),))),
        "audit-policy.toml": str(Policy("north.example/log", (KEY.verifier,))).encode(),
    }


def taken(files: Any) -> Any:
    return checked_log("north", Closed("north", AGREEMENT.digest, files), AGREEMENT, [ROW])


def audited(files: dict[str, bytes], folder: Path) -> bool:
    """By whoever has the files on a disk."""
    (folder / "records.jsonl").write_bytes(files["records.jsonl"])
    with (folder / "records.jsonl").open("rb") as stream:
        policy = Policy.parse(files["audit-policy.toml"].decode())
        return verify_export(record_lines(stream), files["checkpoint.txt"], policy).verified


def test_what_an_auditor_can_verify_is_accepted(tmp_path: Path) -> None:
    files = signed([CHARGE])
    assert audited(files, tmp_path)
    assert taken(files) == files


@pytest.mark.parametrize("newline", [b"\r", b"\r\n", b"\n\r", b"\x0b", b"\x0c", b"\n\n"])
def test_only_a_newline_ends_a_record(newline: bytes, tmp_path: Path) -> None:
    """Python knows more line breaks; an artefact with them could be verified by nobody."""
    files = signed([CHARGE, CHARGE], newline)
    assert not audited(files, tmp_path)
    with pytest.raises(Refused, match="the log of 'north' does not verify"):
        taken(files)


@pytest.mark.parametrize(
    "other",
    [
        {"kind": "of a newer voile", "version": 1},
        {"kind": "participation", "version": 2},
        {"kind": "release", "version": 1},
    ],
)
def test_records_that_are_not_about_rounds_are_left_to_auditors(
    other: dict[str, Any], tmp_path: Path
) -> None:
    files = signed([encode(other), CHARGE])
    assert audited(files, tmp_path)
    assert taken(files) == files
    with pytest.raises(Refused, match=r"'north' took part .* no charge"):
        taken(signed([encode(other)]))


def test_a_participation_that_cannot_be_read_is_refused_by_the_name_of_the_party() -> None:
    short = encode({"kind": "participation", "version": 1, "round": 1})
    with pytest.raises(Refused, match="the log of 'north' cannot be read: a participation has"):
        taken(signed([short, CHARGE]))


@pytest.mark.parametrize("files", [None, 7, [], "records.jsonl", b"", {"records.jsonl": None}])
def test_anything_but_files_is_refused_by_the_name_of_the_party(files: Any) -> None:
    with pytest.raises(Refused, match="the log of 'north' consists of other files"):
        taken(files)
