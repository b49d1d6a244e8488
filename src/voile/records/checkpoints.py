"""Checkpoints around a charge: what is checked before it, what is signed and kept after it.

Before: the policy can be read, the key is one of its keys, and the log extends the copy that was
kept of it. A signed log must have such a copy; if it is lost, somebody has to say that this is the
current database (`Keeper.accept`). After: the log is signed, the policy's witnesses are asked, and
the copy is replaced. What was paid for leaves in any case: a witness that is down, or a disk that
is full, is told in words and stops no answer.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from voile.core.errors import InvalidInput, VerificationFailed, VoileError
from voile.core.input_file import read_file
from voile.core.toml_text import LARGEST_TOML
from voile.records.audit_log import (
    AuditLog,
    CheckpointAcceptedRecord,
    PinnedCheckpoint,
    Policy,
    SigningKey,
    publish,
)
from voile.records.audit_log.canonical import Malformed
from voile.records.audit_log.kept import signed_checkpoint
from voile.records.audit_log.notes import Checkpoint
from voile.records.audit_log.publishing import (
    PublishedCheckpoints,
    check_signers,
    latest_checkpoint,
)
from voile.records.storage import Storage, Transaction


def kept_checkpoint(key: Path) -> Path:
    """Where the copy of the last checkpoint is kept: a file beside the signing key."""
    return key.with_suffix(".checkpoint")


def read_policy(path: Path) -> Policy:
    """The policy in this file; `InvalidInput` if it is none."""
    if not path.exists():
        raise InvalidInput(
            f"{path}: no signing policy found. Create one with `voile audit init`, or name it "
            "with --policy"
        )
    try:
        return Policy.parse(read_file(path, LARGEST_TOML).decode("utf-8", errors="replace"))
    except Malformed as error:
        raise InvalidInput(f"{path}: {error}") from error


@dataclass(frozen=True)
class Kept:
    """What became of signing and keeping, for people.

    Args:
        said: one line.
        published: the checkpoint, if one was signed here.
        error: what went wrong, if anything did.
    """

    said: str
    published: PublishedCheckpoints | None = None
    error: VoileError | None = None

    @property
    def missing(self) -> int:
        """How many cosignatures of the policy are missing."""
        return 0 if self.published is None else self.published.missing

    def __str__(self) -> str:
        if self.published is None or not self.missing:
            return self.said
        answers = "; ".join(map(str, self.published.answers)) or "it names no witness to ask"
        return (
            f"{self.said}; {self.missing} cosignature(s) required by the policy are missing "
            f"({answers}): collect them with `voile audit complete`"
        )


@dataclass(frozen=True)
class Keeper:
    """Who signs for a log, and where the copy of its last checkpoint is kept.

    Args:
        policy: keys and witnesses; public.
        copy: see `kept_checkpoint`.
        signer: None where the signing key is elsewhere. The log is compared with the copy all the
            same, and what was signed elsewhere is kept here.
    """

    policy: Policy
    copy: Path
    signer: SigningKey | None = field(default=None, repr=False)

    @classmethod
    def from_files(cls, key: Path, policy: Path) -> Keeper | None:
        """From the files of a log; None if nothing is known about it here."""
        copy = kept_checkpoint(key)
        if policy.exists():
            return cls(read_policy(policy), copy, SigningKey.load(key) if key.exists() else None)
        if copy.exists():
            raise InvalidInput(
                f"{relative_path(copy)}: found a pinned checkpoint, but no signing policy "
                f"({relative_path(policy)}). Name the policy with --policy"
            )
        return None

    def knows(self, log: AuditLog) -> AuditLog:
        """The log, compared with the copy whenever something is to be added to it."""
        if self.signer is not None:
            check_signers(self.policy, log, [self.signer])
        return log.known_by(PinnedCheckpoint(self.copy, self.policy))

    def publish(self, storage: Storage, log: AuditLog) -> PublishedCheckpoints:
        """Sign what the log holds, ask the witnesses, keep a copy."""
        if self.signer is None:
            raise InvalidInput("the signing key of this log is not here")
        return publish(storage, self.knows(log), self.policy, [self.signer])

    def keep(self, storage: Storage, log: AuditLog) -> Kept:
        """The same, after something was paid for: says what went wrong instead of raising it."""
        try:
            if self.signer is None:
                return self._keep_from_elsewhere(storage, log)
            published = self.publish(storage, log)
        except VoileError as error:
            return Kept(f"not published: {error}", error=error)
        return Kept(f"{relative_path(self.copy)} ({published.checkpoint.size} records)", published)

    def keep_up(self, storage: Storage, log: AuditLog) -> Kept:
        """The same, unless all of it was signed meanwhile: by another process, or on demand."""
        size, signed = storage.submit(lambda t: (log.head(t).size, log.signed_size(t)))
        if size > signed or self.signer is None:
            return self.keep(storage, log)
        try:
            self._advance(storage, log)
        except VoileError as error:
            return Kept(f"not kept: {error}", error=error)
        return Kept(f"{relative_path(self.copy)} ({size} records)")

    def accept(self, storage: Storage, reason: str) -> Checkpoint:
        """Pin the log as this database holds it, where its pinned checkpoint is lost.

        What was accepted, and why, is on the log from then on. A copy that is there is never
        replaced. Witnesses are asked before anything is kept: `ContradictedCheckpoint` if they know
        more.
        """
        if not reason.strip():
            raise InvalidInput("say why you accept it: the reason is written into the log")
        kept = PinnedCheckpoint(self.copy, self.policy)
        if kept.read() is not None:
            raise InvalidInput(
                f"{relative_path(self.copy)}: the pinned checkpoint is not lost, so there is "
                "nothing to accept. To use a database that does not extend it, move it away first"
            )
        note = latest_checkpoint(storage)
        if note is None:
            raise InvalidInput(
                "this log has no signed checkpoint yet, so there is nothing to accept"
            )
        signed = signed_checkpoint(note, self.policy)
        log = storage.submit(lambda t: _record_acceptance(t, signed, reason))
        if self.signer is not None:
            note = bytes(publish(storage, log, self.policy, [self.signer]).note)
        kept.advance(note)
        return signed_checkpoint(note, self.policy)

    def _keep_from_elsewhere(self, storage: Storage, log: AuditLog) -> Kept:
        known, size = self._advance(storage, log), storage.submit(log.head).size
        newer = size - (0 if known is None else known.size)
        return Kept(
            f"not signed: the signing key is not here. {newer} of {size} records are newer than "
            "the last checkpoint; sign them with `voile audit checkpoint`"
        )

    def _advance(self, storage: Storage, log: AuditLog) -> Checkpoint | None:
        """Keep what was published, whoever signed it; what is kept then.

        Checked first: a copy that somebody deleted is not made anew from the database.
        """
        storage.submit(self.knows(log).check)
        note, kept = latest_checkpoint(storage), PinnedCheckpoint(self.copy, self.policy)
        if note is not None:
            kept.advance(note)
        return kept.read()


def _record_acceptance(t: Transaction, signed: Checkpoint, reason: str) -> AuditLog:
    log = AuditLog.open(t)
    head = log.head(t)
    if not log.extends(t, signed):
        raise VerificationFailed(
            f"the log, of {head.size} records, does not extend its own signed checkpoint of "
            f"{signed.size}: the database was changed; nothing was accepted"
        )
    now = int(time.time())
    log.append(t, CheckpointAcceptedRecord(time=now, size=head.size, root=head.root, reason=reason))
    return log


def relative_path(path: Path) -> Path:
    """As people call it who are in this folder."""
    try:
        here = Path.cwd()
    except FileNotFoundError:  # the folder was deleted; what was paid for leaves all the same
        return path
    return path.relative_to(here) if path.is_relative_to(here) else path
