"""What carries a federation's messages: each addressee gets one, and one reply comes back.

A transport knows nothing of rounds, updates or privacy. Whatever a node does instead of answering
becomes the `Outcome` of its reply; nothing it does stops the exchange.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from voile.core.errors import InvalidInput, Refused
from voile.federation.messages import Message, check_name
from voile.federation.round_log import Outcome


@dataclass(frozen=True, eq=False)
class NodeReply:
    """What came back from one node: something, or the outcome that stands for nothing.

    Args:
        content: whatever it sent; nobody has looked at it yet.
        seconds: how long it took.
        error: for whoever sits at this machine; it may hold what must not leave, and is recorded
            nowhere.
    """

    node: str
    content: Any
    outcome: Outcome | None
    seconds: float
    error: BaseException | None = None


class Transport(Protocol):
    """Messages to nodes and back.

    Guarantees
        1. Every addressee is replied for exactly once, in whatever order.
        2. With a deadline no reply takes longer; who is late is not heard in a later exchange.
        3. What a node raises or sends is in its reply; only the user's interrupt goes through.
        4. Who cannot be reached has vanished.
    """

    def exchange(
        self, messages: Mapping[str, Message], deadline: float | None = None
    ) -> Iterator[NodeReply]:
        """Send each node its message, and give replies as they come in.

        Args:
            messages: by node.
            deadline: seconds for one reply, counted from when its message was sent.
        """


class MessageHandler(Protocol):
    """Whoever can be sent a message: `voile.federation.Node`, or anything in its place."""

    @property
    def name(self) -> str: ...

    def handle(self, message: Message) -> Any:
        """The answer; what it raises counts as none."""


@dataclass(eq=False)
class Threads:
    """Nodes in this process, one after the other or several at once in threads of their own.

    A thread that does not come back cannot be ended: it is left behind, its answer is not read, and
    its node counts as vanished until it is free.

    Args:
        members: with different names.
        at_once: how many work side by side.
    """

    members: Sequence[MessageHandler]
    at_once: int = 1
    _by_name: dict[str, MessageHandler] = field(default_factory=dict, init=False, repr=False)
    _busy: dict[str, threading.Thread] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.at_once < 1:
            raise InvalidInput(f"at_once must be at least 1, found {self.at_once}")
        for node in self.members:
            check_name("a node", node.name)
            if self._by_name.setdefault(node.name, node) is not node:
                raise InvalidInput(f"two nodes are called {node.name!r}; names must differ")
        if not self._by_name:
            raise InvalidInput("a federation needs at least one node")

    def exchange(
        self, messages: Mapping[str, Message], deadline: float | None = None
    ) -> Iterator[NodeReply]:
        if deadline is None and self.at_once == 1:
            return (self._asked(name, message) for name, message in messages.items())
        return self._in_threads(messages, deadline)

    def _in_threads(
        self, messages: Mapping[str, Message], deadline: float | None
    ) -> Iterator[NodeReply]:
        replies: queue.SimpleQueue[NodeReply] = queue.SimpleQueue()
        waiting, started = deque(messages.items()), dict[str, float]()
        while waiting or started:
            while waiting and len(started) < self.at_once:
                name, message = waiting.popleft()
                before = self._busy.get(name)
                if before is not None and before.is_alive():
                    yield NodeReply(name, None, Outcome.VANISHED, 0.0)
                    continue
                started[name] = time.perf_counter()
                self._start(name, message, replies)
            if not started:
                continue
            try:
                reply = replies.get(timeout=_patience(started, deadline))
            except queue.Empty:
                yield from _given_up(started, deadline)
                continue
            if started.pop(reply.node, None) is not None:
                yield reply

    def _start(self, name: str, message: Message, into: queue.SimpleQueue[NodeReply]) -> None:
        thread = threading.Thread(
            target=lambda: into.put(self._asked(name, message)), name=name, daemon=True
        )
        self._busy[name] = thread
        thread.start()

    def _asked(self, name: str, message: Message) -> NodeReply:
        """Whatever a node raises is its own affair; only the user's interrupt goes through."""
        start, node = time.perf_counter(), self._by_name.get(name)
        content: Any = None
        outcome: Outcome | None = None
        error: BaseException | None = None
        try:
            if node is None:
                raise InvalidInput(f"nobody here is called {name!r}")
            content = node.handle(message)
        except Refused as refusal:
            outcome, error = Outcome.REFUSED, refusal
        except (Exception, SystemExit) as fault:
            outcome, error = Outcome.VANISHED, fault
        return NodeReply(name, content, outcome, time.perf_counter() - start, error)


def _patience(started: dict[str, float], deadline: float | None) -> float | None:
    if deadline is None:
        return None
    return max(0.0, min(started.values()) + deadline - time.perf_counter())


def _given_up(started: dict[str, float], deadline: float | None) -> Iterator[NodeReply]:
    now = time.perf_counter()
    for name, since in list(started.items()):
        if deadline is not None and now - since >= deadline:
            del started[name]
            yield NodeReply(name, None, Outcome.LATE, now - since)
