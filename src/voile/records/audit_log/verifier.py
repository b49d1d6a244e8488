"""Checking a receipt or a whole log, offline, step by step.

Steps; every report lists all of them, in this order:

 1. Policy       the rules come from the policy file alone: origin, algorithm, keys, threshold
 2. Receipt      the file is a C2SP tlog-proof with a record in it (in an export: records, a line
                 each)
 3. Record       its bytes are canonical and say what kind of record, in which version
 4. Checkpoint   it is well formed and its origin is the policy's
 5. Signature    one of the policy's log keys signed it, and none of them is claimed falsely
 6. Witnesses    at least the policy's threshold of different witnesses cosigned it
 7. Inclusion    the record is number `index` of the tree, from 0 (in an export: all records hash
                 to the root)
 8. Query        the record's commitment opens to the query handed in
 9. Answer       the record's commitment opens to the answer handed in
10. Consistency  another checkpoint of this log, from elsewhere, is of the same history
11. Anchor       the checkpoint that a chain holds of this log is of the same history, and no longer

Left to the caller: that the policy file is the right one; that the other checkpoint of step 10
comes from a place the log does not control; and what the record *says*: a log proves that a
statement was made and not changed since, not that it is true.

Pure: standard library and Ed25519 verification. Imports neither the writing side nor storage.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import BinaryIO, Final, NoReturn, TypeVar

from voile.records.audit_log.canonical import Flat, Malformed, commitment_digest, decode_flat
from voile.records.audit_log.merkle import grow, is_consistent, is_included, leaf_hash, root_of
from voile.records.audit_log.notes import (
    BadSignature,
    Checkpoint,
    Note,
    cosigned_at,
    hash_from_base64,
)
from voile.records.audit_log.policy import Policy
from voile.records.audit_log.receipt import LONGEST_PATH, Receipt

Found = TypeVar("Found")
_LONGEST_LINE: Final = 64 * 2**20
"""Bytes that are read at once; records are far shorter, and no piece of a longer line is one."""

NAMES: Final = (
    "policy",
    "receipt",
    "record",
    "checkpoint",
    "log signature",
    "witnesses",
    "inclusion",
    "query",
    "answer",
    "consistency",
    "anchor",
)


class CheckOutcome(StrEnum):
    """What became of a step."""

    CHECKED = "checked"
    NOT_CHECKABLE = "not checkable"
    FAILED = "failed"


@dataclass(frozen=True)
class Step:
    """One numbered step, what became of it, and why."""

    number: int
    name: str
    outcome: CheckOutcome
    detail: str


@dataclass(frozen=True)
class Report:
    """All steps in order, and the record they are about (None for an export)."""

    steps: tuple[Step, ...]
    record: Flat | None = None

    @property
    def failed(self) -> Step | None:
        """The first step that failed."""
        return next((step for step in self.steps if step.outcome is CheckOutcome.FAILED), None)

    @property
    def verified(self) -> bool:
        """No step failed. Steps that could not be checked are listed, not counted."""
        return self.failed is None


@dataclass(frozen=True)
class OtherCheckpoint:
    """Another checkpoint of the log, and the log's proof that both belong to one history.

    Args:
        checkpoint: a signed note that did not come with the receipt.
        consistency: base64 hashes, a line each; empty when both have the same size.
    """

    checkpoint: bytes
    consistency: bytes = b""


@dataclass(frozen=True)
class AnchorEvidence:
    """What a chain holds of the log, and the log's proof that joins it with a receipt.

    Args:
        checkpoint: the largest one on the chain; None if it holds none of this log.
        consistency: as in `OtherCheckpoint`. An export needs none: all records are there.
    """

    checkpoint: Checkpoint | None
    consistency: bytes = b""


class _Failed(Exception):
    """A step does not hold."""


class _NotCheckable(Exception):
    """What the step needs is not there."""


class _Steps:
    """Runs checks one after the other; a check that depends on a failed one is not run."""

    def __init__(self) -> None:
        self.done: dict[int, Step] = {}

    def run(
        self, number: int, check: Callable[[], tuple[Found, str]], *, needs: tuple[int, ...] = ()
    ) -> Found | None:
        found, outcome = None, CheckOutcome.CHECKED
        try:
            for needed in needs:
                if self.done[needed].outcome is not CheckOutcome.CHECKED:
                    raise _NotCheckable(f"step {needed} ({NAMES[needed - 1]}) did not hold")
            found, detail = check()
        except _NotCheckable as reason:
            outcome, detail = CheckOutcome.NOT_CHECKABLE, str(reason)
        except (_Failed, Malformed, BadSignature) as reason:
            outcome, detail = CheckOutcome.FAILED, str(reason)
        self.done[number] = Step(number, NAMES[number - 1], outcome, detail)
        return found

    def report(self, record: Flat | None = None) -> Report:
        return Report(tuple(self.done[number] for number in sorted(self.done)), record)


def verify_receipt(
    content: bytes,
    policy: Policy,
    *,
    query: bytes | None = None,
    answer: bytes | None = None,
    elsewhere: OtherCheckpoint | None = None,
    anchored: AnchorEvidence | None = None,
) -> Report:
    """Check one receipt against a policy.

    Args:
        content: the receipt file.
        query: canonical bytes of what was asked, if at hand.
        answer: canonical bytes of what was answered, if at hand.
        elsewhere: another checkpoint of the log, if at hand.
        anchored: what a chain holds of the log, if it was asked.
    """
    steps = _Steps()
    steps.run(1, lambda: _policy(policy))
    receipt = steps.run(2, lambda: _receipt(content)) or _NO_RECEIPT
    record = steps.run(3, lambda: _record(receipt.record), needs=(2,)) or {}
    signed = _signed(steps, lambda: receipt.checkpoint, policy)
    steps.run(7, lambda: _included(receipt, signed), needs=(3, 4))
    for number, name, content_ in ((8, "query", query), (9, "answer", answer)):
        steps.run(number, _opening(name, record, receipt, content_), needs=(3,))
    steps.run(10, lambda: _elsewhere(signed, elsewhere, policy), needs=(4, 5))
    steps.run(11, lambda: _joined_with_anchor(signed, anchored), needs=(4, 5))
    return steps.report(record or None)


def record_lines(stream: BinaryIO) -> Iterator[bytes]:
    """The records of an export, one after the other: a long log does not fit into memory.

    Whoever reads an export reads it by this function. Only a newline ends a record: what takes
    anything else for an end of line, too, accepts a file that others cannot verify.
    """
    while line := stream.readline(_LONGEST_LINE):
        yield line.removesuffix(b"\n")


def verify_export(
    records: Iterable[bytes],
    checkpoint: bytes,
    policy: Policy,
    *,
    elsewhere: OtherCheckpoint | None = None,
    anchored: AnchorEvidence | None = None,
) -> Report:
    """Check a whole log: records in order, and the checkpoint that covers exactly these."""
    steps = _Steps()
    steps.run(1, lambda: _policy(policy))
    mark = anchored.checkpoint if anchored is not None else None
    tree = steps.run(3, lambda: _tree(records, mark.size if mark else 0)) or (0, b"", b"")
    size, root, root_then = tree
    steps.done[2] = Step(2, NAMES[1], CheckOutcome.CHECKED, "an export: one record a line")
    signed = _signed(steps, lambda: checkpoint, policy)
    steps.run(7, lambda: _whole(size, root, signed), needs=(3, 4))
    for number in (8, 9):
        steps.run(number, lambda: _no("an export holds no nonces, so that nothing can be opened"))
    steps.run(10, lambda: _elsewhere(signed, elsewhere, policy), needs=(4, 5))
    steps.run(11, lambda: _begins_with_anchor(size, root_then, anchored), needs=(3,))
    return steps.report()


# --- the steps -----------------------------------------------------------------------------------

_NO_CHECKPOINT = Checkpoint("", 0, b"")
_NO_RECEIPT = Receipt(b"", 0, (), b"")


def _no(reason: str) -> NoReturn:
    raise _NotCheckable(reason)


def _policy(policy: Policy) -> tuple[Policy, str]:  # step 1
    return policy, (
        f"origin {policy.origin!r}, {len(policy.log_keys)} log key(s), "
        f"{policy.threshold} of {len(policy.witness_keys)} witness(es)"
    )


def _receipt(content: bytes) -> tuple[Receipt, str]:  # step 2
    receipt = Receipt.parse(content)
    return receipt, f"record {receipt.index}, {len(receipt.path)} hashes"


def _record(content: bytes) -> tuple[Flat, str]:  # step 3
    record = decode_flat(content)
    kind, version = record.get("kind"), record.get("version")
    if not isinstance(kind, str) or not isinstance(version, int):
        raise _Failed("expected a kind and a version in the record")
    return record, f"{kind[:80]!r}, version {version}"


def _signed(steps: _Steps, content: Callable[[], bytes], policy: Policy) -> Checkpoint:
    """Steps 4 to 6: the checkpoint, the log's signature, the witnesses."""
    needs = (2,)
    note = steps.run(4, lambda: _note(content(), policy), needs=needs) or (Note("", ()), None)
    steps.run(5, lambda: _log_signature(note[0], policy), needs=(4,))
    steps.run(6, lambda: _witnesses(note[0], policy), needs=(4,))
    return note[1] or _NO_CHECKPOINT


