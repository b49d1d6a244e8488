"""The largest checkpoint of a log, in a file outside its database.

A database that was set back to an older state is sound by itself; only what is kept elsewhere can
tell. So a log that knows its copy grows only from a state that extends it (`AuditLog.check`): the
policy is enough for that, the signing key may be on another machine.

The copy never goes back. Processes that publish at the same time take turns at a lock of its own,
and a smaller checkpoint does not replace a larger one; the file is the old one or the new one, and
a process that is killed leaves its lock to the next.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Final

from voile.core.atomic_file import locked, replace_file
from voile.core.errors import UnreadableFile, VerificationFailed
from voile.core.input_file import read_start
from voile.records.audit_log.canonical import Malformed
from voile.records.audit_log.notes import LARGEST_NOTE, BadSignature, Checkpoint, Note
from voile.records.audit_log.policy import Policy

PATIENCE: Final = 10.0
"""Seconds to wait for another process that is keeping its own."""


@dataclass(frozen=True)
class PinnedCheckpoint:
    """The copy, and the policy that says whose signature it must bear."""

    path: Path
    policy: Policy
    _known: dict[bytes, Checkpoint] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )
    """What the last content said that could be believed: signatures are checked once."""

    def read(self) -> Checkpoint | None:
        """What was kept; None if nothing was yet, `VerificationFailed` if it cannot be believed."""
        content = self._content()
        if content is None:
            return None
        found = self._known.get(content)
        if found is None:
            try:
                found = signed_checkpoint(content, self.policy)
            except VerificationFailed as error:
                raise VerificationFailed(f"{self.path}: {error}") from None
            self._known.clear()
            self._known[content] = found
        return found

    def is_of_another_log(self) -> bool:
        """Whether what was kept says so itself; what is damaged is not excused by that."""
        content = self._content()
        try:
            origin = content and Checkpoint.parse(Note.parse(content).text).origin
        except Malformed:
            return False
        return bool(origin) and origin != self.policy.origin

    def advance(self, note: bytes) -> None:
        """Keep this checkpoint, unless a larger one is kept already."""
        new = signed_checkpoint(note, self.policy)
        with locked(lock_of(self.path), patience=PATIENCE, busy="another process holds it"):
            kept = self.read()
            if kept is None or kept.size <= new.size:
                replace_file(self.path, note)

    def _content(self) -> bytes | None:
        try:
            return read_start(self.path, LARGEST_NOTE + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise UnreadableFile(f"{self.path}: cannot be read: {error.strerror}") from error


@lru_cache(maxsize=64)
def signed_checkpoint(content: bytes, policy: Policy) -> Checkpoint:
    """The checkpoint in a note that the log of this policy signed; else `VerificationFailed`."""
    try:
        note = Note.parse(content)
        checkpoint = Checkpoint.parse(note.text)
        signers = note.signers(policy.log_keys)
    except (Malformed, BadSignature) as error:
        raise VerificationFailed(f"the checkpoint is damaged: {error}") from None
    if checkpoint.origin != policy.origin:
        raise VerificationFailed(
            f"a checkpoint of {checkpoint.origin}, expected one of {policy.origin}; was the key or "
            "the policy of another log named?"
        )
    if not signers:
        raise VerificationFailed("the checkpoint is not signed with a key of this log")
    return checkpoint


def lock_of(copy: Path) -> Path:
    """The file that is locked while a kept checkpoint is replaced."""
    return copy.with_name(f".{copy.name}.lock")
