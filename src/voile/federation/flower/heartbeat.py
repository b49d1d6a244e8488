"""Tells the other side, now and then, that this side is alive."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def beating(beat: Callable[[], object], every: float) -> Iterator[None]:
    """Call `beat` every so many seconds, in a thread of its own.

    A beat that fails is made up for by the next; whether the other side is there at all is seen by
    whoever talks to it.
    """
    over = threading.Event()

    def run() -> None:
        while not over.wait(every):
            try:
                beat()
            except Exception:  # whatever is said instead of an answer
                continue

    thread = threading.Thread(target=run, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
