"""A line that says how far long work is."""

from __future__ import annotations

import sys
import time
from typing import TextIO

from voile.attribution.settings import Progress


def progress_line(stream: TextIO | None = None, *, every: float = 0.5) -> Progress:
    """Write "rows explained: 120 of 1,000, about 14 s left" to a stream, and update it in place.

    Args:
        stream: where to write; stderr if not given.
        every: seconds between two updates; work that ends sooner writes nothing.

    >>> import io
    >>> written = io.StringIO()
    >>> progress_line(written, every=0.0)(1_000, 1_000)
    >>> written.getvalue().strip()
    'rows explained: 1,000 of 1,000, about 0 s left'
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
