"""The key that a SuperLink knows a node by: Flower's node authentication.

It opens the connection and nothing else; what a node says is signed with the key of its log.
"""

from __future__ import annotations

from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from flwr.supercore.primitives.asymmetric import public_key_to_bytes

from voile.core.atomic_file import create_key_file
from voile.core.errors import InvalidInput
from voile.core.input_file import read_private


def node_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """The key in this file, which is made if there is none: P-384, in OpenSSH's form."""
    if not path.exists():
        made = ec.generate_private_key(ec.SECP384R1())
        content = made.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.OpenSSH,
            serialization.NoEncryption(),
        )
        create_key_file(path, content)
    try:
        key = serialization.load_ssh_private_key(read_private(path), None)
    except ValueError as error:
        raise InvalidInput(f"{path}: expected a private key in OpenSSH's form") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise InvalidInput(f"{path}: Flower knows nodes by a key on a NIST curve, such as P-384")
    return key


def public_bytes(key: ec.EllipticCurvePrivateKey) -> bytes:
    """As a SuperLink registers it."""
    return public_key_to_bytes(key.public_key())


def public_line(key: ec.EllipticCurvePrivateKey) -> str:
    """For the file that `flwr supernode register` reads."""
    form = serialization.PublicFormat.OpenSSH
    return key.public_key().public_bytes(serialization.Encoding.OpenSSH, form).decode() + "\n"
