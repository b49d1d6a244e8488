"""Signed notes, verifier keys, checkpoints and cosignatures, as C2SP writes them.

- c2sp.org/signed-note: a text, an empty line, lines of signatures
- c2sp.org/tlog-checkpoint: a note whose text is origin, tree size and root hash
- c2sp.org/tlog-cosignature: a witness signs the text together with the time

Two signature types are known, both Ed25519: 0x01 (a log) and 0x04 (a witness). The type belongs to
the key, never to the signature. Encodings are checked by encoding again: one note, one spelling.

Pure: standard library and one signature primitive. The verifier stands on it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from voile.records.audit_log.canonical import Malformed
from voile.records.audit_log.merkle import HASH_SIZE

LARGEST_NOTE: Final = 64 * 1024
MOST_SIGNATURES: Final = 64
_DASH: Final = "— "
_DECIMAL = re.compile(r"0|[1-9][0-9]{0,17}", re.ASCII)
_KEY_ID = re.compile(r"[0-9a-f]{8}", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f]")
_SIGNATURE_SIZE: Final = 64
_TIME_SIZE: Final = 8


class BadSignature(ValueError):
    """A signature that claims to be from a known key, and is not."""


class KeyKind(IntEnum):
    """The signature types of c2sp.org/signed-note that voile uses."""

    LOG = 0x01
    WITNESS = 0x04


def to_base64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


def from_base64(text: str, what: str) -> bytes:
    """Standard base64 in its one canonical spelling."""
    try:
        content = base64.b64decode(text.encode("ascii"), validate=True)
    except (UnicodeEncodeError, binascii.Error):
        content = b""
    if not content or to_base64(content) != text:
        raise Malformed(f"expected {what} in base64, found {text[:80]!r}")
    return content


def hash_from_base64(text: str, what: str) -> bytes:
    content = from_base64(text, what)
    if len(content) != HASH_SIZE:
        raise Malformed(f"expected {what} of {HASH_SIZE} bytes, found {len(content)}")
    return content


def decimal(text: str, what: str) -> int:
    if not _DECIMAL.fullmatch(text):
        raise Malformed(f"expected {what} in decimal, found {text[:40]!r}")
    return int(text)


def check_name(name: str) -> str:
    """Key names and origins: no spaces, no plus, nothing invisible."""
    if not name or "+" in name or any(c.isspace() or not c.isprintable() for c in name):
        raise Malformed(f"expected a name without spaces and plus signs, found {name[:80]!r}")
    return name


@dataclass(frozen=True)
class VerifierKey:
    """A public key with a name and a purpose, written `name+id+base64` (a vkey)."""

    name: str
    kind: KeyKind
    public: bytes

    @property
    def key_id(self) -> bytes:
        material = self.name.encode() + b"\n" + bytes([self.kind]) + self.public
        return hashlib.sha256(material).digest()[:4]

    def __str__(self) -> str:
        return f"{self.name}+{self.key_id.hex()}+{to_base64(bytes([self.kind]) + self.public)}"

    @classmethod
    def parse(cls, text: str) -> Self:
        name, key_id, material = [*text.split("+", 2), "", ""][:3]
        content = from_base64(material, "a verifier key")
        if content[0] not in set(KeyKind) or len(content) != 1 + 32:
            raise Malformed(f"expected an Ed25519 key of type 1 or 4, found type {content[0]}")
        key = cls(check_name(name), KeyKind(content[0]), content[1:])
        if not _KEY_ID.fullmatch(key_id) or key.key_id.hex() != key_id:
            raise Malformed(f"expected the key id {key.key_id.hex()}, found {key_id[:16]!r}")
        return key

    def verify(self, text: str, signature: bytes) -> None:
        """`BadSignature` unless this key signed this text."""
        try:
            body, message = self._signed(text.encode(), signature)
            Ed25519PublicKey.from_public_bytes(self.public).verify(body, message)
        except (InvalidSignature, Malformed, ValueError):
            raise BadSignature(f"the signature of {self.name!r} does not verify") from None

    def _signed(self, text: bytes, signature: bytes) -> tuple[bytes, bytes]:
        """The Ed25519 signature proper, and the bytes it should be over."""
        if self.kind is KeyKind.LOG:
            return signature, text
        if len(signature) != _TIME_SIZE + _SIGNATURE_SIZE:
            raise Malformed("expected a time and an Ed25519 signature")
        return signature[_TIME_SIZE:], cosigned_text(cosigned_at(signature), text)


def cosigned_at(signature: bytes) -> int:
    """When a witness says it cosigned, in seconds since 1970."""
    return int.from_bytes(signature[:_TIME_SIZE], "big")


def cosigned_text(time: int, text: bytes) -> bytes:
    """What a witness signs (c2sp.org/tlog-cosignature, Ed25519 signed message)."""
    if not 0 <= time < 2**63:
        raise Malformed(f"expected a time below 2^63, found {time}")
    return b"cosignature/v1\ntime %d\n" % time + text


@dataclass(frozen=True)
class Signature:
    """One signature line. Name and key id only say which key to try."""

    name: str
    key_id: bytes
    value: bytes

    def __str__(self) -> str:
        return f"{_DASH}{self.name} {to_base64(self.key_id + self.value)}\n"

    @classmethod
    def parse(cls, line: str) -> Self:
        name, _, blob = line.removeprefix(_DASH).partition(" ")
        content = from_base64(blob, "a signature")
        if not line.startswith(_DASH) or len(content) < 5:
            raise Malformed(f"expected a signature line, found {line[:80]!r}")
        return cls(check_name(name), content[:4], content[4:])


@dataclass(frozen=True)
class Note:
    """A text and its signatures. Nothing is known about the text until `signers` is asked."""

    text: str
    signatures: tuple[Signature, ...]

    def __bytes__(self) -> bytes:
        return (self.text + "\n" + "".join(map(str, self.signatures))).encode()

    @classmethod
    def parse(cls, content: bytes) -> Self:
        if len(content) > LARGEST_NOTE:
            raise Malformed(f"expected a note of at most {LARGEST_NOTE} bytes")
        try:
            whole = content.decode("utf-8")
        except UnicodeDecodeError:
            raise Malformed("expected a note in UTF-8") from None
        text, gap, tail = whole.rpartition("\n\n")
        if not gap or not tail.endswith("\n") or _CONTROL.search(whole):
            raise Malformed("expected a text, an empty line and lines of signatures")
        return cls(text + "\n", parse_signatures(tail))

    def signers(self, keys: Iterable[VerifierKey]) -> dict[VerifierKey, Signature]:
        """Which of these keys signed; `BadSignature` if one of them is claimed falsely.

        Signatures of other keys are ignored, as the specification demands: that is what allows
        rotation and witnesses. A key counts once however often it signed.
        """
        found: dict[VerifierKey, Signature] = {}
        for key in keys:
            for signature in self.signatures:
                if (signature.name, signature.key_id) == (key.name, key.key_id):
                    key.verify(self.text, signature.value)
                    found[key] = signature
        return found


def parse_signatures(lines: str) -> tuple[Signature, ...]:
    """Signature lines, each ending in a newline: the tail of a note, or a witness's answer."""
    if not lines.endswith("\n"):
        raise Malformed("expected signature lines that end in a newline")
    parts = lines[:-1].split("\n")
    if len(parts) > MOST_SIGNATURES:
        raise Malformed(f"expected at most {MOST_SIGNATURES} signatures, found {len(parts)}")
    return tuple(Signature.parse(line) for line in parts)


@dataclass(frozen=True)
class Checkpoint:
    """What a log signs: this many records, with this root. Extensions are kept but mean nothing."""

    origin: str
    size: int
    root: bytes
    extensions: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        lines = (self.origin, str(self.size), to_base64(self.root), *self.extensions)
        return "".join(f"{line}\n" for line in lines)

    @classmethod
    def parse(cls, text: str) -> Self:
        lines = text.split("\n")
        if len(lines) < 4 or lines[-1] or not all(lines[:-1]):
            raise Malformed("expected a checkpoint: origin, tree size and root hash, a line each")
        origin, size, root, *extensions = lines[:-1]
        return cls(
            origin,
            decimal(size, "a tree size"),
            hash_from_base64(root, "a root hash"),
            tuple(extensions),
        )
