"""The tamper-evident audit log.

A tour, by what you want to do:

- say what happened, in one of the classes of `Record`: `ReleaseRecord`, `PostProcessingRecord`,
  `RefusalRecord`, `BudgetOpenedRecord`, `BudgetRenewedRecord`, `FederationRoundRecord`,
  `ParticipationRecord`, `AbsenceRecord`, `RoundShownRecord`, `TrustRecord`, `RewardRecord`,
  `WeightingRecord`, `EvidenceRecord`, `AssessmentRecord`, `EventsAssessmentRecord`,
  `KeyRotationRecord`, `CheckpointAcceptedRecord`; commit to a query or an answer without showing
  it: `Commitment`
- write it down, inside whatever transaction you are in: `AuditLog`, with the tables of `PART`
- sign what the log holds, with witnesses if a policy asks for them: `SigningKey`, `publish`,
  `RemoteWitness`; keep a copy outside the database, so that one that was set back is noticed:
  `PinnedCheckpoint`
- hand out proofs: `issue_receipt`, `Receipt`
- check them, anywhere, offline: `verify_receipt`, `verify_export`, `Policy`
- one record for many rows, and a proof for each: `RowTree`, `RowReceipt`, `verify_row_receipt`
- be a witness for somebody else's log: `Witness`, `serve`
- put checkpoints on a chain, and compare with what stands there: `open_anchors`, `Anchors`,
  `AnchorEvidence`, `AnchorAddress`, `DeliveryTerms`, `ChainFault`

Names are loaded when they are first used: the verifier works without the writing side and without
a database. It and what it stands on import nothing else of voile; what they refuse is a ValueError
(`Malformed`, `BadSignature`), as `InvalidInput` of the writing side is too.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from voile.records.audit_log.anchor import Anchors, open_anchors
    from voile.records.audit_log.commitments import Commitment
    from voile.records.audit_log.delivery import ChainFault, DeliveryTerms
    from voile.records.audit_log.digests import (
        array_digest,
        explanation_bytes,
        explanation_rows,
        guarantees_digest,
        published_round_hash,
    )
    from voile.records.audit_log.federation_records import (
        AbsenceRecord,
        EvidenceRecord,
        FederationRoundRecord,
        ParticipationRecord,
        RewardRecord,
        RoundShownRecord,
        TrustRecord,
        WeightingRecord,
    )
    from voile.records.audit_log.kept import PinnedCheckpoint
    from voile.records.audit_log.keys import SigningKey
    from voile.records.audit_log.log import PART, AppendedRecord, AuditLog, TreeHead
    from voile.records.audit_log.policy import AnchorAddress, Policy
    from voile.records.audit_log.publishing import (
        KeyChange,
        UnsignedRecord,
        issue_receipt,
        publish,
        rotate,
    )
    from voile.records.audit_log.receipt import Receipt
    from voile.records.audit_log.records import (
        AssessmentRecord,
        BudgetOpenedRecord,
        BudgetRenewedRecord,
        CheckpointAcceptedRecord,
        Draft,
        Encoded,
        EventsAssessmentRecord,
        KeyRotationRecord,
        PostProcessingRecord,
        Record,
        RefusalRecord,
        ReleaseRecord,
        canonical_bytes,
        decode_record,
    )
    from voile.records.audit_log.row_receipt import RowReceipt, RowTree, verify_row_receipt
    from voile.records.audit_log.verifier import (
        AnchorEvidence,
        CheckOutcome,
        OtherCheckpoint,
        Report,
        Step,
        record_lines,
        verify_export,
        verify_receipt,
    )
    from voile.records.audit_log.witness import Witness
    from voile.records.audit_log.witness_client import ContradictedCheckpoint, RemoteWitness
    from voile.records.audit_log.witness_server import serve

_HOMES = {
    "anchor": ["Anchors", "open_anchors"],
    "commitments": ["Commitment"],
    "delivery": ["ChainFault", "DeliveryTerms"],
    "digests": [
        "array_digest",
        "explanation_bytes",
        "explanation_rows",
        "guarantees_digest",
        "published_round_hash",
    ],
    "federation_records": [
        "AbsenceRecord",
        "EvidenceRecord",
        "FederationRoundRecord",
        "ParticipationRecord",
        "RewardRecord",
        "RoundShownRecord",
        "TrustRecord",
        "WeightingRecord",
    ],
    "kept": ["PinnedCheckpoint"],
    "keys": ["SigningKey"],
    "log": ["PART", "AppendedRecord", "AuditLog", "TreeHead"],
    "policy": ["AnchorAddress", "Policy"],
    "publishing": ["KeyChange", "UnsignedRecord", "issue_receipt", "publish", "rotate"],
    "receipt": ["Receipt"],
    "records": [
        "AssessmentRecord",
        "BudgetOpenedRecord",
        "BudgetRenewedRecord",
        "CheckpointAcceptedRecord",
        "Draft",
        "Encoded",
        "EventsAssessmentRecord",
        "KeyRotationRecord",
        "PostProcessingRecord",
        "Record",
        "RefusalRecord",
        "ReleaseRecord",
        "canonical_bytes",
        "decode_record",
    ],
    "row_receipt": ["RowReceipt", "RowTree", "verify_row_receipt"],
    "verifier": [
        "AnchorEvidence",
        "CheckOutcome",
        "OtherCheckpoint",
        "Report",
        "Step",
        "record_lines",
        "verify_export",
        "verify_receipt",
    ],
    "witness": ["Witness"],
    "witness_client": ["ContradictedCheckpoint", "RemoteWitness"],
    "witness_server": ["serve"],
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "PART",
    "AbsenceRecord",
    "AnchorAddress",
    "AnchorEvidence",
    "Anchors",
    "AppendedRecord",
    "AssessmentRecord",
    "AuditLog",
    "BudgetOpenedRecord",
    "BudgetRenewedRecord",
    "ChainFault",
    "CheckOutcome",
    "CheckpointAcceptedRecord",
    "Commitment",
    "ContradictedCheckpoint",
    "DeliveryTerms",
    "Draft",
    "Encoded",
    "EventsAssessmentRecord",
    "EvidenceRecord",
    "FederationRoundRecord",
    "KeyChange",
    "KeyRotationRecord",
    "OtherCheckpoint",
    "ParticipationRecord",
    "PinnedCheckpoint",
    "Policy",
    "PostProcessingRecord",
    "Receipt",
    "Record",
    "RefusalRecord",
    "ReleaseRecord",
    "RemoteWitness",
    "Report",
    "RewardRecord",
    "RoundShownRecord",
    "RowReceipt",
    "RowTree",
    "SigningKey",
    "Step",
    "TreeHead",
    "TrustRecord",
    "UnsignedRecord",
    "WeightingRecord",
    "Witness",
    "array_digest",
    "canonical_bytes",
    "decode_record",
    "explanation_bytes",
    "explanation_rows",
    "guarantees_digest",
    "issue_receipt",
    "open_anchors",
    "publish",
    "published_round_hash",
    "record_lines",
    "rotate",
    "serve",
    "verify_export",
    "verify_receipt",
    "verify_row_receipt",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
