"""From records to something an auditor can hold: checkpoints, key rotation, receipts, exports."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from voile.core.atomic_file import disk_fault, replace_file
from voile.core.errors import InvalidInput, VerificationFailed
from voile.records.audit_log.kept import signed_checkpoint
from voile.records.audit_log.keys import SigningKey
from voile.records.audit_log.log import (
    CHECKPOINTS,
    AuditLog,
    PublishedRow,
    TreeHead,
    latest_published,
)
from voile.records.audit_log.merkle import grow, leaf_hash, root_of
from voile.records.audit_log.notes import Checkpoint, Note
from voile.records.audit_log.policy import Policy
from voile.records.audit_log.receipt import Receipt
from voile.records.audit_log.records import KeyRotationRecord
from voile.records.audit_log.row_receipt import HEADER, RowReceipt
from voile.records.audit_log.witness_client import (
    PATIENCE,
    CosignRequest,
    RemoteWitness,
    WitnessAnswer,
    collect,
)
from voile.records.storage import Storage, Transaction

RECORDS_FILE: Final = "records.jsonl"
CHECKPOINT_FILE: Final = "checkpoint.txt"
"""The two files of an export."""
_PAGE: Final = 1000


class UnsignedRecord(InvalidInput):
    """A record is newer than the checkpoint that is to prove it."""


@dataclass(frozen=True)
class PublishedCheckpoints:
    """A checkpoint that is published, and what each witness said.

    Args:
        missing: how many cosignatures the policy still asks for; until they are there, a receipt
            under this checkpoint does not verify. Publish again to collect them, and issue the
            receipt again (`reissue`).
    """

    note: Note
    checkpoint: Checkpoint
    answers: tuple[WitnessAnswer, ...] = ()
    missing: int = 0


def publish(
    storage: Storage,
    log: AuditLog,
    policy: Policy,
    signers: Sequence[SigningKey],
    *,
    witnesses: Sequence[RemoteWitness] | None = None,
    seen: bytes | None = None,
    patience: float = PATIENCE,
) -> PublishedCheckpoints:
    """Sign what the log holds now, collect the cosignatures the policy asks for, and publish.

    A checkpoint is published when it is stored: receipts refer to published ones only. The copy
    that the log is compared with, if it has one, is replaced.

    Args:
        policy: the rules auditors will apply; keys that are not in it are refused.
        signers: usually one key, two during a rotation.
        witnesses: whom to ask; those of the policy if None.
        seen: another checkpoint from outside the database, if any: a database that was set back to
            an older state does not extend it, and nothing is signed.

    Raises:
        Contradicted: a witness knows another history, and too few cosigned; nothing was published.
        VerificationFailed: the log does not extend what was published before.
    """
    check_signers(policy, log, signers)
    before = None if seen is None else signed_checkpoint(seen, policy)
    head, latest = storage.submit(
        lambda t: (_checked_head(t, log, policy, before), latest_published(t))
    )
    checkpoint = Checkpoint(log.origin, head.size, head.root)
    note = Note(checkpoint.text, tuple(key.sign(checkpoint.text) for key in signers))

    def prove(old_size: int) -> tuple[bytes, ...]:
        return storage.submit(lambda t: log.consistency_proof(t, old_size, head.size))

    if witnesses is None:
        witnesses = [RemoteWitness(url) for url in policy.witness_urls]
    inquiry = CosignRequest(note, checkpoint, latest.size if latest else 0, prove, policy)
    note, answers = collect(inquiry, witnesses, patience=patience)
    if log.kept is not None and log.kept.read() is None:
        # Kept before it is published: a signed log without a copy would be refused after a crash.
        log.kept.advance(bytes(note))
    note = storage.submit(lambda t: _store(t, head.size, note))
    if log.kept is not None:
        log.kept.advance(bytes(note))
    return PublishedCheckpoints(note, checkpoint, answers, missing_cosignatures(note, policy))


def missing_cosignatures(note: Note, policy: Policy) -> int:
    """How many more witnesses the policy asks for."""
    return max(0, policy.threshold - len(note.signers(policy.witness_keys)))


@dataclass(frozen=True)
class KeyChange:
    """Which key a log goes over from, to which, and why."""

    old: SigningKey
    new: SigningKey
    reason: str

    @property
    def record(self) -> KeyRotationRecord:
        old, new = str(self.old.verifier), str(self.new.verifier)
        return KeyRotationRecord(
            time=int(time.time()), old_key=old, new_key=new, reason=self.reason
        )


def rotate(
    storage: Storage,
    log: AuditLog,
    policy: Policy,
    change: KeyChange,
    *,
    witnesses: Sequence[RemoteWitness] | None = None,
    seen: bytes | None = None,
    patience: float = PATIENCE,
) -> PublishedCheckpoints:
    """Record the new key in the log, and publish a checkpoint over that record signed with both.

    Whoever trusts the old key sees it vouch for the new one. The old key stays in the policy, so
    that old checkpoints and receipts verify as before; it signs nothing any more.
    """
    both = [change.old, change.new]
    check_signers(policy, log, both)
    storage.submit(lambda t: log.append(t, change.record))
    return publish(storage, log, policy, both, witnesses=witnesses, seen=seen, patience=patience)


def latest_checkpoint(storage: Storage) -> bytes | None:
    """The published checkpoint with the most records."""
    latest = storage.submit(latest_published)
    return None if latest is None else latest.note


def issue_receipt(
    storage: Storage,
    log: AuditLog,
    index: int,
    nonces: Mapping[str, bytes] | None = None,
    *,
    size: int | None = None,
) -> Receipt:
    """Proof that record `index` is in the log, under the latest published checkpoint.

    Args:
        nonces: what opens the record's commitments; they are not stored with the log.
        size: take the published checkpoint of this size instead.

    Raises:
        Unsigned: no checkpoint covers the record.
    """

    def read(t: Transaction) -> Receipt:
        found = latest_published(t) if size is None else t.get(CHECKPOINTS, size)
        if found is None:
            raise UnsignedRecord(
                "no such checkpoint was published; `voile audit checkpoint` does it"
            )
        if not 0 <= index < found.size:
            raise UnsignedRecord(
                f"the checkpoint covers {found.size} records, record {index} is not among them "
                "yet; publish a newer one with `voile audit checkpoint`"
            )
        path = log.inclusion_proof(t, index, found.size)
        return Receipt(log.record(t, index), index, path, found.note, dict(nonces or {}))

    return storage.submit(read)


def reissue(storage: Storage, log: AuditLog, content: bytes) -> bytes:
    """A receipt, of a record or of a row, once more under the latest published checkpoint."""
    if content.startswith(HEADER.encode()):
        row = RowReceipt.parse(content)
        return bytes(replace(row, record=_reissued(storage, log, row.record)))
    return bytes(_reissued(storage, log, Receipt.parse(content)))


def _reissued(storage: Storage, log: AuditLog, old: Receipt) -> Receipt:
    new = issue_receipt(storage, log, old.index, old.nonces)
    if new.record != old.record:
        raise VerificationFailed(f"record {old.index} of this log is not the one of the receipt")
    return new


def all_records(storage: Storage, log: AuditLog, size: int) -> Iterator[bytes]:
    """The first `size` records, a page at a time, so that others can write in between."""
    for first in range(0, size, _PAGE):
        limit = min(_PAGE, size - first)
        page = storage.submit(
            lambda t, first=first, limit=limit: log.records(t, first=first, limit=limit)  # type: ignore[misc]
        )
        yield from page
        if len(page) < limit:
            return


def exported_log(storage: Storage, log: AuditLog) -> dict[str, bytes]:
    """The files of an export, in memory: for a log that is sent to somebody."""
    note, lines = _covered(storage, log)
    return {RECORDS_FILE: b"".join(lines), CHECKPOINT_FILE: note}


def _covered(storage: Storage, log: AuditLog) -> tuple[bytes, Iterator[bytes]]:
    """The latest checkpoint, and a line for each record that it covers."""
    note = latest_checkpoint(storage)
    if note is None:
        raise InvalidInput("nothing was published yet; `voile audit checkpoint` does it")
    size = Checkpoint.parse(Note.parse(note).text).size
    return note, (record + b"\n" for record in all_records(storage, log, size))


def export_log(storage: Storage, log: AuditLog, folder: Path) -> int:
    """Write all records that the latest checkpoint covers, and the checkpoint, into a new folder.

    The checkpoint is written last: a folder without one is an export that was not finished.
    """
    note, lines = _covered(storage, log)
    size = 0
    if os.path.lexists(folder):
        raise InvalidInput(f"{folder}: exists already; move it away or choose another folder")
    try:
        folder.mkdir()
        with (folder / RECORDS_FILE).open("wb") as stream:
            for size, line in enumerate(lines, start=1):  # noqa: B007
                stream.write(line)
    except OSError as error:
        raise disk_fault(folder, error) from error
    replace_file(folder / CHECKPOINT_FILE, note)
    return size


def check_stored(storage: Storage, log: AuditLog) -> TreeHead:
    """Recompute the whole tree from the records; `VerificationFailed` if the database disagrees."""
    head = storage.submit(log.head)
    size, edge = 0, b""
    for record in all_records(storage, log, head.size):
        edge, _ = grow(size, edge, leaf_hash(record))
        size += 1
    if TreeHead(size, root_of(edge)) != head:
        raise VerificationFailed(
            f"the {size} records in the database do not hash to the tree head it holds "
            f"({head.size} records): records were changed or removed"
        )
    return head


def check_signers(policy: Policy, log: AuditLog, signers: Sequence[SigningKey]) -> None:
    """Refuse a policy of another log, and keys that it does not list."""
    if policy.origin != log.origin:
        raise InvalidInput(f"the policy is for {policy.origin!r}, the log is {log.origin!r}")
    foreign = [key.name for key in signers if key.name != log.origin]
    if foreign:
        raise InvalidInput(
            f"the signing key is that of {foreign[0]!r}, the log is {log.origin!r}: name the log's "
            "own key with --key"
        )
    unknown = [key.name for key in signers if key.verifier not in policy.log_keys]
    if unknown or not signers:
        raise InvalidInput(
            "a checkpoint is signed with keys the policy lists under log_keys; add "
            + ", ".join(str(key.verifier) for key in signers if key.verifier not in policy.log_keys)
        )


def _checked_head(
    t: Transaction, log: AuditLog, policy: Policy, seen: Checkpoint | None
) -> TreeHead:
    """What is to be signed, if it extends everything that is known of the log."""
    log.check(t)
    head, latest = log.head(t), latest_published(t)
    published = None if latest is None else signed_checkpoint(latest.note, policy)
    for old in (published, seen):
        if old is not None and not log.extends(t, old):
            raise VerificationFailed(
                f"the log holds {head.size} records and does not extend the published checkpoint "
                f"of {old.size}: it was set back or changed; nothing was signed"
            )
    return head


def _store(transaction: Transaction, size: int, note: Note) -> Note:
    """A checkpoint of the same size may be published again, with more signatures on it."""
    before = transaction.get(CHECKPOINTS, size)
    if before is None:
        transaction.insert(CHECKPOINTS, PublishedRow(size, bytes(note)))
        return note
    merged = {(s.name, s.key_id): s for s in Note.parse(before.note).signatures + note.signatures}
    joined = replace(note, signatures=tuple(merged.values()))
    transaction.replace(CHECKPOINTS, PublishedRow(size, bytes(joined)))
    return joined
