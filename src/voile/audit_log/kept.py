"""The largest checkpoint of a log, in a file outside its database.

A database that was set back to an older state is sound by itself; only what is kept elsewhere can
tell. So a log that knows its copy grows only from a state that extends it (`AuditLog.check`): the
policy is enough for that, the signing key may be on another machine.

The copy never goes back. Processes that publish at the same time take turns at a lock of its own,
and a smaller checkpoint does not replace a larger one; the file is the old one or the new one, and
a process that is killed leaves its lock to the next.
"""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from voile.audit_log.canonical import Malformed
from voile.audit_log.notes import LARGEST_NOTE, BadSignature, Checkpoint, Note
from voile.audit_log.policy import Policy
from voile.core.atomic_file import disk_fault, replace_file
from voile.core.errors import StorageBusy, UnreadableFile, VerificationFailed
from voile.core.input_file import open_regular

PATIENCE: Final = 10.0
"""Seconds to wait for another process that is keeping its own."""


@dataclass(frozen=True)
class KeptCheckpoint:
    """The copy, and the policy that says whose signature it must bear."""

    path: Path
    policy: Policy

    def read(self) -> Checkpoint | None:
        """What was kept; None if nothing was yet, `VerificationFailed` if it cannot be believed."""
        content = self._content()
        if content is None:
            return None
        try:
            return signed_checkpoint(content, self.policy)
        except VerificationFailed as error:
            raise VerificationFailed(f"{self.path}: {error}") from None

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
        with _locked(self.path):
            kept = self.read()
            if kept is None or kept.size <= new.size:
                replace_file(self.path, note)

    def _content(self) -> bytes | None:
        try:
            with open_regular(self.path) as stream:
                return stream.read(LARGEST_NOTE + 1)
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


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One process or thread at a time; the lock ends with whoever held it."""
    lock = path.with_name(f".{path.name}.lock")
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(lock, flags, 0o600)
    except OSError as error:
        raise disk_fault(lock, error) from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise UnreadableFile(f"{lock}: expected a plain file to lock; remove what is there")
        _lock(descriptor, lock)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, lock: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise StorageBusy(f"{lock}: another process holds it") from None
            time.sleep(0.01)
        except OSError as error:
            raise disk_fault(lock, error) from error
