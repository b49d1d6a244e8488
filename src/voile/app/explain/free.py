"""Explanations that cost nothing: one record for each call, and a proof for each row on demand.

The record holds the guarantee that is carried forward, or says that there is none, commitments to
question and answer, and the root of a tree over a commitment for each row. Nothing grows with the
rows but the time to hash them; the ledger is not touched.

All nonces are derived from the call's random name and the key outside the database. So proofs can
be issued at any later time by whoever has that key and the explanation (`tree_of_call`).
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from voile.core.errors import VerificationFailed
from voile.core.explanation import Explanation
from voile.core.guarantee import Guarantee
from voile.records.audit_log import (
    PostProcessingRecord,
    RowTree,
    explanation_bytes,
    explanation_rows,
    guarantees_digest,
)
from voile.records.audit_log.commitments import digest as commitment
from voile.records.ledger import Question, ReplayKey
from voile.records.vault import Vault

CARRIED: Final = "carried forward from training"
NO_PROMISE: Final = "none: made from public artefacts only"


@dataclass(frozen=True)
class FreeCall:
    """A call that is to be written into the log, its proofs, and what opens its commitments."""

    record: PostProcessingRecord
    tree: RowTree
    nonces: dict[str, bytes] = field(repr=False)


def free_call(vault: Vault, question: Question, subject: str, explanation: Explanation) -> FreeCall:
    """What the log will say about one call; the answer leaves after the commit."""
    call = secrets.token_hex(16)
    tree = RowTree.of(explanation_rows(explanation), _seed(vault.key, call))
    nonces = nonces_of_call(vault.key, call)
    promises = explanation.guarantees
    first = promises[0] if promises else None
    record = PostProcessingRecord(
        time=int(vault.ledger.now()),
        call=call,
        subject=subject,
        rows=len(explanation),
        promise=CARRIED if promises else NO_PROMISE,
        guarantees=_promises_digest(promises),
        query=commitment("query", nonces["query"], question.canonical_bytes),
        answer=commitment("answer", nonces["answer"], explanation_bytes(explanation)),
        rows_root=tree.root,
        epsilon=first.epsilon if first else None,
        delta=first.delta if first else None,
        **(first.protected.texts if first else {}),
    )
    return FreeCall(record, tree, nonces)


@lru_cache(maxsize=256)
def _promises_digest(guarantees: tuple[Guarantee, ...]) -> bytes:
    """A service promises the same few things again and again."""
    return guarantees_digest(guarantees)


def tree_of_call(key: ReplayKey, record: PostProcessingRecord, explanation: Explanation) -> RowTree:
    """The tree of an earlier call, from its record and the explanation as it was saved."""
    tree = RowTree.of(explanation_rows(explanation), _seed(key, record.call))
    if tree.root != record.rows_root:
        raise VerificationFailed(
            "the explanation is not the one that this record commits to, or the key is another one"
        )
    return tree


def nonces_of_call(key: ReplayKey, call: str) -> dict[str, bytes]:
    """What opens the commitments of a call's record."""
    return key.nonces(f"call {call}")


def _seed(key: ReplayKey, call: str) -> bytes:
    return key.nonce(f"call {call}", "rows")
