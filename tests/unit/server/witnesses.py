"""A witness that answers over HTTP in this process, as `voile audit witness` does."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from voile.app.server_door import ServerAddress
from voile.records.audit_log import Witness
from voile.server.running import run_witness


@contextmanager
def witness_at(witness: Witness) -> Iterator[str]:
    """Its address; it has ended afterwards."""
    found: list[str] = []
    known, stop = threading.Event(), threading.Event()

    def started(url: str) -> None:
        found.append(url)
        known.set()

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run_witness, witness, ServerAddress("127.0.0.1", 0), started, stop)
        running.add_done_callback(lambda _: known.set())
        assert known.wait(60)
        try:
            yield found[0]
        finally:
            stop.set()
            running.result(60)
