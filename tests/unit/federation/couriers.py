"""A courier within this process: every node answers in a thread of its own, one message at a time.

It can be told to lose what is under way, as a SuperLink that is restarted does, and to lose single
messages or replies, as a connection that breaks for a moment does.
"""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Iterable, Mapping
from typing import Any

from voile.federation.flower.courier import CourierLost, CourierReply


class LocalCourier:
    """What `SuperLinkRun` does, without a SuperLink.

    Args:
        responders: by name.
    """

    def __init__(self, responders: Mapping[str, Any]) -> None:
        self.numbers = {name: place for place, name in enumerate(responders, 1)}
        self.away: set[str] = set()
        self.runs, self.losses = 1, 0
        self.lost_messages: set[int] = set()
        self.lost_replies: set[int] = set()
        """Which ones, counted from 0 over all that are pushed."""
        self.pushed: list[dict[int, bytes]] = []
        self._names = (f"m{number}" for number in itertools.count())
        self._replies: dict[str, bytes | None] = {}
        self._queues: dict[int, queue.SimpleQueue[tuple[str, bytes]]] = {}
        for name, number in self.numbers.items():
            self._queues[number] = queue.SimpleQueue()
            threading.Thread(
                target=self._work, args=(responders[name], self._queues[number]), daemon=True
            ).start()

    def _work(self, responder: Any, asked: queue.SimpleQueue[tuple[str, bytes]]) -> None:
        while True:
            name, content = asked.get()
            reply = responder.answer(content)
            if int(name[1:]) not in self.lost_replies:
                self._replies[name] = reply

    def reachable(self) -> Mapping[str, int]:
        self._fail_if_told()
        return {name: number for name, number in self.numbers.items() if name not in self.away}

    def push(self, messages: Mapping[int, bytes], seconds: float | None) -> dict[int, str]:
        assert seconds is None or seconds > 0
        self.pushed.append(dict(messages))
        sent = {}
        for number, content in messages.items():
            sent[number] = next(self._names)
            if int(sent[number][1:]) not in self.lost_messages:
                self._queues[number].put((sent[number], content))
        return sent

    def pull(self, message_ids: Iterable[str]) -> list[CourierReply]:
        self._fail_if_told()
        there = [name for name in message_ids if name in self._replies]
        return [CourierReply(name, self._replies.pop(name)) for name in there]

    def answer_instead(self, name: str, content: bytes | None) -> None:
        """What a SuperLink could put in the place of a reply."""
        self._replies[name] = content

    def renew(self) -> None:
        self._fail_if_told()
        self.runs += 1

    def _fail_if_told(self) -> None:
        if self.losses:
            self.losses -= 1
            raise CourierLost("restarted")
