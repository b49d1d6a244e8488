"""What makes explaining faster or slower, and changes nothing else.

Kept apart from every setting that changes the values: a reviewer sees at once which is which.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

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
