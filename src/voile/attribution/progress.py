"""A line that says how far long work is."""

from __future__ import annotations

import sys
import time
from typing import TextIO

from voile.attribution.settings import Progress


def progress_line(stream: TextIO | None = None, *, every: float = 0.5) -> Progress:
    """Write "rows explained: 120 of 1,000, about 14 s left" to a stream (stderr), over and over.

    Args:
        stream: where to write.
        every: seconds between two updates; work that ends sooner writes nothing.
    """
    target = sys.stderr if stream is None else stream
    start = last = time.monotonic()

    def show(done: int, total: int) -> None:
        nonlocal last, start
        now = time.monotonic()
        finished = done >= total
        if now - last < every and not (finished and last > start):
            return
        left = (now - start) / max(done, 1) * (total - done)
        end = "\n" if finished else ""
        target.write(f"\rrows explained: {done:,} of {total:,}, about {left:.0f} s left  {end}")
        target.flush()
        last = now

    return show
