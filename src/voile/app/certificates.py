"""Certificates for trying out: an authority of one's own, and a SuperLink's certificate by it.

For tests only. The authority's key is forgotten as soon as it has signed: a real deployment gets
its certificate from whoever signs those of its organisation.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from voile.core.atomic_file import create_key_file, replace_file

_DAYS: Final = 30
LOCAL: Final = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class CertificateFiles:
    """Where they lie: the authority's certificate, the SuperLink's, and its key."""

    authority: Path
    certificate: Path
    key: Path


def make_certificates(folder: Path, names: Sequence[str] = LOCAL) -> CertificateFiles:
    """For a SuperLink that is reached under these names and addresses."""
    signing = ec.generate_private_key(ec.SECP256R1())
    issuer = _named("voile testbed, for tests only")
    authority = (
        _unsigned(issuer, issuer, signing.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(
            x509.SubjectKeyIdentifier.from_public_key(signing.public_key()), critical=False
        )
        .sign(signing, hashes.SHA256())
    )
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        _unsigned(_named(names[0]), issuer, key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.SubjectAlternativeName([_general(n) for n in names]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key()),
            critical=False,
        )
        .sign(signing, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    files = CertificateFiles(folder / "ca.crt", folder / "server.crt", folder / "server.key")
    replace_file(files.authority, authority.public_bytes(pem))
    replace_file(files.certificate, certificate.public_bytes(pem))
    form = serialization.PrivateFormat.PKCS8
    create_key_file(files.key, key.private_bytes(pem, form, serialization.NoEncryption()))
    return files


def _named(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _unsigned(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=_DAYS))
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True, key_cert_sign=signs, crl_sign=signs, content_commitment=False,
        key_encipherment=False, data_encipherment=False, key_agreement=False, encipher_only=False,
        decipher_only=False,
    )  # fmt: skip


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
