"""A model's files, signed in the form of OpenSSF Model Signing 1.0.

The form is a Sigstore bundle: a DSSE envelope around an in-toto statement that lists every file
with its SHA-256. Its verifiers know ECDSA keys only, the log signs with Ed25519. So a P-256 key is
derived from the log's key: one secret to guard, and the same public key for ever. A note signed by
the log's own key names that public key and the digest of each bundle: trust in one is trust in the
other.

    model_signing verify key FOLDER --signature NAME.sig --public_key model-signing.pub
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from voile.core.errors import InvalidInput
from voile.core.input_file import read_file
from voile.records.audit_log import SigningKey
from voile.records.audit_log.notes import Note

PUBLIC_KEY: Final = "model-signing.pub"
NOTE: Final = "model-signing.note"
_PAYLOAD: Final = "application/vnd.in-toto+json"
_BUNDLE: Final = "application/vnd.dev.sigstore.bundle.v0.3+json"
_STATEMENT: Final = "https://in-toto.io/Statement/v1"
_PREDICATE: Final = "https://model_signing/signature/v1.0"
_PURPOSE: Final = b"voile/model-signing/p256/1"
_ORDER: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""Of the curve P-256."""


@dataclass(frozen=True)
class ModelSigner:
    """Signs folders of models with a key that follows from the log's."""

    log_key: SigningKey

    @property
    def public_key(self) -> bytes:
        """In PEM."""
        public = self._private.public_key()
        return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def sign(self, folder: Path) -> bytes:
        """A bundle over every file of a folder as it is now."""
        payload = json.dumps(statement(folder)).encode()
        signature = self._private.sign(_to_be_signed(payload), ec.ECDSA(hashes.SHA256()))
        hint = hashlib.sha256(self.public_key).hexdigest()
        bundle = {
            "mediaType": _BUNDLE,
            "verificationMaterial": {"publicKey": {"hint": hint}, "tlogEntries": []},
            "dsseEnvelope": {
                "payload": _base64(payload),
                "payloadType": _PAYLOAD,
                "signatures": [{"sig": _base64(signature), "keyid": ""}],
            },
        }
        return (json.dumps(bundle, indent=2) + "\n").encode()

    def vouch(self, bundles: Mapping[str, bytes]) -> bytes:
        """A note by which the log's key names the public key and each bundle.

        Its first line is no log's name, so it can never be taken for a checkpoint.
        """
        lines = [f"models signed for {self.log_key.name}"]
        for name, content in {PUBLIC_KEY: self.public_key, **bundles}.items():
            lines.append(f"{name} sha256:{hashlib.sha256(content).hexdigest()}")
        text = "\n".join(lines) + "\n"
        return bytes(Note(text, (self.log_key.sign(text),)))

    @property
    def _private(self) -> ec.EllipticCurvePrivateKey:
        # 48 bytes: reduced to the order, the result is uniform up to 2^-128.
        derived = HKDF(hashes.SHA256(), 48, salt=None, info=_PURPOSE).derive(self.log_key.seed)
        return ec.derive_private_key(int.from_bytes(derived) % (_ORDER - 1) + 1, ec.SECP256R1())


def statement(folder: Path) -> dict[str, Any]:
    """The in-toto statement about the files of a folder."""
    paths = sorted(path for path in folder.rglob("*") if not path.is_dir())
    if not paths or any(path.is_symlink() for path in folder.rglob("*")):
        raise InvalidInput(f"{folder}: expected files and no links, to be signed")
    named = sorted((path.relative_to(folder).as_posix(), path) for path in paths)
    digests = [(name, hashlib.sha256(read_file(path)).digest()) for name, path in named]
    whole = hashlib.sha256(b"".join(digest for _, digest in digests)).hexdigest()
    resources = [
        {"name": name, "algorithm": "sha256", "digest": digest.hex()} for name, digest in digests
    ]
    serialization = {"method": "files", "hash_type": "sha256", "allow_symlinks": False}
    return {
        "_type": _STATEMENT,
        "subject": [{"name": folder.resolve().name, "digest": {"sha256": whole}}],
        "predicateType": _PREDICATE,
        "predicate": {"serialization": serialization, "resources": resources},
    }


def _to_be_signed(payload: bytes) -> bytes:
    """DSSE's pre-authentication encoding."""
    return b"DSSEv1 %d %s %d %s" % (len(_PAYLOAD), _PAYLOAD.encode(), len(payload), payload)


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
