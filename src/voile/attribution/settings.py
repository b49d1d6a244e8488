"""What makes explaining faster or slower, and changes nothing else.

Kept apart from every setting that changes the values: a reviewer sees at once which is which.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TextIO, TypeAlias

from voile.core.errors import InvalidInput

Progress: TypeAlias = Callable[[int, int], None]
"""Called with the number of rows explained so far and the number of all rows."""


@dataclass(frozen=True)
class ShortCuts:
    """Model evaluations that are left out because their result is known already.

    They change no value, but the running time then depends on which values occur in the rows. Use
    `CONSTANT_WORK` if others can observe the running time and those rows are protected.

    Args:
        equal_players: a player with the same value in row and background row contributes nothing;
            the coalitions are formed of the others.
        duplicate_rows: rows, and background rows, that occur several times are computed once.
        duplicate_inputs: model inputs that arise in several coalitions are evaluated once; applied
            to data with few distinct values, from 32 distinct rows on.

    >>> ShortCuts().equal_players, CONSTANT_WORK.equal_players
    (True, False)
    """

    equal_players: bool = True
    duplicate_rows: bool = True
    duplicate_inputs: bool = True


CONSTANT_WORK: Final = ShortCuts(equal_players=False, duplicate_rows=False, duplicate_inputs=False)


@dataclass(frozen=True)
class Speed:
    """How the work is cut up.

    Args:
        batch_rows: how many rows the model is given at once. A few thousand keep the activations of
            a small network in the processor's cache; larger batches suit models with a high cost
            per call. Memory grows with it.
        short_cuts: which evaluations may be left out.
        progress: told how far the work is; see `voile.attribution.progress_line`.

    >>> done = []
    >>> Speed(progress=lambda rows, total: done.append((rows, total))).report(5, 10)
    >>> done
    [(5, 10)]
    """

    batch_rows: int = 4096
    short_cuts: ShortCuts = field(default_factory=ShortCuts)
    progress: Progress | None = None

    def __post_init__(self) -> None:
        if self.batch_rows < 1:
            raise InvalidInput(f"batch_rows must be at least 1, found {self.batch_rows}")

    def report(self, done: int, total: int) -> None:
        if self.progress is not None:
            self.progress(done, total)


# --- A line that says how far long work is --------------------------------------------------------


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
