"""Nonces of a charge's commitments: found again from what is kept, and never used twice."""

from __future__ import annotations

import json
from typing import NamedTuple

from voile.ledger import ReplayKey


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
