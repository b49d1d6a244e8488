"""Sums as they are stored and logged: bit for bit, in bytes and as text."""

from __future__ import annotations

import math
import struct
from functools import lru_cache

from voile.core.errors import InvalidInput
from voile.privacy.accounting.measures import Sums


def packed(values: Sums) -> bytes:
    """Sums as bytes, bit for bit."""
    return _layout(len(values)).pack(*values)


def unpacked(content: bytes, parts: int) -> tuple[Sums, ...]:
    """The inverse of `packed` for this many sums."""
    try:
        found = tuple(_layout(len(content) // (8 * parts)).iter_unpack(content))
    except struct.error:
        found = ()
    if len(found) != parts:  # somebody wrote into the database
        raise InvalidInput(f"expected {parts} sums, found {content!r:.80}")
    return found


@lru_cache(maxsize=256)
def _layout(count: int) -> struct.Struct:
    return struct.Struct(f"<{count}d")


def written(total: Sums) -> str:
    """Sums as text without losing a bit, for the audit log."""
    return " ".join(each.hex() for each in total)


def read(text: str) -> Sums:
    """The inverse of `written`."""
    try:
        found = tuple(float.fromhex(word) for word in text.split(" "))
    except (ValueError, OverflowError):
        raise InvalidInput(f"expected numbers in hexadecimal, found {text!r}") from None
    if not all(math.isfinite(each) and each >= 0 for each in found):
        raise InvalidInput(f"expected finite numbers of at least 0, found {text!r}")
    return found
