"""What the server of a federation writes down after each round.

A federation knows no audit log: it tells whoever keeps one, and `voile.app` joins the two.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from voile.federation.aggregators import Memory
from voile.federation.arrays import Arrays


class Outcome(StrEnum):
    """What became of a client's part in a round. Names and kinds are all that is recorded."""

    ANSWERED = "answered"
    RESENT = "answered with a stored update"
    REFUSED = "refused by the client"
    VANISHED = "no answer"
    LATE = "late"
    WRONG_TYPE = "not float32 arrays"
    WRONG_SHAPE = "wrong names or shapes"
    NOT_FINITE = "NaN or infinity"
    TOO_LARGE = "too large"
    WRONG_SENDER = "another name, stage or round"
    OTHER_COST = "another cost than was agreed on"
    UNSUMMED = "trained, and in no sum"
    """Of a secure sum: the update was charged, and nobody has seen it."""
    OVER = "took part before"
    """Of a secure sum: the update was charged in an attempt of this round that the server has lost,
    and perhaps opened with others in its sum."""
    DUPLICATE = "name taken"
    """Of two clients with one name, the second; in histories of version 1 only."""

    @property
    def counts(self) -> bool:
        """Whether the update entered the aggregate."""
        return self in (Outcome.ANSWERED, Outcome.RESENT)


@dataclass(frozen=True)
class RoundReport:
    """One round as the server saw it.

    Args:
        stage, round: which.
        outcomes: what became of each client that was asked, in order of names.
        changed: whether the arrays moved; they do not if too few answered.
        digest: of the arrays after the round (`digest_of_arrays`).
        memory, arrays: what the round protocol remembers, and the arrays themselves; for books that
            know what they mean.
    """

    stage: str
    round: int
    outcomes: tuple[tuple[str, Outcome], ...]
    changed: bool
    digest: str
    memory: Memory = field(default_factory=dict, repr=False, compare=False)
    arrays: Arrays = field(default_factory=dict, repr=False, compare=False)


class RoundLog(Protocol):
    """The server's books."""

    def after_round(self, report: RoundReport) -> None:
        """Write it down. After a crash a round may be told twice, with the same digest."""


@dataclass(frozen=True)
class NoRoundLog:
    """Writes nothing down."""

    def after_round(self, report: RoundReport) -> None:
        """Not kept."""
