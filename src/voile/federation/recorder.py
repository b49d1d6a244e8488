"""The seam between a federation and whoever keeps its books.

A federation knows neither ledger nor audit log. A client asks its `ParticipationGuard` before it
takes part, and before it sends a stored update again; the server tells its `RoundLog` after each
round what happened. `voile.workflows` joins both to ledger and log.
"""

from __future__ import annotations

import secrets
import threading
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol

from voile.core.errors import Refused
from voile.privacy.events import PrivacyEvent


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
    DUPLICATE = "name taken"

    @property
    def counts(self) -> bool:
        """Whether the update entered the aggregate."""
        return self in (Outcome.ANSWERED, Outcome.RESENT)


@dataclass(frozen=True)
class Participation:
    """A client is about to take part; `event` is what its update will release."""

    client: str
    stage: str
    round: int
    event: PrivacyEvent | None


@dataclass(frozen=True)
class RoundReport:
    """One round as the server saw it.

    Args:
        stage, round: which.
        outcomes: what became of each client that was asked, in order of names.
        changed: whether the arrays moved; they do not if too few answered.
        digest: of the arrays after the round (`digest_of_arrays`).
    """

    stage: str
    round: int
    outcomes: tuple[tuple[str, Outcome], ...]
    changed: bool
    digest: str


class Booking(NamedTuple):
    """Where a participation stands in a client's books.

    Args:
        name: of this entry and no other in whatever books, by 128 random bits or more.
        account: what was charged; None in books that count and charge nothing.
    """

    name: str
    account: str | None = None


class ParticipationGuard(Protocol):
    """A client's own books: what it may do, whatever a server asks for."""

    def before_participation(self, participation: Participation) -> Booking:
        """Charge it, durably, or raise `Refused`. A repeat is a new participation.

        This is where a client's own cap is kept.
        """

    def holds(self, participation: Participation, booking: Booking) -> bool:
        """Whether these very books hold this participation under this booking."""


class RoundLog(Protocol):
    """The server's books."""

    def after_round(self, report: RoundReport) -> None:
        """Write it down. After a crash a round may be told twice, with the same digest."""


@dataclass(frozen=True)
class NoRecorder:
    """Grants everything and remembers nothing: for tasks that protect nobody."""

    def before_participation(self, participation: Participation) -> Booking:  # noqa: ARG002
        """Granted."""
        return Booking("")

    def holds(self, participation: Participation, booking: Booking) -> bool:  # noqa: ARG002
        """Nothing is kept, so no stored update is ever sent again."""
        return False

    def after_round(self, report: RoundReport) -> None:
        """Not kept."""


@dataclass(eq=False)
class InMemory:
    """Keeps everything in lists, and a cap for each client and stage; lost with the process.

    Args:
        cap: how often one client may take part in one stage.
    """

    cap: int
    participations: list[Participation] = field(default_factory=list)
    rounds: list[RoundReport] = field(default_factory=list)
    _own: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)
    _booked: dict[str, Participation] = field(default_factory=dict, repr=False)
    _taken: Counter[tuple[str, str]] = field(default_factory=Counter, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def before_participation(self, participation: Participation) -> Booking:
        with self._lock:
            who = participation.client, participation.stage
            if self._taken[who] >= self.cap:
                raise Refused(
                    f"{participation.client!r} has taken part in {participation.stage!r} "
                    f"{self.cap} times, which is its cap; nothing was trained or charged"
                )
            self._taken[who] += 1
            self.participations.append(participation)
            booking = Booking(f"{self._own}#{len(self.participations)}")
            self._booked[booking.name] = participation
            return booking

    def holds(self, participation: Participation, booking: Booking) -> bool:
        return booking.account is None and self._booked.get(booking.name) == participation

    def after_round(self, report: RoundReport) -> None:
        self.rounds.append(report)
