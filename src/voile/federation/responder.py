"""A node behind a wire: sealed bytes come in, sealed bytes go out, and its log says what happened.

Whatever comes in, something signed goes out: an answer, or that there is none. Why is told in words
only if it was refused; what went wrong otherwise stays in the node's own log.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Final

from voile.core.errors import InvalidInput, Refused, VoileError
from voile.federation.envelopes import ReplySeal
from voile.federation.messages import LONGEST_STATEMENT, Instruction, SecureInstruction, Update
from voile.federation.transport import MessageHandler
from voile.federation.wire import Declined, Wired, from_bytes, to_bytes
from voile.secure_aggregation import SignedMessage
from voile.secure_aggregation.attempts import BegunBefore

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
            return to_bytes(Declined()), event, f"{what}: {kind}{fault}"


def _declined(refusal: Refused) -> Declined:
    reason = one_line(refusal.to_others or str(refusal), LONGEST_STATEMENT) or "refused"
    return Declined(reason, isinstance(refusal, BegunBefore))


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
