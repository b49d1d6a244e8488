"""Events as text, always the same text for the same event; and the parts of a plan."""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

from voile.core.errors import InvalidInput
from voile.privacy.accounting.measures import Sums
from voile.privacy.events import Composed, PrivacyEvent, Repeated, from_dict, to_dict

# --- Sums as they are stored and logged: bit for bit, in bytes and as text -----------------------


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


# --------------------------------------------------------------------------------------------------


LONGEST_IN_LOG: Final = 160
"""Characters of an event that the audit log shows in full."""


@lru_cache(maxsize=4096)
def event_text(event: PrivacyEvent) -> str:
    """The event as JSON: sorted keys, no spaces, numbers that keep every bit."""
    try:
        return json.dumps(to_dict(event), sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (KeyError, TypeError):
        raise InvalidInput(f"expected a privacy event, found {event!r:.100}") from None


def event_from(text: str) -> PrivacyEvent:
    """The inverse of `event_text`."""
    try:
        stored: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"not an event: {error}") from None
    return from_dict(stored)


def event_for_log(text: str) -> str:
    """The text itself, or its digest where it is too long for a record of the log."""
    if len(text) <= LONGEST_IN_LOG:
        return text
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def parts_of(events: Iterable[PrivacyEvent]) -> Counter[str]:
    """What a list of events consists of: repeated and composed ones are taken apart."""
    found: Counter[str] = Counter()
    for event in events:
        match event:
            case Repeated(inner, times):
                for text, count in parts_of([inner]).items():
                    found[text] += count * times
            case Composed(inner_events):
                found += parts_of(inner_events)
            case _:
                found[event_text(event)] += 1
    return found
