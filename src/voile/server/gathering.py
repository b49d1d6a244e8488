"""Requests of strangers, gathered for some milliseconds and answered together.

They share a look at the ledger, a call of the explainer and a transaction, and nothing else: each
has an outcome of its own, and a refusal touches nobody else.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from voile.app.explain.walk import Outcome
from voile.app.serving import PreparedRequest, ServedRelease, ServedWorkspace
from voile.server.metrics import Metrics

_THREADS: Final = 4
Kind: TypeAlias = tuple[str, int]
"""A release, and for how many rows: that decides what answers."""


@dataclass
class _Batch:
    served: ServedRelease
    asked: list[PreparedRequest] = field(default_factory=list)
    waiting: list[asyncio.Future[Outcome]] = field(default_factory=list)


class Gathering:
    """Gathers requests, and hands out answers.

    Args:
        seconds: for which the first of several waits.
        most: in one transaction.
    """

    def __init__(
        self, workspace: ServedWorkspace, metrics: Metrics, *, seconds: float, most: int
    ) -> None:
        self._workspace, self._metrics = workspace, metrics
        self._seconds, self._most = seconds, most
        self._open: dict[Kind, _Batch] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="voile answering")

    async def answer(self, served: ServedRelease, asked: PreparedRequest) -> Outcome:
        """What becomes of one request."""
        loop = asyncio.get_running_loop()
        kind = (served.name, asked.request.rows.count)
        batch = self._open.get(kind)
        if batch is None:
            batch = self._open[kind] = _Batch(served)
            loop.call_later(self._seconds, self._close, kind, batch)
        future: asyncio.Future[Outcome] = loop.create_future()
        batch.asked.append(asked)
        batch.waiting.append(future)
        if len(batch.asked) >= self._most:
            self._close(kind, batch)
        # Whoever hangs up has asked all the same: the charge is on record, and can be had again.
        return await asyncio.shield(future)

    async def drain(self) -> None:
        """Answer what was asked, and stop."""
        for kind, batch in list(self._open.items()):
            self._close(kind, batch)
        await asyncio.gather(*self._running, return_exceptions=True)
        self._threads.shutdown()

    def _close(self, kind: Kind, batch: _Batch) -> None:
        if self._open.get(kind) is not batch:
            return
        del self._open[kind]
        task = asyncio.get_running_loop().create_task(self._run(batch))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _run(self, batch: _Batch) -> None:
        self._metrics.together.observe(len(batch.asked))
        loop = asyncio.get_running_loop()
        try:
            outcomes = await loop.run_in_executor(
                self._threads, self._workspace.answer, batch.served, batch.asked
            )
        except Exception as error:  # of the database, say: everybody's
            outcomes = [error] * len(batch.waiting)
        for future, outcome in zip(batch.waiting, outcomes, strict=True):
            if not future.done():
                future.set_result(outcome)
