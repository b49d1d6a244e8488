"""Who advertised which keys for an attempt, signed by each; everybody checks it for themselves."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple, Self

from voile.core.errors import Refused
from voile.federation.secure_aggregation.attempts import AttemptTerms
from voile.federation.secure_aggregation.masking import KEY_SIZE, Pair
from voile.federation.secure_aggregation.signed import (
    EVERYBODY,
    AttemptStep,
    SignedMessage,
    decode,
    decode_pairs,
    encode,
    opened,
)

_COMMITMENT: Final = 32


class Advert(NamedTuple):
    """What a party shows to everybody.

    Args:
        sealing: public key that shares for it are sealed with.
        masking: public key that its masks follow from.
        commitment: to the seed of its self mask.
    """

    sealing: bytes
    masking: bytes
    commitment: bytes

    @property
    def encoded(self) -> bytes:
        return encode(self)

    @classmethod
    def decoded(cls, body: bytes) -> Self:
        parts = decode(body)
        if [len(part) for part in parts] != [KEY_SIZE, KEY_SIZE, _COMMITMENT]:
            raise Refused("malformed: expected two keys and a commitment")
        return cls(*parts)


@dataclass(frozen=True, eq=False)
class Roster:
    """The adverts of everybody who is still there, checked."""

    terms: AttemptTerms
    messages: Mapping[str, SignedMessage]

    def __post_init__(self) -> None:
        keys = [key for advert in self.adverts.values() for key in advert]
        if len(set(keys)) < len(keys):
            raise Refused("one key was advertised twice")
        if len(self.messages) < self.terms.threshold:
            raise Refused(
                f"{len(self.messages)} parties advertised keys, and {self.terms.threshold} have "
                "to survive"
            )

    @cached_property
    def adverts(self) -> dict[str, Advert]:
        """In order of names."""
        return {
            name: Advert.decoded(advertised(message, self.terms, name))
            for name, message in self.messages.items()
        }

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.messages)

    @cached_property
    def digest(self) -> bytes:
        """Of all adverts: what shares and lists are bound to, and the seed of a sparse graph."""
        parts = [self.terms.attempt.encoded]
        for name, advert in self.adverts.items():
            parts += [name.encode(), advert.encoded]
        return hashlib.sha256(encode(parts)).digest()

    def neighbours(self, name: str) -> tuple[str, ...]:
        return self.terms.model.graph.neighbours(name, self.names, self.digest)

    def mask_pair(self, name: str, other: str) -> Pair:
        first, second = sorted([name, other])
        return Pair(first, second, self.terms.attempt.encoded)

    def sealed_pair(self, sender: str, recipient: str) -> Pair:
        return Pair(sender, recipient, self.terms.attempt.encoded + self.digest)

    @property
    def encoded(self) -> bytes:
        """As the server sends it around."""
        parts = []
        for name, message in self.messages.items():
            parts += [name.encode(), message.body, message.signature]
        return encode(parts)

    @classmethod
    def decoded(cls, terms: AttemptTerms, body: bytes) -> Self:
        """Every signature is checked with the key of the agreement."""
        messages = {
            name: SignedMessage(terms.attempt, AttemptStep.ADVERTISE, name, EVERYBODY, *parts)
            for name, parts in decode_pairs(body, terms.asked, each=2).items()
        }
        return cls(terms, messages)


def advertised(message: object, terms: AttemptTerms, name: str) -> bytes:
    """The body of somebody's advert, if it is one."""
    return opened(
        message, terms.attempt, AttemptStep.ADVERTISE, sender=name, recipient=EVERYBODY,
        identities=terms.identities,
    )  # fmt: skip
