"""Nonces of a charge's commitments: found again from what is kept, and never used twice."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from voile.core.errors import VerificationFailed
from voile.records.audit_log import Receipt, decode_record
from voile.records.audit_log.commitments import digest as commitment
from voile.records.ledger import ReplayKey


class Committing(NamedTuple):
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
        return key.nonces(json.dumps([origin, terms.hex(), number, query.hex(), answer.hex()]))


def opened_by_nonces(receipt: Receipt, contents: Mapping[str, bytes]) -> Receipt:
    """The receipt, if its nonces open its record to these; nobody is handed one that fails."""
    record = decode_record(receipt.record)
    for name, content in contents.items():
        if commitment(name, receipt.nonces[name], content) != getattr(record, name, None):
            raise VerificationFailed(
                f"record {receipt.index} does not commit to this {name}: the answer was exchanged, "
                "or the replay key; no receipt is written, `voile budget verify` says more"
            )
    return receipt
