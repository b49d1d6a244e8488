"""Put a log's latest checkpoint on a chain.

1. The log extends the copy of its last checkpoint, and all cosignatures that the policy asks for
   are there: what nobody would verify is not anchored.
2. It extends what the chain holds already. A log that was set back stops here: the chain alone
   tells, whatever became of copies and witnesses.
3. What the chain holds already is not sent again: a command that was broken off is run again.
4. After enough confirmations the chain is read once more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from voile.core.atomic_file import replace_file
from voile.core.errors import InvalidInput, VerificationFailed
from voile.records.audit_log import (
    AnchorAddress,
    Anchors,
    AuditLog,
    DeliveryTerms,
    Policy,
    open_anchors,
)
from voile.records.audit_log.anchor import deploy
from voile.records.audit_log.delivery import MinedTransaction
from voile.records.audit_log.kept import signed_checkpoint
from voile.records.audit_log.notes import Checkpoint, Note
from voile.records.audit_log.publishing import latest_checkpoint, missing_cosignatures
from voile.records.storage import Storage


@dataclass(frozen=True)
class AnchorResult:
    """What stands on the chain after the command.

    Args:
        mined: the transaction; None where the chain held the checkpoint already.
    """

    checkpoint: Checkpoint
    address: AnchorAddress
    mined: MinedTransaction | None = None


def deploy_anchor(
    rpc: str, chain_id: int, policy: Path, rules: Policy, account: Any, terms: DeliveryTerms
) -> tuple[Policy, MinedTransaction]:
    """Deploy the contract, and write its address into the policy file."""
    if rules.anchor is not None:
        raise InvalidInput(
            f"{policy}: names {rules.anchor} already; take that line out to begin with another "
            "contract"
        )
    address, mined = deploy(rpc, chain_id, account, terms)
    named = replace(rules, anchor=address)
    replace_file(policy, str(named).encode())
    return named, mined


def anchors_of(policy: Policy, rpc: str, confirmations: int) -> Anchors:
    """The contract that the policy names."""
    if policy.anchor is None:
        raise InvalidInput(
            "the policy names no contract. Create one with `voile audit anchor --deploy`, which "
            'adds `anchor = "eip155:CHAIN:0x..."`'
        )
    return open_anchors(rpc, policy.anchor, confirmations)


def anchor_log(
    storage: Storage,
    log: AuditLog,
    policy: Policy,
    anchors: Anchors,
    account: Any,
    terms: DeliveryTerms,
) -> AnchorResult:
    """The latest published checkpoint, put on the chain."""
    checkpoint = _publishable(storage, log, policy)  # step 1
    known = anchors.latest(log.origin, confirmations=1)
    if known is not None and not storage.submit(lambda t: log.extends(t, known)):  # step 2
        raise VerificationFailed(
            f"the chain holds a checkpoint of {known.size} records of {log.origin!r}, and the log "
            f"in the database, of {storage.submit(log.head).size}, does not extend it: it was set "
            "back (restored from an old backup?) or changed. Nothing was sent"
        )
    mined = None
    if known is None or known.size < checkpoint.size:  # step 3
        mined = anchors.anchor(checkpoint, account, terms)
    found = anchors.latest(log.origin, confirmations=1)  # step 4
    if found is None or found.size < checkpoint.size:
        raise VerificationFailed(
            "the transaction is confirmed, but the chain does not hold the checkpoint: check "
            "that --rpc names the node that received it"
        )
    return AnchorResult(found, anchors.address, mined)


def _publishable(storage: Storage, log: AuditLog, policy: Policy) -> Checkpoint:
    storage.submit(log.check)
    note = latest_checkpoint(storage)
    if note is None:
        raise InvalidInput("no checkpoint was published yet; run `voile audit checkpoint` first")
    checkpoint = signed_checkpoint(note, policy)
    if not storage.submit(lambda t: log.extends(t, checkpoint)):
        raise VerificationFailed(
            "the log does not extend its own last checkpoint; nothing was sent"
        )
    if missing := missing_cosignatures(Note.parse(note), policy):
        raise VerificationFailed(
            f"{missing} cosignature(s) required by the policy are missing; `voile audit "
            "checkpoint` collects them. Nothing was sent"
        )
    return checkpoint
