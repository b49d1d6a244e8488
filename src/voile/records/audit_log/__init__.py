"""The tamper-evident audit log.

A tour, by what you want to do:

- say what happened, in one of the classes of `Record`: `ReleaseRecord`, `PostProcessingRecord`,
  `RefusalRecord`, `BudgetOpenedRecord`, `BudgetRenewedRecord`,
  `BudgetPolicyRecord`, `BudgetApprovalRecord`, `FederationRoundRecord`, `ParticipationRecord`,
  `AbsenceRecord`, `RoundShownRecord`, `TrustRecord`, `RewardRecord`,
  `WeightingRecord`, `EvidenceRecord`, `AssessmentRecord`, `EventsAssessmentRecord`,
  `KeyRotationRecord`, `CheckpointAcceptedRecord`, `KeyIssuedRecord`, `KeyRevokedRecord`,
  `AnswersErasedRecord`, `RuleRecord`, `ObservationRecord`, `AlertRecord`, `MeasureRecord`,
  `LiftRecord`; commit to a query or an answer without showing it: `Commitment`
- write it down, inside whatever transaction you are in: `AuditLog`, with the tables of `PART`
- sign what the log holds, with witnesses if a policy asks for them: `SigningKey`, `publish`,
  `RemoteWitness`; keep a copy outside the database, so that one that was set back is noticed:
  `PinnedCheckpoint`
- hand out proofs: `issue_receipt`, `Receipt`
- check them, anywhere, offline: `verify_receipt`, `verify_export`, `Policy`
- one record for many rows, and a proof for each: `RowTree`, `RowReceipt`, `verify_row_receipt`
- be a witness for somebody else's log: `Witness`, `serve`
- let others mirror it, tile by tile: `Tile`
- put checkpoints on a chain, and compare with what stands there: `Anchors`, `AnchorEvidence`,
  `DeliveryTerms`

Names are loaded when they are first used: the verifier works without the writing side and without
a database. It and what it stands on import nothing else of voile; what they refuse is a ValueError
(`Malformed`, `BadSignature`), as `InvalidInput` of the writing side is too.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from voile.records.audit_log.anchor import Anchors as Anchors
    from voile.records.audit_log.canonical import Commitment as Commitment
    from voile.records.audit_log.delivery import DeliveryTerms as DeliveryTerms
    from voile.records.audit_log.digests import array_digest as array_digest
    from voile.records.audit_log.digests import common_digest as common_digest
    from voile.records.audit_log.digests import explanation_bytes as explanation_bytes
    from voile.records.audit_log.digests import explanation_rows as explanation_rows
    from voile.records.audit_log.digests import guarantees_digest as guarantees_digest
    from voile.records.audit_log.digests import published_round_hash as published_round_hash
    from voile.records.audit_log.kept import PinnedCheckpoint as PinnedCheckpoint
    from voile.records.audit_log.keys import SigningKey as SigningKey
    from voile.records.audit_log.log import PART as PART
    from voile.records.audit_log.log import AuditLog as AuditLog
    from voile.records.audit_log.policy import Policy as Policy
    from voile.records.audit_log.publishing import KeyChange as KeyChange
    from voile.records.audit_log.publishing import UnsignedRecord as UnsignedRecord
    from voile.records.audit_log.publishing import issue_receipt as issue_receipt
    from voile.records.audit_log.publishing import publish as publish
    from voile.records.audit_log.publishing import rotate as rotate
    from voile.records.audit_log.receipt import Receipt as Receipt
    from voile.records.audit_log.records import AbsenceRecord as AbsenceRecord
    from voile.records.audit_log.records import AnswersErasedRecord as AnswersErasedRecord
    from voile.records.audit_log.records import AssessmentRecord as AssessmentRecord
    from voile.records.audit_log.records import BudgetApprovalRecord as BudgetApprovalRecord
    from voile.records.audit_log.records import BudgetOpenedRecord as BudgetOpenedRecord
    from voile.records.audit_log.records import BudgetPolicyRecord as BudgetPolicyRecord
    from voile.records.audit_log.records import BudgetRenewedRecord as BudgetRenewedRecord
    from voile.records.audit_log.records import CheckpointAcceptedRecord as CheckpointAcceptedRecord
    from voile.records.audit_log.records import Draft as Draft
    from voile.records.audit_log.records import Encoded as Encoded
    from voile.records.audit_log.records import EventsAssessmentRecord as EventsAssessmentRecord
    from voile.records.audit_log.records import EvidenceRecord as EvidenceRecord
    from voile.records.audit_log.records import FederationRoundRecord as FederationRoundRecord
    from voile.records.audit_log.records import KeyIssuedRecord as KeyIssuedRecord
    from voile.records.audit_log.records import KeyRevokedRecord as KeyRevokedRecord
    from voile.records.audit_log.records import KeyRotationRecord as KeyRotationRecord
    from voile.records.audit_log.records import ParticipationRecord as ParticipationRecord
    from voile.records.audit_log.records import PostProcessingRecord as PostProcessingRecord
    from voile.records.audit_log.records import Record as Record
    from voile.records.audit_log.records import RefusalRecord as RefusalRecord
    from voile.records.audit_log.records import ReleaseRecord as ReleaseRecord
    from voile.records.audit_log.records import RewardRecord as RewardRecord
    from voile.records.audit_log.records import RoundShownRecord as RoundShownRecord
    from voile.records.audit_log.records import TrustRecord as TrustRecord
    from voile.records.audit_log.records import WeightingRecord as WeightingRecord
    from voile.records.audit_log.records import canonical_bytes as canonical_bytes
    from voile.records.audit_log.records import decode_record as decode_record
    from voile.records.audit_log.row_receipt import BlockRoots as BlockRoots
    from voile.records.audit_log.row_receipt import RowReceipt as RowReceipt
    from voile.records.audit_log.row_receipt import RowTree as RowTree
    from voile.records.audit_log.row_receipt import verify_row_receipt as verify_row_receipt
    from voile.records.audit_log.rule_records import AlertRecord as AlertRecord
    from voile.records.audit_log.rule_records import LiftRecord as LiftRecord
    from voile.records.audit_log.rule_records import MeasureRecord as MeasureRecord
    from voile.records.audit_log.rule_records import ObservationRecord as ObservationRecord
    from voile.records.audit_log.rule_records import RuleRecord as RuleRecord
    from voile.records.audit_log.tiles import Tile as Tile
    from voile.records.audit_log.verifier import AnchorEvidence as AnchorEvidence
    from voile.records.audit_log.verifier import CheckOutcome as CheckOutcome
    from voile.records.audit_log.verifier import OtherCheckpoint as OtherCheckpoint
    from voile.records.audit_log.verifier import Report as Report
    from voile.records.audit_log.verifier import Step as Step
    from voile.records.audit_log.verifier import record_lines as record_lines
    from voile.records.audit_log.verifier import verify_export as verify_export
    from voile.records.audit_log.verifier import verify_receipt as verify_receipt
    from voile.records.audit_log.witness import Witness as Witness
    from voile.records.audit_log.witness_client import RemoteWitness as RemoteWitness

_HOMES = {
    "anchor": ["Anchors"],
    "canonical": ["Commitment"],
    "delivery": ["DeliveryTerms"],
    "digests": [
        "array_digest",
        "common_digest",
        "explanation_bytes",
        "explanation_rows",
        "guarantees_digest",
        "published_round_hash",
    ],
    "kept": ["PinnedCheckpoint"],
    "keys": ["SigningKey"],
    "log": ["AuditLog", "PART"],
    "policy": ["Policy"],
    "publishing": ["KeyChange", "UnsignedRecord", "issue_receipt", "publish", "rotate"],
    "receipt": ["Receipt"],
    "records": [
        "AbsenceRecord",
        "AssessmentRecord",
        "BudgetApprovalRecord",
        "BudgetOpenedRecord",
        "BudgetPolicyRecord",
        "BudgetRenewedRecord",
        "CheckpointAcceptedRecord",
        "Draft",
        "Encoded",
        "EventsAssessmentRecord",
        "EvidenceRecord",
        "FederationRoundRecord",
        "KeyIssuedRecord",
        "AnswersErasedRecord",
        "KeyRevokedRecord",
        "KeyRotationRecord",
        "ParticipationRecord",
        "PostProcessingRecord",
        "Record",
        "RefusalRecord",
        "ReleaseRecord",
        "RewardRecord",
        "RoundShownRecord",
        "TrustRecord",
        "WeightingRecord",
        "canonical_bytes",
        "decode_record",
    ],
    "row_receipt": ["BlockRoots", "RowReceipt", "RowTree", "verify_row_receipt"],
    "rule_records": [
        "AlertRecord",
        "LiftRecord",
        "MeasureRecord",
        "ObservationRecord",
        "RuleRecord",
    ],
    "tiles": ["Tile"],
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
    "witness_client": ["RemoteWitness"],
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
