"""Secrets of 32 bytes in shares: any t of them give the secret back, fewer say nothing (Shamir).

Over the integers modulo the smallest prime above 2^256. A share is a point of a polynomial of
degree t − 1 whose value at 0 is the secret and whose other coefficients are uniformly random; every
share has 33 bytes. t − 1 points leave every secret equally likely: for each there is exactly one
polynomial through them.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from voile.core.errors import InvalidInput, Refused

PRIME: Final = 2**256 + 297
SECRET_SIZE: Final = 32
SHARE_SIZE: Final = 33


def split(secret: bytes, holders: Sequence[int], threshold: int) -> dict[int, bytes]:
    """A share for each holder.

    Args:
        secret: 32 bytes.
        holders: different numbers from 1.
        threshold: how many give the secret back.
    """
    if len(secret) != SECRET_SIZE or not 1 <= threshold <= len(holders):
        raise InvalidInput(
            f"expected a secret of {SECRET_SIZE} bytes and a threshold from 1 to {len(holders)}, "
            f"found {len(secret)} and {threshold}"
        )
    if len(set(holders)) < len(holders) or not all(0 < holder < PRIME for holder in holders):
        raise InvalidInput("holders have different numbers, from 1")
    rest = [secrets.randbelow(PRIME) for _ in range(threshold - 1)]
    coefficients = [*rest, int.from_bytes(secret, "big")]  # the highest power first
    shares = {}
    for holder in holders:
        value = 0
        for coefficient in coefficients:
            value = (value * holder + coefficient) % PRIME
        shares[holder] = value.to_bytes(SHARE_SIZE, "big")
    return shares


def joined(shares: Mapping[int, bytes], threshold: int) -> bytes:
    """The secret; `Refused` if there are too few shares, or none has such shares."""
    if len(shares) < threshold:
        raise Refused(f"{threshold} shares are needed, found {len(shares)}")
    holders = tuple(sorted(shares)[:threshold])
    weights = _weights(holders)
    terms = (int.from_bytes(shares[h], "big") * w for h, w in zip(holders, weights, strict=True))
    secret = sum(terms) % PRIME
    if secret >= 2 ** (8 * SECRET_SIZE):
        raise Refused("these shares belong to no secret")
    return secret.to_bytes(SECRET_SIZE, "big")


@lru_cache(maxsize=1024)
def _weights(holders: tuple[int, ...]) -> tuple[int, ...]:
    """Of Lagrange's interpolation at 0; the same for all secrets with the same holders."""
    weights = []
    for holder in holders:
        above, below = 1, 1
        for other in holders:
            if other != holder:
                above = above * other % PRIME
                below = below * (other - holder) % PRIME
        weights.append(above * pow(below, -1, PRIME) % PRIME)
    return tuple(weights)
