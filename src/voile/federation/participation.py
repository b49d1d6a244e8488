"""What a node asks before it takes part, and before it sends a stored update again.

A federation knows no ledger: a node asks its `ParticipationGuard`, and `voile.app` joins that
to the node's own ledger and log.
"""

from __future__ import annotations

import secrets
import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from voile.core.errors import Refused
from voile.privacy.events import PrivacyEvent


@dataclass(frozen=True)
class Participation:
    """A client is about to take part; `event` is what its update will release."""

    client: str
    stage: str
    round: int
    event: PrivacyEvent | None


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

    def before_joining(self) -> None:
        """`Refused` if these books would grant no participation at all; books nothing.

        Asked before the first round, so that nobody is charged for a federation in which somebody
        else takes no part.
        """

    def before_participation(self, participation: Participation) -> Booking:
        """Charge it, durably, or raise `Refused`. A repeat is a new participation.

        This is where a client's own cap is kept.
        """

    def holds(self, participation: Participation, booking: Booking) -> bool:
        """Whether these very books hold this participation under this booking."""


@dataclass(frozen=True)
class NoGuard:
    """Grants everything and remembers nothing: for tasks that protect nobody."""

    def before_joining(self) -> None:
        """Nothing is refused."""

    def before_participation(self, participation: Participation) -> Booking:  # noqa: ARG002
        """Granted."""
        return Booking("")

    def holds(self, participation: Participation, booking: Booking) -> bool:  # noqa: ARG002
        """Nothing is kept, so no stored update is ever sent again."""
        return False


@dataclass(eq=False)
class CountingGuard:
    """Keeps a cap for each client and stage; charges nothing, and is lost with the process.

    Args:
        cap: how often one client may take part in one stage.
    """

    cap: int
    participations: list[Participation] = field(default_factory=list)
    _own: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)
    _booked: dict[str, Participation] = field(default_factory=dict, repr=False)
    _taken: Counter[tuple[str, str]] = field(default_factory=Counter, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def before_joining(self) -> None:
        """Nothing is refused before the cap is reached."""

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
