"""Requests of strangers, gathered while others are answered, and answered together.

They share a look at the ledger, a call of the explainer and a transaction, and nothing else: each
has an outcome of its own, and a refusal touches nobody else.

Whoever asks alone does not wait. While some are answered, others gather; and when many ask at once,
those who come some milliseconds later are waited for.
"""

from __future__ import annotations

import asyncio
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from voile.app.serving import CallerRequest, ServedAnswer, ServedRelease, ServedWorkspace
from voile.server.metrics import Metrics

_THREADS: Final = 4
_AT_ONCE: Final = 1
"""Batches of one release that are answered at a time: more of them would be smaller ones."""
Outcome: TypeAlias = ServedAnswer | Exception


@dataclass
class Waiting:
    """Requests for one release.

    Args:
        running: how many batches are being answered.
        is_busy: more than one was answered together last time.
        later: waits for more of them.
    """

    served: ServedRelease
    requests: deque[tuple[CallerRequest, asyncio.Future[Outcome]]] = field(default_factory=deque)
    running: int = 0
    is_busy: bool = False
    later: asyncio.TimerHandle | None = None


class Gathering:
    """Gathers requests, and hands out answers.

    Args:
        seconds: for which more are waited for, when many ask at once.
        most: in one transaction.
    """

    def __init__(
        self, workspace: ServedWorkspace, metrics: Metrics, *, seconds: float, most: int
    ) -> None:
        self._workspace, self._metrics = workspace, metrics
        self._seconds, self._most = seconds, most
        self._waiting: dict[str, Waiting] = {}
        self._ending = False
        self._running: set[asyncio.Task[None]] = set()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="voile answering")

    async def answer(self, served: ServedRelease, request: CallerRequest) -> Outcome:
        """What becomes of one request."""
        waiting = self._waiting.setdefault(served.name, Waiting(served))
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        waiting.requests.append((request, future))
        self._start(waiting)
        # Whoever hangs up has asked all the same: the charge is on record, and can be had again.
        return await asyncio.shield(future)

    async def drain(self) -> None:
        """Answer what was asked, and stop; nobody is waited for any more."""
        self._ending = True
        for waiting in self._waiting.values():
            self._start(waiting)
        while self._running:
            await asyncio.gather(*self._running, return_exceptions=True)
        self._threads.shutdown()

    def _start(self, waiting: Waiting, *, now: bool = False) -> None:
        """Answer those who wait, unless others are being answered, or more are to be waited for."""
        if waiting.running >= _AT_ONCE or not waiting.requests:
            return
        loop = asyncio.get_running_loop()
        if not (now or self._ending) and waiting.is_busy and len(waiting.requests) < self._most:
            if waiting.later is None:
                waiting.later = loop.call_later(self._seconds, self._stop_waiting, waiting)
            return
        if waiting.later is not None:
            waiting.later.cancel()
            waiting.later = None
        task = loop.create_task(self._run(waiting, self._batch(waiting)))
        waiting.running += 1
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def _stop_waiting(self, waiting: Waiting) -> None:
        waiting.later = None
        self._start(waiting, now=True)

    def _batch(self, waiting: Waiting) -> list[tuple[CallerRequest, asyncio.Future[Outcome]]]:
        count = min(len(waiting.requests), self._most)
        waiting.is_busy = count > 1
        return [waiting.requests.popleft() for _ in range(count)]

    async def _run(
        self,
        waiting: Waiting,
        batch: list[tuple[CallerRequest, asyncio.Future[Outcome]]],
    ) -> None:
        requests = [request for request, _ in batch]
        loop = asyncio.get_running_loop()
        outcomes: list[Outcome]
        try:
            outcomes = await loop.run_in_executor(
                self._threads, self._workspace.answer, waiting.served, requests
            )
        except Exception as error:  # of the database, say: everybody's
            outcomes = [error] * len(batch)
        sound = sum(isinstance(each, ServedAnswer) for each in outcomes)
        if sound:
            self._metrics.together.observe(sound)
        for (_, future), outcome in zip(batch, outcomes, strict=True):
            if not future.done():
                future.set_result(outcome)
        waiting.running -= 1
        self._start(waiting)
