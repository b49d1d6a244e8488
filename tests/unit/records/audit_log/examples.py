"""What the tests of the audit log share: records, keys, a small log with witnesses in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from voile.records.audit_log import (
    PART,
    AuditLog,
    Commitment,
    Policy,
    Receipt,
    ReleaseRecord,
    SigningKey,
)
from voile.records.audit_log.notes import Checkpoint, KeyKind, Note, to_base64
from voile.records.audit_log.records import Record
from voile.records.storage import Storage, open_storage

ORIGIN = "example.org/voile"
QUERY = b'{"rows":"a question"}'
ANSWER = b'{"values":"an answer"}'
COMMITTED_QUERY = Commitment.to("query", QUERY)
COMMITTED_ANSWER = Commitment.to("answer", ANSWER)
NONCES = {"query": COMMITTED_QUERY.nonce, "answer": COMMITTED_ANSWER.nonce}


def release(number: int = 0) -> ReleaseRecord:
    return ReleaseRecord(
        time=1_700_000_000 + number,
        account="clinic/2026",
        charge=f"charge {number}",
        subject="readmission model v3",
        epsilon=0.25,
        delta=1e-6,
        unit="row",
        relation="blank one",
        dataset="clinic v1",
        mechanism="analytic Gaussian",
        guarantees=hashlib.sha256(b"guarantees").digest(),
        query=COMMITTED_QUERY.digest,
        answer=COMMITTED_ANSWER.digest,
    )


def signing_key(label: str, kind: KeyKind = KeyKind.LOG, name: str = ORIGIN) -> SigningKey:
    """Always the same key for the same label: tests only."""
    return SigningKey(name, kind, hashlib.sha256(label.encode()).digest())


LOG_KEY = signing_key("log")
WITNESS_KEYS = tuple(
    signing_key(f"witness {n}", KeyKind.WITNESS, f"witness{n}.example") for n in range(3)
)


def policy(
    threshold: int = 3, log_keys: Sequence[SigningKey] = (LOG_KEY,), origin: str = ORIGIN
) -> Policy:
    return Policy(
        origin,
        tuple(key.verifier for key in log_keys),
        tuple(key.verifier for key in WITNESS_KEYS),
        threshold,
    )


def lines(hashes: Sequence[bytes]) -> bytes:
    """A consistency proof as the verifier reads it."""
    return "".join(f"{to_base64(item)}\n" for item in hashes).encode()


@dataclass(frozen=True)
class SmallLog:
    """A log in memory that signs and cosigns by itself."""

    storage: Storage
    log: AuditLog

    @classmethod
    def of(cls, records: Sequence[Record]) -> SmallLog:
        storage = open_storage("memory:", [PART])
        log = storage.submit(lambda t: AuditLog.create(t, ORIGIN))
        small = cls(storage, log)
        small.extend(records)
        return small

    def extend(self, records: Sequence[Record]) -> None:
        for record in records:
            self.storage.submit(lambda t, record=record: self.log.append(t, record))  # type: ignore[misc]

    def note(
        self,
        size: int,
        *,
        signers: Sequence[SigningKey] = (LOG_KEY,),
        cosigners: Sequence[SigningKey] = WITNESS_KEYS,
    ) -> Note:
        text = self.checkpoint(size).text
        signatures = [key.sign(text) for key in signers]
        signatures += [key.cosign(text, 1_700_000_100) for key in cosigners]
        return Note(text, tuple(signatures))

    def checkpoint(self, size: int) -> Checkpoint:
        return Checkpoint(ORIGIN, size, self.storage.submit(lambda t: self.log.root_at(t, size)))

    def receipt(self, index: int, size: int, note: Note | None = None) -> Receipt:
        path = self.storage.submit(lambda t: self.log.inclusion_proof(t, index, size))
        record = self.storage.submit(lambda t: self.log.record(t, index))
        return Receipt(record, index, path, bytes(note or self.note(size)), NONCES)

    def consistency(self, old_size: int, new_size: int) -> bytes:
        return lines(
            self.storage.submit(lambda t: self.log.consistency_proof(t, old_size, new_size))
        )