def _note(content: bytes, policy: Policy) -> tuple[tuple[Note, Checkpoint], str]:  # step 4
    note = Note.parse(content)
    checkpoint = Checkpoint.parse(note.text)
    if checkpoint.origin != policy.origin:
        raise _Failed(f"expected the origin {policy.origin!r}, found {checkpoint.origin[:80]!r}")
    return (note, checkpoint), f"{checkpoint.size} records, root {checkpoint.root.hex()}"


def _log_signature(note: Note, policy: Policy) -> tuple[Note, str]:  # step 5
    found = note.signers(policy.log_keys)
    if not found:
        raise _Failed("none of the log keys of the policy signed this checkpoint")
    return note, "signed with " + ", ".join(f"key {key.key_id.hex()}" for key in found)


def _witnesses(note: Note, policy: Policy) -> tuple[int, str]:  # step 6
    found = note.signers(policy.witness_keys)
    names = ", ".join(f"{key.name} at {_clock(cosigned_at(s.value))}" for key, s in found.items())
    said = f"{len(found)} of {len(policy.witness_keys)} cosigned ({names or 'none'})"
    if len(found) < policy.threshold:
        raise _Failed(f"{said}; the policy asks for {policy.threshold}")
    if not policy.threshold:
        raise _NotCheckable(f"the policy asks for no witness; {said}")
    return len(found), said


