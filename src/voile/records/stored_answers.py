"""Stored answers as the log knows them: the right key opens what their records commit to."""

from __future__ import annotations

from collections.abc import Mapping
from json.encoder import encode_basestring_ascii as quoted
from typing import NamedTuple

from voile.core.errors import InvalidInput, VerificationFailed
from voile.core.explanation import Explanation
from voile.records.audit_log import (
    AuditLog,
    Receipt,
    ReleaseRecord,
    decode_record,
    explanation_bytes,
)
from voile.records.audit_log.canonical import commitment_digest
from voile.records.ledger import AnswerRow, Ledger, ReplayKey
from voile.records.storage import Reader

# --- Nonces of a charge's commitments: found again from what is kept, and never used twice -------


class CommitmentTerms(NamedTuple):
    """Which two commitments of a record nonces are for: no others have the same.

    The log, the account's terms and the charge's number tell charges apart, also those of two logs
    with one key. The digests tell apart what a database that was set back commits to in the place
    of what it has forgotten: a nonce is never used for two contents.

    Args:
        origin: of the log.
        terms: the random name of the terms of the account that pays.
        number: of the charge in its tree.
        query: keyed digest of the question.
        answer: digest of the canonical bytes of the answer.
    """

    origin: str
    terms: bytes
    number: int
    query: bytes
    answer: bytes

    def nonces(self, key: ReplayKey) -> dict[str, bytes]:
        origin, terms, number, query, answer = self
        # As JSON, with spaces: the text that nonces are derived from never changes.
        return key.nonces(
            f'[{quoted(origin)}, "{terms.hex()}", {number}, "{query.hex()}", "{answer.hex()}"]'
        )


def opened_by_nonces(receipt: Receipt, contents: Mapping[str, bytes]) -> Receipt:
    """The receipt, if its nonces open its record to these; nobody is handed one that fails."""
    record = decode_record(receipt.record)
    for name, content in contents.items():
        if commitment_digest(name, receipt.nonces[name], content) != getattr(record, name, None):
            raise VerificationFailed(
                f"record {receipt.index} does not commit to this {name}: the answer was exchanged, "
                "or the replay key; no receipt is written, `voile budget verify` says more"
            )
    return receipt


# --------------------------------------------------------------------------------------------------


class StoredAnswer(NamedTuple):
    """An answer that was paid for.

    Args:
        origin: of the log.
        terms: the random name of the terms of the account that paid.
        kept: the answer, and the charge it belongs to.
    """

    origin: str
    terms: bytes
    kept: AnswerRow

    def nonces(self, key: ReplayKey) -> dict[str, bytes]:
        """What opens both commitments of its record."""
        kept = self.kept
        committing = CommitmentTerms(
            self.origin, self.terms, kept.number, kept.query, kept.committed
        )
        return committing.nonces(key)

    @property
    def content(self) -> bytes:
        """What the log commits to: an explanation as any copy of it proves, else as it is kept."""
        if self.kept.digest == self.kept.committed:
            return self.kept.answer
        return explanation_bytes(Explanation.from_bytes(self.kept.answer))

    def opens(self, committed: bytes, key: ReplayKey) -> bool:
        """Whether this is the answer that a record commits to, and this the key it was made with.

        Both nonces are halves of one digest: the key that opens the answer opens the question.
        """
        return commitment_digest("answer", self.nonces(key)["answer"], self.content) == committed


class KeySample(NamedTuple):
    """One stored answer and the commitment of its record: by these a replay key is known."""

    answer: StoredAnswer
    committed: bytes

    @classmethod
    def from_records(cls, t: Reader, ledger: Ledger, log: AuditLog) -> KeySample | None:
        """None for a ledger without answers.

        The oldest, if it is found at once: where another key was taken once, its answers came
        later.
        """
        found = ledger.first_answer(t)
        if found is None:
            return None
        answer = StoredAnswer(log.origin, found.terms, found.kept)
        try:
            record = decode_record(log.record(t, found.record))
        except InvalidInput:  # somebody wrote into the database: no key opens that
            return cls(answer, b"")
        return cls(answer, record.answer if isinstance(record, ReleaseRecord) else b"")

    def fits(self, key: ReplayKey) -> bool:
        """Whether it was this key that the answer was kept under."""
        try:
            return self.answer.opens(self.committed, key)
        except InvalidInput:  # it cannot be read
            return False
