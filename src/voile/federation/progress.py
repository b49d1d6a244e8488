"""What a federation tells whoever watches it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from voile.federation.history import HistoryRow


@dataclass(frozen=True)
class ProgressEvent:
    """How far a stage is.

    Args:
        stage: its name.
        round, rounds: the running one, and of how many.
        asked, answered: clients of this round, asked and heard of or given up so far.
        done: whether the round is over.
        rows: of all finished rounds; `most_spent(rows, delta)` tells the budget used so far.
    """

    stage: str
    round: int
    rounds: int
    asked: int
    answered: int
    done: bool
    rows: Sequence[HistoryRow] = field(repr=False)

    @property
    def missing(self) -> list[HistoryRow]:
        """Of a round that is over: who was asked, and is not in what was made of it."""
        ended = (each for each in self.rows if self.done)
        of_round = (row for row in ended if (row.stage, row.round) == (self.stage, self.round))
        return [row for row in of_round if not row.outcome.counts]


class Progress(Protocol):
    """Called after each answer and after each round; what it raises stops the federation."""

    def __call__(self, seen: ProgressEvent, /) -> None: ...


@dataclass(frozen=True)
class NoProgress:
    """Tells nobody."""

    def __call__(self, seen: ProgressEvent) -> None:
        """Not shown."""
