"""A verifier of signed models that shares nothing with what signs them."""

from __future__ import annotations

import base64
import json
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from voile.app.evidence.signatures import statement


def verify_signature(folder: Path, bundle: bytes, public_key: bytes) -> str:
    """Why a bundle does not fit the files of a folder; empty if it does."""
    key, envelope = load_pem_public_key(public_key), json.loads(bundle)["dsseEnvelope"]
    assert isinstance(key, ec.EllipticCurvePublicKey)
    payload, kind = base64.b64decode(envelope["payload"]), envelope["payloadType"].encode()
    parts = (b"DSSEv1", str(len(kind)).encode(), kind, str(len(payload)).encode(), payload)
    signature = base64.b64decode(envelope["signatures"][0]["sig"])
    try:
        key.verify(signature, b" ".join(parts), ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        return "another key"
    return "" if json.loads(payload) == statement(folder) else "other files"
