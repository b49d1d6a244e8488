"""A witness: cosigns that a log only grows (c2sp.org/tlog-witness).

It keeps one row for each log, the latest checkpoint it cosigned. Comparing with that row and
replacing it happen in one storage command, durable before the cosignature exists: whatever happens,
this witness never cosigns two checkpoints of one log that do not share one history.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Self

from voile.core.errors import InvalidInput
from voile.records.audit_log.canonical import Malformed
from voile.records.audit_log.keys import SigningKey
from voile.records.audit_log.merkle import EMPTY_ROOT, is_consistent
from voile.records.audit_log.notes import (
    LARGEST_NOTE,
    BadSignature,
    Checkpoint,
    KeyKind,
    Note,
    VerifierKey,
    decimal,
    hash_from_base64,
    to_base64,
)
from voile.records.storage import Part, Storage, Table, Transaction

SIZE_TYPE: Final = "text/x.tlog.size"
MOST_HASHES: Final = 63
PATH: Final = "/add-checkpoint"
"""Where a witness answers, below its address."""
LARGEST_REQUEST: Final = LARGEST_NOTE + 64 * 64


@dataclass(frozen=True)
class CosignedCheckpoint:
    """The latest checkpoint cosigned for a log."""

    origin: str
    size: int
    root: bytes


COSIGNED: Final = Table("witness_cosigned", CosignedCheckpoint, key=("origin",))
PART: Final = Part("witness", (COSIGNED,))


@dataclass(frozen=True)
class Reply:
    """An HTTP answer."""

    status: int
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"


@dataclass(frozen=True)
class AddCheckpointRequest:
    """The body of `add-checkpoint`: `old SIZE`, a consistency proof, an empty line, a note."""

    old_size: int
    proof: tuple[bytes, ...]
    note: bytes

    def __bytes__(self) -> bytes:
        lines = [f"old {self.old_size}", *map(to_base64, self.proof)]
        return "".join(f"{line}\n" for line in lines).encode() + b"\n" + self.note

    @classmethod
    def parse(cls, body: bytes) -> Self:
        head, gap, note = body.partition(b"\n\n")
        old, *hashes = head.decode("ascii", errors="replace").split("\n")
        if not gap or not old.startswith("old ") or len(hashes) > MOST_HASHES:
            raise Malformed("expected `old SIZE`, at most 63 hashes, an empty line, a checkpoint")
        proof = tuple(hash_from_base64(line, "a hash of the proof") for line in hashes)
        return cls(decimal(old.removeprefix("old "), "an old size"), proof, note)


class Witness:
    """Cosigns checkpoints of the logs it knows.

    Args:
        storage: opened with this module's `PART`.
        key: a witness's signing key.
        logs: by origin, the keys that may sign for it.
        clock: seconds since 1970.
    """

    def __init__(
        self,
        storage: Storage,
        key: SigningKey,
        logs: Mapping[str, tuple[VerifierKey, ...]],
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if key.kind is not KeyKind.WITNESS:
            raise InvalidInput(f"{key.name!r} is a log's key; a witness needs one of its own")
        self.key = key
        self._storage = storage
        self._logs = dict(logs)
        self._clock = clock

    def add_checkpoint(self, body: bytes) -> Reply:
        """Answer one request, in the order of the specification."""
        try:
            request = AddCheckpointRequest.parse(body)
            note = Note.parse(request.note)
            checkpoint = Checkpoint.parse(note.text)
        except Malformed as error:
            return _text(400, str(error))
        if checkpoint.origin not in self._logs:
            return _text(404, "this witness does not know the log")
        if not _is_signed(note, self._logs[checkpoint.origin]):
            return _text(403, "no signature of a key known for this log")
        if request.old_size > checkpoint.size:
            return _text(400, "the old size is larger than the checkpoint's")
        refused = self._storage.submit(lambda t: _advance(t, request, checkpoint))
        if refused is not None:
            return refused
        # Durable by now: nothing inconsistent with this checkpoint will ever be cosigned here.
        return Reply(200, str(self.key.cosign(note.text, int(self._clock()))).encode())


def _is_signed(note: Note, keys: tuple[VerifierKey, ...]) -> bool:
    try:
        return bool(note.signers(keys))
    except BadSignature:
        return False


def _advance(
    transaction: Transaction, request: AddCheckpointRequest, new: Checkpoint
) -> Reply | None:
    """Check against the latest cosigned checkpoint and replace it; a reply if it must not be."""
    latest = transaction.get(COSIGNED, new.origin)
    size, root = (0, EMPTY_ROOT) if latest is None else (latest.size, latest.root)
    known = Reply(409, b"%d\n" % size, SIZE_TYPE)
    if request.old_size != size:
        return known
    if new.size == size and new.root != root:
        return known
    if not is_consistent(size, new.size, request.proof, root, new.root):
        return _text(422, "the consistency proof does not hold")
    write = transaction.insert if latest is None else transaction.replace
    write(COSIGNED, CosignedCheckpoint(new.origin, new.size, new.root))
    return None


def _text(status: int, message: str) -> Reply:
    return Reply(status, f"{message}\n".encode())
