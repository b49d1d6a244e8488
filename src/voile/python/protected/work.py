"""How long an explanation over protected rows will take, said before and shown while it lasts.

Of protected rows nobody is told how far it is: rows that are equal are computed once, so the count
would tell how many differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from voile.attribution import Speed, is_exact
from voile.core.schema import Schema
from voile.models import WrappedModel, row_wise
from voile.python.progress import LONG, Progress, in_words, say, seconds_to_ask, shown
from voile.python.protected.model import probe_rows

_SAMPLED: Final = 2 * 40
"""Coalitions for each player and background row, where they are drawn."""
_NOTHING: Final = 50_000
"""Evaluations that take no time worth a word."""
_BATCH: Final = 4096


@dataclass(eq=False)
class Work:
    """The work of one explainer.

    Args:
        model: asked on rows that the schema allows, to see how long it takes.
        schema: of the rows.
        background: how many rows there are.
        one_by_one: protected rows are explained, each by itself.
        progress: see `voile.python.progress.Progress`.
    """

    model: WrappedModel
    schema: Schema
    background: int | None
    one_by_one: bool
    progress: Progress
    _seconds: dict[int, float] = field(default_factory=dict, repr=False)
    _told: Callable[[int], None] | None = field(default=None, repr=False)
    _done: int = 0

    @contextmanager
    def watched(self, rows: int) -> Iterator[None]:
        """Inside, people see how far it is; what will take long is said before."""
        seconds = self.seconds(rows)
        if self.one_by_one:
            self._say(rows, seconds)
            yield
            return
        title = f"explaining {rows:,} row{'' if rows == 1 else 's'} over {self.background or 0:,}"
        with shown(f"{title} protected rows", rows, seconds, self.progress) as advance:
            self._told, self._done = advance, 0
            try:
                yield
            finally:
                self._told = None

    @property
    def speed(self) -> Speed:
        """The same for every call: a release is built once, and kept."""
        return Speed() if self.one_by_one else Speed(progress=self._report)

    def _report(self, done: int, total: int) -> None:
        """From "so many are done" to "so many more are"."""
        more, self._done = done - self._done, 0 if done >= total else done
        if more > 0 and self._told is not None:
            self._told(more)

    def _say(self, rows: int, seconds: float) -> None:
        if self.progress is True or seconds >= LONG:
            title = f"explaining {rows:,} protected rows, about {in_words(seconds)}"
            say(f"{title}; how far it is is not shown", self.progress)

    def seconds(self, rows: int) -> float:
        """About, by public rows alone; an upper bound where values repeat."""
        asked = rows * (self.background or rows) * self._coalitions
        if asked < _NOTHING:
            return 0.0
        if asked not in self._seconds:
            self._seconds[asked] = self._timed(asked)
        return self._seconds[asked]

    @property
    def _coalitions(self) -> int:
        players = len(self.schema.feature_names)
        return int(2**players) if is_exact(players) else _SAMPLED * players

    def _timed(self, asked: int) -> float:
        batch = _BATCH if row_wise(self.model) else min(self._coalitions, _BATCH)
        probes = probe_rows(self.schema)
        enough = np.tile(probes, (-(-batch // len(probes)), 1))
        return seconds_to_ask(lambda count: self.model.predict(enough[:count]), asked, batch)
