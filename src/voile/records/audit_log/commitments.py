"""Commitments that hide: a record says *that* something was asked and answered, not *what*.

SHA-256 over a tag, a 32-byte random nonce and the canonical bytes. A plain hash would not do: rows
of a small table can be hashed one after the other until one fits (twenty million take seconds).
Without the nonce that search is hopeless; with it, in a receipt, a claimed question or answer is
checked at once. Tag and nonce have fixed lengths, so no two inputs meet in one preimage.

Pure: standard library only. The verifier stands on it.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, field
from typing import Final, Self

from voile.records.audit_log.canonical import Malformed

NONCE_SIZE: Final = 32
_TAGS: Final = {"query": b"voile audit log v1 query \n", "answer": b"voile audit log v1 answer\n"}
COMMITTED: Final = tuple(_TAGS)
"""The fields of a record that hold commitments."""


def digest(name: str, nonce: bytes, content: bytes) -> bytes:
    """The commitment to `content` in the field `name`."""
    if name not in _TAGS or len(nonce) != NONCE_SIZE:
        raise Malformed(f"expected one of {COMMITTED} and a nonce of {NONCE_SIZE} bytes")
    return hashlib.sha256(_TAGS[name] + nonce + content).digest()


@dataclass(frozen=True)
class Commitment:
    """A commitment together with its nonce. The digest is public, the nonce goes to the asker."""

    name: str
    digest: bytes
    nonce: bytes = field(repr=False)

    @classmethod
    def to(cls, name: str, content: bytes) -> Self:
        """Commit to the canonical bytes of a query or an answer, with a fresh nonce."""
        nonce = secrets.token_bytes(NONCE_SIZE)
        return cls(name, digest(name, nonce, content), nonce)
