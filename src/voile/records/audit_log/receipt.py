"""A receipt: one C2SP tlog-proof that carries its record and the nonces that open it.

    c2sp.org/tlog-proof@v1
    extra <base64: the record's bytes, a newline, the nonces as canonical JSON, a newline>
    index <number of the record>
    <base64 hash, one line each, from the leaf's neighbour up to the root's child>
    <empty line>
    <the checkpoint with its signatures, verbatim>

Pure: standard library and one signature primitive. The verifier stands on it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from voile.records.audit_log.canonical import (
    COMMITTED,
    NONCE_SIZE,
    Flat,
    Malformed,
    decode_flat,
    encode,
)
from voile.records.audit_log.notes import (
    LARGEST_NOTE,
    decimal,
    from_base64,
    hash_from_base64,
    to_base64,
)

LARGEST_RECEIPT: Final = 2 * LARGEST_NOTE
LONGEST_PATH: Final = 63
_HEADER: Final = "c2sp.org/tlog-proof@v1"
_HEX = re.compile(r"[0-9a-f]+", re.ASCII)


@dataclass(frozen=True)
class Receipt:
    """What a third party needs, besides a policy, to check that a record is in the log.

    Args:
        record: canonical bytes of the record.
        index: its number in the log.
        path: the inclusion proof.
        checkpoint: a signed note, as bytes.
        nonces: by name of the committed field, `query` or `answer`; whoever holds them can check
            a guess of what was asked, so they belong to the person who asked.
    """

    record: bytes
    index: int
    path: tuple[bytes, ...]
    checkpoint: bytes
    nonces: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    def __bytes__(self) -> bytes:
        opened = encode({name: nonce.hex() for name, nonce in self.nonces.items()})
        extra = self.record + b"\n" + opened + b"\n"
        lines = [_HEADER, f"extra {to_base64(extra)}", f"index {self.index}"]
        lines += map(to_base64, self.path)
        return "".join(f"{line}\n" for line in lines).encode() + b"\n" + self.checkpoint

    @classmethod
    def parse(cls, content: bytes) -> Self:
        if len(content) > LARGEST_RECEIPT:
            raise Malformed(f"expected a receipt of at most {LARGEST_RECEIPT} bytes")
        head, gap, checkpoint = content.partition(b"\n\n")
        try:
            header, extra, index, *path = head.decode("ascii").split("\n")
        except ValueError:
            header = extra = index = ""
            path = []
        if not gap or header != _HEADER:
            raise Malformed(f"expected a receipt that begins with {_HEADER!r}")
        if len(path) > LONGEST_PATH:
            raise Malformed(f"expected at most {LONGEST_PATH} hashes, found {len(path)}")
        record, nonces = _parts(from_base64(_after("extra ", extra), "the record"))
        number = decimal(_after("index ", index), "an index")
        hashes = tuple(hash_from_base64(line, "a hash of the proof") for line in path)
        return cls(record, number, hashes, checkpoint, nonces)


def _after(word: str, line: str) -> str:
    if not line.startswith(word):
        raise Malformed(f"expected a line that begins with {word!r}, found {line[:40]!r}")
    return line.removeprefix(word)


def _parts(extra: bytes) -> tuple[bytes, dict[str, bytes]]:
    record, _, rest = extra.partition(b"\n")
    if not rest.endswith(b"\n"):
        raise Malformed("expected a record and its nonces, a line each")
    return record, parse_nonces(decode_flat(rest[:-1]))


def parse_nonces(written: Flat) -> dict[str, bytes]:
    """Nonces by name, as they are written in a receipt: in hexadecimal."""
    return {name: _nonce(name, value) for name, value in written.items()}


def _nonce(name: str, value: str | int) -> bytes:
    if name not in COMMITTED:
        raise Malformed(f"expected nonces of {COMMITTED}, found one of {name!r}")
    if not isinstance(value, str) or not _HEX.fullmatch(value) or len(value) != 2 * NONCE_SIZE:
        raise Malformed(f"expected {NONCE_SIZE} bytes in hexadecimal as the nonce of {name!r}")
    return bytes.fromhex(value)