def _clock(seconds: int) -> str:
    try:
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
    except (OverflowError, OSError, ValueError):
        return f"second {seconds}"


def _included(receipt: Receipt, signed: Checkpoint) -> tuple[None, str]:  # step 7
    leaf = leaf_hash(receipt.record)
    if not is_included(leaf, receipt.index, signed.size, receipt.path, signed.root):
        raise _Failed(
            f"the record is not record {receipt.index} of the {signed.size} records that the "
            "checkpoint covers, counted from 0"
        )
    return None, f"record {receipt.index}, number {receipt.index + 1} of {signed.size} records"


def _tree(
    records: Iterable[bytes], mark: int
) -> tuple[tuple[int, bytes, bytes], str]:  # step 3, of an export
    """Size and root, and the root when there were `mark` records."""
    size, edge, root_then = 0, b"", b""
    for record in records:
        try:
            _record(record)
        except (_Failed, Malformed) as reason:
            raise _Failed(f"record {size}: {reason}") from None
        edge, _ = grow(size, edge, leaf_hash(record))
        size += 1
        if size == mark:
            root_then = root_of(edge)
    return (size, root_of(edge), root_then), f"{size} records"


def _whole(size: int, root: bytes, signed: Checkpoint) -> tuple[None, str]:  # step 7, of an export
    if (size, root) != (signed.size, signed.root):
        raise _Failed(
            f"{size} records with root {root.hex()} were handed in, the checkpoint covers "
            f"{signed.size} with root {signed.root.hex()}"
        )
    return None, f"all {size} records hash to the root"


