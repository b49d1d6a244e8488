"""Signing keys, and the files they live in.

A key file is one line, `PRIVATE+KEY+name+id+base64(type, seed)`, as the Go note tools write it. It
is made readable for its owner only, and not read if anybody else could have read or changed it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final, Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from voile.core.atomic_file import create_key_file
from voile.core.errors import InvalidInput, UnreadableFile
from voile.core.input_file import read_private
from voile.records.audit_log.canonical import Malformed
from voile.records.audit_log.notes import (
    KeyKind,
    Signature,
    VerifierKey,
    check_name,
    cosigned_text,
    from_base64,
    to_base64,
)

_PREFIX: Final = "PRIVATE+KEY+"


@dataclass(frozen=True)
class SigningKey:
    """A private Ed25519 key with a name and a purpose. Printing it does not show it."""

    FILE_STARTS_WITH: ClassVar[bytes] = _PREFIX.encode()

    name: str
    kind: KeyKind
    seed: bytes = field(repr=False)

    @classmethod
    def generate(cls, name: str, kind: KeyKind = KeyKind.LOG) -> Self:
        try:
            return cls(check_name(name), kind, Ed25519PrivateKey.generate().private_bytes_raw())
        except Malformed as error:
            raise InvalidInput(f"key name: {error}") from None

    @property
    def verifier(self) -> VerifierKey:
        return VerifierKey(self.name, self.kind, self._private.public_key().public_bytes_raw())

    def sign(self, text: str) -> Signature:
        """Sign the text of a checkpoint, as its log."""
        if self.kind is not KeyKind.LOG:
            raise InvalidInput(f"{self.name!r} is a witness's key: it cosigns, with a time")
        return self._signature(self._private.sign(text.encode()))

    def cosign(self, text: str, time: int) -> Signature:
        """Cosign the text of a checkpoint at this time, as a witness."""
        if self.kind is not KeyKind.WITNESS:
            raise InvalidInput(f"{self.name!r} is a log's key: it does not cosign")
        signed = self._private.sign(cosigned_text(time, text.encode()))
        return self._signature(time.to_bytes(8, "big") + signed)

    def save(self, path: Path) -> None:
        """Write a new key file, mode 0600, whole or not at all; never over another file."""
        material = to_base64(bytes([self.kind]) + self.seed)
        line = f"{_PREFIX}{self.name}+{self.verifier.key_id.hex()}+{material}\n"
        create_key_file(path, line.encode())

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a key file; `Refused` if others than its owner can get at it."""
        private = read_private(path, "a signing key (if it is no longer secret, rotate it)")
        text = private.decode("utf-8", errors="replace")
        try:
            rest = text.removeprefix(_PREFIX).removesuffix("\n")
            name, key_id, material = [*rest.split("+", 2), "", ""][:3]
            content = from_base64(material, "a key")
            key = cls(check_name(name), KeyKind(content[0]), content[1:])
            sound = len(content) == 1 + 32 and key.verifier.key_id.hex() == key_id
        except ValueError:
            sound = False
        if not sound or not text.startswith(_PREFIX):
            raise UnreadableFile(f"{path}: not a signing key of a log or a witness, or damaged")
        return key

    @property
    def _private(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(self.seed)

    def _signature(self, value: bytes) -> Signature:
        return Signature(self.name, self.verifier.key_id, value)
