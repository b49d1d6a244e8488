"""A node behind a wire: sealed bytes come in, sealed bytes go out, and its log says what happened.

Whatever comes in, something signed goes out: an answer, or that there is none. Why is told in words
only if it was refused; what went wrong otherwise stays in the node's own log.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Final, Protocol

from voile.core.atomic_file import replace_file
from voile.core.errors import InvalidInput, Refused, UnreadableFile, VoileError
from voile.core.input_file import read_file
from voile.federation.messages import LONGEST_STATEMENT, Instruction, SecureInstruction, Update
from voile.federation.secure_aggregation import SignedMessage, Signer
from voile.federation.secure_aggregation.attempts import BegunBefore
from voile.federation.secure_aggregation.signed import decode, encode, verify
from voile.federation.transport import MessageHandler
from voile.federation.wire import DeclinedMessage, Wired, from_bytes, to_bytes

# --- Sealed messages: who may say something to whom, and that it was said once -------------------
# Whatever carries a federation's messages between machines is believed nothing. A server signs
# every message with the key that stands in the agreement, for one node and with a number that only
# grows; a node signs its reply, for the very message that it answers, with the key that its log is
# signed with. Whoever relays, stores, alters, addresses anew or repeats one has nothing that
# anybody takes.
#
# Numbers begin with the server's clock, so a server that lost its folder is still ahead of them;
# and the highest one is kept there, so a clock that was ahead and is set right locks nobody out. A
# node keeps the highest one that it has taken before it reads the message.


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


# --------------------------------------------------------------------------------------------------


TIME: Final = "%Y-%m-%dT%H:%M:%SZ"
LAST_CONTACT: Final = "last-contact"
_ROUND: Final = re.compile("stage .*, round ([0-9]+)")
_AGAIN: Final = " (stored before, sent again)"


class Event(StrEnum):
    """What a line of a node's log is about."""

    STARTED = "started"
    ANSWERED = "answered"
    REFUSED = "refused"
    FAILED = "failed"
    OFFLINE = "offline"
    STOPPED = "stopped"


@dataclass(frozen=True)
class NodeLine:
    """One line of a node's log."""

    time: str
    event: Event
    text: str

    def __str__(self) -> str:
        return f"{self.time} {self.event:<8} {self.text}"

    @property
    def round(self) -> int | None:
        """The round that it is about, if it is about one."""
        found = _ROUND.match(self.text)
        return None if found is None else int(found[1])

    @classmethod
    def read(cls, line: str) -> NodeLine | None:
        """None if it is no line of such a log, or is cut off."""
        time, _, rest = line.rstrip("\n").partition(" ")
        event, _, text = rest.partition(" ")
        return cls(time, Event(event), text.strip()) if event in set(Event) else None


@dataclass(eq=False)
class NodeLog:
    """What a node was asked, and what it did: for its operator, and nobody else.

    Args:
        path: where lines are added; None: nowhere.
        show: told each line.
    """

    path: Path | None = None
    show: Callable[[str], None] = lambda _: None
    _turn: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def write(self, event: Event, text: str) -> None:
        now = datetime.now(UTC).strftime(TIME)
        line = str(NodeLine(now, event, one_line(text)))
        with self._turn:
            self._tell(line)
            try:
                self._add(line)
            except OSError as error:  # such as a full disk: what was charged is sent nevertheless
                self._tell(f"{self.path}: cannot be written ({error.strerror}); this line is lost")

    def touch(self) -> None:
        """The other side has answered just now: the time of an empty file beside the log."""
        if self.path is not None:
            with suppress(OSError):
                self.path.with_name(LAST_CONTACT).touch(0o600)

    def _tell(self, line: str) -> None:
        with suppress(OSError, ValueError):  # whoever was shown lines may be gone
            self.show(line)

    def _add(self, line: str) -> None:
        """On a line of its own, whatever was cut off before it; for its owner's eyes only."""
        if self.path is None:
            return
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        with os.fdopen(os.open(self.path, flags, 0o600), "r+b", buffering=0) as stream:
            size = stream.seek(0, os.SEEK_END)
            cut_off = size > 0 and os.pread(stream.fileno(), 1, size - 1) != b"\n"
            stream.write(b"\n" * cut_off + f"{line}\n".encode())

    def lines(self) -> list[NodeLine]:
        if self.path is None or not self.path.exists():
            return []
        text = self.path.read_text(encoding="utf-8", errors="replace")
        return [found for line in text.splitlines() if (found := NodeLine.read(line)) is not None]


def one_line(text: str, longest: int = 500) -> str:
    """What others wrote is shown as one line: nobody forges a second one."""
    shown = "".join(c if c.isprintable() else " " for c in text)
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"


@dataclass(eq=False)
class Responder:
    """Answers sealed messages with a node, one at a time.

    A step of a secure sum is taken once. Its last message, sent again because the reply was lost,
    gets the same bytes once more. It names the same attempt, step, arrays and survivors, signed by
    the server, so nothing is revealed that was not sent before; another list of survivors is
    another message, and the node refuses it. What is remembered is gone with the process.

    Args:
        node: who is asked.
        seal: opens what the server signed, and signs what leaves.
        log: gets one line for every message.
    """

    node: MessageHandler
    seal: ReplySeal = field(repr=False)
    log: NodeLog = field(default_factory=NodeLog)
    _last: tuple[bytes, bytes] | None = field(default=None, init=False, repr=False)
    """Digest of the last message of a secure sum that was answered, and the reply."""

    def answer(self, request: bytes) -> bytes:
        reply, event, text = self._reply(request)
        self.log.write(event, text)
        return self.seal.seal(request, reply)

    def _reply(self, request: bytes) -> tuple[bytes, Event, str]:
        what = "a message"
        try:
            content = self.seal.open(request)
            message, digest = from_bytes(content), hashlib.sha256(content).digest()
            what = _described(message)
            if self._last is not None and self._last[0] == digest:
                return self._last[1], Event.ANSWERED, f"{what}{_AGAIN}"
            answer = self.node.handle(message)  # type: ignore[arg-type]  # the node looks itself
            reply = to_bytes(answer)
            if isinstance(message, SecureInstruction | SignedMessage):
                self._last = digest, reply
            return reply, Event.ANSWERED, f"{what}{_resent(answer)}"
        except Refused as refusal:
            return to_bytes(_declined(refusal)), Event.REFUSED, f"{what}: {refusal}"
        except (Exception, SystemExit) as fault:
            # What cannot be read, or does not fit what was agreed on, was refused as well.
            event = Event.REFUSED if isinstance(fault, InvalidInput) else Event.FAILED
            kind = "" if isinstance(fault, VoileError) else f"{type(fault).__name__}: "
            return to_bytes(DeclinedMessage()), event, f"{what}: {kind}{fault}"


def _declined(refusal: Refused) -> DeclinedMessage:
    reason = one_line(refusal.to_others or str(refusal), LONGEST_STATEMENT) or "refused"
    return DeclinedMessage(reason, isinstance(refusal, BegunBefore))


def _described(message: Wired) -> str:
    if isinstance(message, SecureInstruction):
        message = message.instruction
    if isinstance(message, Instruction):
        return f"stage {message.stage!r}, round {message.round}"
    if isinstance(message, SignedMessage):
        where = message.attempt
        return f"stage {where.stage!r:.120}, round {where.round}, step {str(message.step)!r}"
    return type(message).__name__.lower()


def _resent(answer: object) -> str:
    return _AGAIN if isinstance(answer, Update) and answer.resent else ""