def _opening(
    name: str, record: Flat, receipt: Receipt, content: bytes | None
) -> Callable[[], tuple[None, str]]:  # steps 8 and 9
    def check() -> tuple[None, str]:
        if content is None:
            raise _NotCheckable(f"no {name} was handed in")
        # Whoever hands in an answer asks whether it is the recorded one; only yes may pass.
        if name not in record:
            raise _Failed(f"this record commits to no {name}")
        if name not in receipt.nonces:
            raise _Failed(f"the receipt holds no nonce that opens the {name}")
        if commitment_digest(name, receipt.nonces[name], content).hex() != record[name]:
            raise _Failed(f"the {name} handed in is not the one that was recorded")
        return None, f"the {name} handed in is the one that was recorded"

    return check


def _elsewhere(
    signed: Checkpoint, elsewhere: OtherCheckpoint | None, policy: Policy
) -> tuple[None, str]:  # step 10
    if elsewhere is None:
        raise _NotCheckable(
            "no other checkpoint was handed in: a fork or a rollback would not show"
        )
    note, other = _note(elsewhere.checkpoint, policy)[0]
    _log_signature(note, policy)
    small, large = sorted((signed, other), key=lambda checkpoint: checkpoint.size)
    path = _hashes(elsewhere.consistency)
    if not is_consistent(small.size, large.size, path, small.root, large.root):
        raise _Failed(
            f"the checkpoints of {small.size} and {large.size} records do not share one history: "
            "the log was forked, rolled back or rewritten, or the proof is for other sizes"
        )
    return None, f"same history as the checkpoint of {other.size} records"


def _on_chain(anchored: AnchorEvidence | None) -> Checkpoint:
    if anchored is None:
        raise _NotCheckable("no chain was asked: a fork or a rollback would not show")
    if anchored.checkpoint is None:
        raise _Failed("the chain holds no checkpoint of this log that is deep enough yet")
    return anchored.checkpoint


def _begins_with_anchor(
    size: int, root_then: bytes, anchored: AnchorEvidence | None
) -> tuple[None, str]:  # step 11, of an export
    known = _on_chain(anchored)
    if size < known.size:
        raise _Failed(
            f"the chain holds a checkpoint of {known.size} records, {size} were handed in: the log "
            "was set back, or this export is older than the anchor; ask for a new one"
        )
    if root_then != known.root:
        raise _Failed(
            f"the first {known.size} records are not those that were anchored: the log was "
            "forked or rewritten"
        )
    return None, f"begins with the {known.size} records that were anchored"


def _joined_with_anchor(
    signed: Checkpoint, anchored: AnchorEvidence | None
) -> tuple[None, str]:  # step 11
    known = _on_chain(anchored)
    assert anchored is not None
    small, large = sorted((signed, known), key=lambda checkpoint: checkpoint.size)
    path = _hashes(anchored.consistency)
    if not is_consistent(small.size, large.size, path, small.root, large.root):
        raise _Failed(
            f"the receipt's {signed.size} records and the {known.size} that were anchored are not "
            "shown to share one history: the log was forked, rolled back or rewritten, or its "
            f"proof (`voile audit prove --from {small.size} --to {large.size}`) was not handed in"
        )
    return None, f"same history as the {known.size} records that were anchored"


def _hashes(content: bytes) -> tuple[bytes, ...]:
    lines = content.decode("ascii", errors="replace").split("\n")
    if lines.pop() or len(lines) > LONGEST_PATH:
        raise Malformed(f"expected at most {LONGEST_PATH} hashes, each with a newline")
    return tuple(hash_from_base64(line, "a hash of the proof") for line in lines)
