"""Sealed messages: who may say something to whom, and that it was said once.

Whatever carries a federation's messages between machines is believed nothing. A server signs every
message with the key that stands in the agreement, for one node and with a number that only grows; a
node signs its reply, for the very message that it answers, with the key that its log is signed
with. Whoever relays, stores, alters, addresses anew or repeats one has nothing that anybody takes.

Numbers begin with the server's clock, so a server that lost its folder is still ahead of them; and
the highest one is kept there, so a clock that was ahead and is set right locks nobody out. A node
keeps the highest one that it has taken before it reads the message.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from voile.core.atomic_file import replace_file
from voile.core.errors import Refused, UnreadableFile
from voile.core.input_file import read_file
from voile.secure_aggregation import Signer
from voile.secure_aggregation.signed import decode, encode, verify

_REQUEST: Final = "voile request 1"
_REPLY: Final = "voile reply 1"
_DIGITS: Final = 8


class ServerSeal(Protocol):
    """What a server puts its messages in, and takes replies out of."""

    def seal(self, recipient: str, content: bytes) -> bytes:
        """For one node, to be taken once."""

    def open(self, sender: str, request: bytes, reply: bytes) -> bytes:
        """What this node said to this very request; `Refused` if it did not."""


class ReplySeal(Protocol):
    """What a node takes messages out of, and puts its replies in."""

    def open(self, request: bytes) -> bytes:
        """What the server says; `Refused` if it did not, or not to this node, or before."""

    def seal(self, request: bytes, content: bytes) -> bytes:
        """A reply to this very request."""


@dataclass(eq=False)
class TakenNumbers:
    """The highest number that was taken so far; durable if there is a file for it."""

    path: Path | None = None
    _last: int = field(default=-1, init=False)

    def take(self, number: int) -> None:
        """`Refused` unless it is higher than all before it."""
        if number <= self.last:
            raise Refused(
                "this message is not newer than the last one that was taken here: it was sent "
                "before, or the server's clock was set back"
            )
        self._last = number
        if self.path is not None:
            replace_file(self.path, f"{number}\n".encode())

    @property
    def last(self) -> int:
        if self._last >= 0 or self.path is None or not self.path.exists():
            return self._last
        text = read_file(self.path).strip()
        if not text.isdigit() or len(text) > 20:
            raise UnreadableFile(f"{self.path}: expected the number of the last message")
        return int(text)


@dataclass(eq=False)
class SignedByServer:
    """The seal of a deployment.

    Args:
        agreement: digest of what all parties have agreed on.
        sign: with the server's key of the agreement.
        identities: the public Ed25519 key of each node.
        clock: in nanoseconds.
        sent: what it remembers of messages.
    """

    agreement: str
    sign: Signer = field(repr=False)
    identities: Mapping[str, bytes] = field(repr=False)
    clock: Callable[[], int] = time.time_ns
    sent: TakenNumbers = field(default_factory=TakenNumbers)

    def seal(self, recipient: str, content: bytes) -> bytes:
        number = max(self.clock(), self.sent.last + 1)
        self.sent.take(number)
        parts = [
            self.agreement.encode(),
            recipient.encode(),
            number.to_bytes(_DIGITS, "big"),
            content,
        ]
        return encode([_REQUEST.encode(), *parts, self.sign(_text(_REQUEST, parts))])

    def open(self, sender: str, request: bytes, reply: bytes) -> bytes:
        _, content, signature = _parts(reply, _REPLY, 3)
        signed = [hashlib.sha256(request).digest(), sender.encode(), content]
        verify(_text(_REPLY, signed), signature, self.identities.get(sender), sender)
        return content


@dataclass(eq=False)
class NodeSeal:
    """A node's side of it.

    Args:
        name: of the node.
        agreement: the one that it has agreed to.
        server: the server's public Ed25519 key of that agreement.
        sign: with the node's own key.
        taken: what it remembers of messages.
    """

    name: str
    agreement: str
    server: bytes = field(repr=False)
    sign: Signer = field(repr=False)
    taken: TakenNumbers = field(default_factory=TakenNumbers)

    def open(self, request: bytes) -> bytes:
        """What the server says, if it says it to this node, for the first time.

        1. It is signed with the server's key.
        2. It is of this agreement, and for this node.
        3. Its number is higher than all before it, which is kept.
        """
        parts = _parts(request, _REQUEST, 6)
        _, agreement, recipient, number, content, signature = parts
        verify(_text(_REQUEST, parts[1:5]), signature, self.server, "the server")
        if agreement != self.agreement.encode():
            raise Refused(f"{self.name!r} has agreed to {self.agreement!r}, and to nothing else")
        if recipient != self.name.encode():
            raise Refused(f"this message is for another node than {self.name!r}")
        self.taken.take(int.from_bytes(number, "big"))
        return content

    def seal(self, request: bytes, content: bytes) -> bytes:
        signed = [hashlib.sha256(request).digest(), self.name.encode(), content]
        return encode([_REPLY.encode(), content, self.sign(_text(_REPLY, signed))])


def _text(form: str, parts: list[bytes]) -> str:
    """What is signed: two lines, the first of which begins no other text of a voile key."""
    return f"{form}\n{hashlib.sha256(encode(parts)).hexdigest()}\n"


def _parts(content: bytes, form: str, count: int) -> list[bytes]:
    parts = decode(content)
    if len(parts) != count or parts[0] != form.encode():
        raise Refused(f"expected a message of the form {form!r}, signed; found something else")
    return parts
