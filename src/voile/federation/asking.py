"""Asking clients and waiting for them, whatever they do instead of answering."""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from voile.core.errors import InvalidInput, Refused
from voile.federation.client import Participant
from voile.federation.messages import Instruction
from voile.federation.recorder import Outcome


@dataclass(frozen=True, eq=False)
class Answer:
    """What came back: something, or the outcome that stands for nothing.

    `error` is for whoever sits at this machine; it may hold what must not leave, and is recorded
    nowhere.
    """

    client: str
    content: Any
    outcome: Outcome | None
    seconds: float
    error: BaseException | None = None


@dataclass(eq=False)
class Asking:
    """Asks one client after the other, or several at once in threads of their own.

    Args:
        deadline: seconds for one answer. A thread that does not come back cannot be ended: it is
            left behind, its answer is not read, and its client counts as vanished until it is free.
        at_once: how many clients work side by side.
    """

    deadline: float | None = None
    at_once: int = 1
    _busy: dict[str, threading.Thread] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.deadline is not None and not self.deadline > 0:
            raise InvalidInput(f"deadline must be above 0 seconds, found {self.deadline}")
        if self.at_once < 1:
            raise InvalidInput(f"at_once must be at least 1, found {self.at_once}")

    def ask(self, clients: Sequence[Participant], instruction: Instruction) -> Iterator[Answer]:
        """Answers, as they come in."""
        if self.deadline is None and self.at_once == 1:
            return (_ask(client, instruction) for client in clients)
        return self._in_threads(clients, instruction)

    def _in_threads(
        self, clients: Sequence[Participant], instruction: Instruction
    ) -> Iterator[Answer]:
        answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()
        waiting, started = deque(clients), dict[str, float]()
        while waiting or started:
            while waiting and len(started) < self.at_once:
                client = waiting.popleft()
                before = self._busy.get(client.name)
                if before is not None and before.is_alive():
                    yield Answer(client.name, None, Outcome.VANISHED, 0.0)
                    continue
                started[client.name] = time.perf_counter()
                self._start(client, instruction, answers)
            if not started:
                continue
            try:
                answer = answers.get(timeout=self._patience(started))
            except queue.Empty:
                yield from self._given_up(started)
                continue
            if started.pop(answer.client, None) is not None:
                yield answer

    def _start(
        self, client: Participant, instruction: Instruction, into: queue.SimpleQueue[Answer]
    ) -> None:
        thread = threading.Thread(
            target=lambda: into.put(_ask(client, instruction)), name=client.name, daemon=True
        )
        self._busy[client.name] = thread
        thread.start()

    def _patience(self, started: dict[str, float]) -> float | None:
        if self.deadline is None:
            return None
        return max(0.0, min(started.values()) + self.deadline - time.perf_counter())

    def _given_up(self, started: dict[str, float]) -> Iterator[Answer]:
        now = time.perf_counter()
        for name, since in list(started.items()):
            if self.deadline is not None and now - since >= self.deadline:
                del started[name]
                yield Answer(name, None, Outcome.LATE, now - since)


def _ask(client: Participant, instruction: Instruction) -> Answer:
    """Whatever a client raises is its own affair; only the user's interrupt goes through."""
    start = time.perf_counter()
    content: Any = None
    outcome: Outcome | None = None
    error: BaseException | None = None
    try:
        content = client.answer(instruction)
    except Refused as refusal:
        outcome, error = Outcome.REFUSED, refusal
    except (Exception, SystemExit) as fault:
        outcome, error = Outcome.VANISHED, fault
    return Answer(client.name, content, outcome, time.perf_counter() - start, error)
