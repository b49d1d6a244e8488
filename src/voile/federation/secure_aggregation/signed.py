"""Messages of the secure sum: who says what to whom, for which attempt, signed.

A signature covers agreement, stage, round, attempt, step, sender, recipient and body in one
canonical encoding, so a message is worth nothing in any other place. Identity keys are those that
all parties have agreed on; no key that somebody sends is believed without one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeAlias

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from voile.core.errors import InvalidInput, Refused

SERVER: Final = "server"
EVERYBODY: Final = ""
"""The recipient of what is shown to all parties; nobody is called so."""
Signer: TypeAlias = Callable[[str], bytes]
"""Signs a text with the Ed25519 key that stands in the agreement."""
Identities: TypeAlias = Mapping[str, bytes]
"""The public Ed25519 key of each party, and of the server under its name."""
_FORM: Final = "voile secure sum 1"
_LENGTH: Final = 8


class AttemptStep(StrEnum):
    """The steps of one attempt, in their order."""

    ADVERTISE = "advertise keys"
    SHARE = "share keys"
    MASK = "mask input"
    CONSENT = "consent to survivors"
    UNMASK = "unmask"


@dataclass(frozen=True)
class Attempt:
    """What a message belongs to.

    Args:
        agreement: digest of what all parties have agreed on.
        stage, round: which round.
        name: of this attempt and no other, chosen by the server at random.
    """

    agreement: str
    stage: str
    round: int
    name: str

    def __post_init__(self) -> None:
        texts = self.agreement, self.stage, self.name
        if not all(type(text) is str and len(text) <= 200 for text in texts):
            raise InvalidInput("an attempt names agreement, stage and itself, in short texts")
        if type(self.round) is not int or not 1 <= self.round < 2**31:
            raise InvalidInput(f"rounds are counted from 1, found {self.round!r:.60}")

    @property
    def encoded(self) -> bytes:
        """For whatever is bound to it."""
        texts = self.agreement, self.stage, str(self.round), self.name
        return encode([text.encode() for text in texts])


@dataclass(frozen=True, eq=False)
class SignedMessage:
    """One message of one attempt. There is no room in it for a seed, a path or a budget."""

    attempt: Attempt
    step: AttemptStep
    sender: str
    recipient: str
    body: bytes = field(repr=False)
    signature: bytes = field(repr=False)


def signed(
    attempt: Attempt, step: AttemptStep, sender: str, recipient: str, body: bytes, sign: Signer
) -> SignedMessage:
    """A message with its signature."""
    signature = sign(_text(attempt, step, sender, recipient, body))
    return SignedMessage(attempt, step, sender, recipient, body, signature)


def opened(
    message: object,
    attempt: Attempt,
    step: AttemptStep,
    *,
    sender: str,
    recipient: str,
    identities: Identities,
) -> bytes:
    """The body, if this is exactly the message that is expected here; else `Refused`."""
    if type(message) is not SignedMessage:
        raise Refused(f"expected a signed message, found {type(message).__name__}")
    found = message.attempt, message.step, message.sender, message.recipient
    if found != (attempt, step, sender, recipient) or type(message.body) is not bytes:
        raise Refused(
            f"expected the step {str(step)!r} of {attempt.stage!r}, round {attempt.round}, this "
            f"attempt, from {sender!r}; found something else"
        )
    verify(_text(attempt, step, sender, recipient, message.body), message.signature,
           identities.get(sender), sender)  # fmt: skip
    return message.body


def _text(attempt: Attempt, step: AttemptStep, sender: str, recipient: str, body: bytes) -> str:
    """What is signed: two lines, the first of which begins no other text of a voile key."""
    where = [attempt.encoded, *(text.encode() for text in (step, sender, recipient))]
    digest = hashlib.sha256(encode([*where, body])).hexdigest()
    return f"{_FORM}\n{digest}\n"


def verify(text: str, signature: object, key: bytes | None, signer: str) -> None:
    """`Refused` unless this key signed this text."""
    try:
        if key is None or type(signature) is not bytes:
            raise InvalidSignature
        Ed25519PublicKey.from_public_bytes(key).verify(signature, text.encode())
    except (InvalidSignature, ValueError):
        raise Refused(f"this is not signed by {signer!r} with the key of the agreement") from None


def encode(parts: Sequence[bytes]) -> bytes:
    """Each part with its length before it: two lists never have one encoding."""
    return b"".join(len(part).to_bytes(_LENGTH, "big") + part for part in parts)


def decode(content: bytes) -> list[bytes]:
    """The inverse of `encode`; `Refused` for anything else."""
    parts, place = [], 0
    while place < len(content):
        start = place + _LENGTH
        place = start + int.from_bytes(content[place:start], "big")
        if start > len(content) or place > len(content):
            raise Refused("malformed: a part is longer than the message")
        parts.append(content[start:place])
    return parts


def decode_pairs(content: bytes, names: Sequence[str], each: int = 1) -> dict[str, list[bytes]]:
    """Names of this list, in its order and none twice, with `each` parts after every name."""
    parts = decode(content)
    found: dict[str, list[bytes]] = {}
    known = {name.encode(): (place, name) for place, name in enumerate(names)}
    last = -1
    for start in range(0, len(parts), each + 1):
        place, name = known.get(parts[start], (-1, ""))
        values = parts[start + 1 : start + 1 + each]
        if place <= last or len(values) != each:
            raise Refused("malformed: expected known names in their order, each once")
        last, found[name] = place, values
    return found


def encode_names(names: Sequence[str]) -> bytes:
    return encode([name.encode() for name in names])


def decode_names(content: bytes, names: Sequence[str]) -> tuple[str, ...]:
    """Names of this list, in its order and none twice."""
    return tuple(decode_pairs(content, names, each=0))
