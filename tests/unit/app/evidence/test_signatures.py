"""Models are signed in the form that OpenSSF's verifier reads; it took this very shape."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from tests.unit.app.evidence.bundles import verify_signature

from voile.app.evidence.signatures import ModelSigner, statement
from voile.core.errors import InvalidInput
from voile.records.audit_log import SigningKey
from voile.records.audit_log.canonical import Malformed
from voile.records.audit_log.notes import Checkpoint, KeyKind, Note

KEY = SigningKey("example.org/log", KeyKind.LOG, bytes(range(32)))
SIGNER = ModelSigner(KEY)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "model"
    (made / "part").mkdir(parents=True)
    (made / "b.json").write_bytes(b"{}")
    (made / "part" / "a.bin").write_bytes(b"\0\1")
    return made


def test_the_bundle_has_the_published_form(folder: Path) -> None:
    bundle = json.loads(SIGNER.sign(folder))
    envelope = bundle["dsseEnvelope"]
    payload = base64.b64decode(envelope["payload"])
    kind = envelope["payloadType"]
    assert kind == "application/vnd.in-toto+json"
    assert bundle["mediaType"] == "application/vnd.dev.sigstore.bundle.v0.3+json"
    hint = bundle["verificationMaterial"]["publicKey"]["hint"]
    assert hint == hashlib.sha256(SIGNER.public_key).hexdigest()
    key = load_pem_public_key(SIGNER.public_key)
    assert isinstance(key, ec.EllipticCurvePublicKey)
    assert key.curve.name == "secp256r1"
    signed = b" ".join(
        [b"DSSEv1", str(len(kind)).encode(), kind.encode(), str(len(payload)).encode(), payload]
    )
    (signature,) = envelope["signatures"]
    key.verify(base64.b64decode(signature["sig"]), signed, ec.ECDSA(hashes.SHA256()))


def test_the_statement_lists_every_file_and_one_digest_of_all(folder: Path) -> None:
    said = statement(folder)
    digests = [hashlib.sha256(content).digest() for content in (b"{}", b"\0\1")]
    resources = said["predicate"]["resources"]
    assert [(each["name"], each["digest"]) for each in resources] == [
        ("b.json", digests[0].hex()),
        ("part/a.bin", digests[1].hex()),
    ]
    whole = hashlib.sha256(b"".join(digests)).hexdigest()
    assert said["subject"] == [{"name": "model", "digest": {"sha256": whole}}]
    assert said["predicateType"] == "https://model_signing/signature/v1.0"


def test_a_changed_an_added_and_a_removed_file_are_noticed(folder: Path) -> None:
    bundle = SIGNER.sign(folder)
    assert verify_signature(folder, bundle, SIGNER.public_key) == ""
    (folder / "c").touch()
    assert verify_signature(folder, bundle, SIGNER.public_key) == "other files"
    (folder / "c").unlink()
    (folder / "b.json").write_bytes(b"[]")
    assert verify_signature(folder, bundle, SIGNER.public_key) == "other files"
    (folder / "b.json").unlink()
    assert verify_signature(folder, bundle, SIGNER.public_key) == "other files"


def test_another_key_does_not_verify(folder: Path) -> None:
    other = ModelSigner(SigningKey("example.org/log", KeyKind.LOG, bytes(32)))
    assert verify_signature(folder, SIGNER.sign(folder), other.public_key) == "another key"


def test_the_key_follows_from_that_of_the_log() -> None:
    """Stored bundles rest on it: it must never change."""
    digest = hashlib.sha256(SIGNER.public_key).hexdigest()
    assert digest == PUBLIC_KEY_DIGEST
    assert ModelSigner(KEY).public_key == SIGNER.public_key


def test_the_log_vouches_for_key_and_bundles_in_a_note_that_is_no_checkpoint() -> None:
    note = Note.parse(SIGNER.vouch({"model.sig": b"bundle"}))
    assert KEY.verifier in note.signers([KEY.verifier])
    named = dict(re.findall(r"(\S+) sha256:([0-9a-f]{64})", note.text))
    assert named["model.sig"] == hashlib.sha256(b"bundle").hexdigest()
    assert named["model-signing.pub"] == hashlib.sha256(SIGNER.public_key).hexdigest()
    with pytest.raises(Malformed):
        Checkpoint.parse(note.text)


def test_links_and_empty_folders_are_not_signed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (folder / "link").symlink_to(folder / "b.json")
    for each in (folder, tmp_path / "empty"):
        with pytest.raises(InvalidInput, match="files and no links"):
            SIGNER.sign(each)


PUBLIC_KEY_DIGEST = "41c3fc54b38c9d8ce54d8294847567473f1ad666647d560d3199058a64abed32"
