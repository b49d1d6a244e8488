"""Masks: streams of ChaCha20 that are added to vectors of unsigned integers and cancel in the sum.

Two parties derive the seed of their common mask from an X25519 exchange by HKDF-SHA256; one adds
the mask, the other subtracts it. Keys belong to one attempt: what they are used for is bound to it.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from voile.core.errors import Refused
from voile.federation.secure_aggregation.signed import encode

Words: TypeAlias = NDArray[Any]
"""uint32 or uint64; additions wrap around, which is the arithmetic modulo 2^32 or 2^64."""
KEY_SIZE: Final = 32
_CHUNK: Final = 1 << 16
"""Bytes of a mask at a time: it is made and added while it is in the cache."""
_ZEROS: Final = bytes(_CHUNK)
_ONE_USE: Final = bytes(12)
"""A key seals one message only, so its nonce may be anything."""


class KeyPair(NamedTuple):
    """An X25519 key of one attempt, as bytes."""

    secret: bytes
    public: bytes

    @classmethod
    def generate(cls) -> KeyPair:
        key = X25519PrivateKey.generate()
        return cls(key.private_bytes_raw(), key.public_key().public_bytes_raw())

    @classmethod
    def from_secret(cls, secret: bytes) -> KeyPair:
        key = X25519PrivateKey.from_private_bytes(secret)
        return cls(secret, key.public_key().public_bytes_raw())


class Pair(NamedTuple):
    """Two parties of an attempt, the first by name first.

    Args:
        bound: whatever the keys between them are bound to.
    """

    first: str
    second: str
    bound: bytes


def pair_seed(mine: KeyPair, theirs: bytes, pair: Pair) -> bytes:
    """The seed of the mask between two parties: the same from either side."""
    keys = sorted([mine.public, theirs])
    return _derived(mine.secret, theirs, [b"mask", pair.bound, *_names(pair), *keys])


def seal(share: bytes, mine: KeyPair, theirs: bytes, pair: Pair) -> bytes:
    """Encrypt for one party and one place; `pair` is sender and recipient here."""
    return ChaCha20Poly1305(_sealing_key(mine, theirs, pair)).encrypt(_ONE_USE, share, None)


def unseal(sealed: bytes, mine: KeyPair, theirs: bytes, pair: Pair) -> bytes | None:
    """What was sealed; None if it was not sealed by them, for me, for this place."""
    try:
        return ChaCha20Poly1305(_sealing_key(mine, theirs, pair)).decrypt(_ONE_USE, sealed, None)
    except (InvalidTag, Refused):
        return None


def commitment(seed: bytes) -> bytes:
    """To a seed of 256 random bits, which it hides."""
    return hashlib.sha256(b"voile self mask\n" + seed).digest()


def add_mask(vector: Words, seed: bytes) -> None:
    """Add the stream of this seed, in place."""
    for part, words in _stream(vector, seed):
        np.add(part, words, out=part)


def subtract_mask(vector: Words, seed: bytes) -> None:
    """Subtract the stream of this seed, in place."""
    for part, words in _stream(vector, seed):
        np.subtract(part, words, out=part)


def _stream(vector: Words, seed: bytes) -> Any:
    stream = Cipher(ChaCha20(seed, bytes(16)), mode=None).encryptor()
    buffer = bytearray(_CHUNK)
    words = np.frombuffer(buffer, dtype=vector.dtype.newbyteorder("<"))
    step = len(words)
    for start in range(0, len(vector), step):
        part = vector[start : start + step]
        stream.update_into(_ZEROS, buffer)
        yield part, words[: len(part)]


def _sealing_key(mine: KeyPair, theirs: bytes, pair: Pair) -> bytes:
    return _derived(mine.secret, theirs, [b"share", pair.bound, *_names(pair)])


def _names(pair: Pair) -> list[bytes]:
    return [pair.first.encode(), pair.second.encode()]


def _derived(secret: bytes, theirs: bytes, purpose: list[bytes]) -> bytes:
    private = X25519PrivateKey.from_private_bytes(secret)
    try:
        shared = private.exchange(X25519PublicKey.from_public_bytes(theirs))
    except ValueError:  # a point of small order: the secret would be zero whatever mine is
        raise Refused("a key was advertised that no honest party makes") from None
    info = b"voile secure sum 1\n" + encode(purpose)
    return HKDF(hashes.SHA256(), KEY_SIZE, salt=None, info=info).derive(shared)
