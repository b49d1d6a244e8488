"""What both sides know of an attempt, and what a party remembers of it for ever.

A party reveals shares for one attempt of a round only, and takes part in none after that: two
completed attempts with different survivors would differ by one party's vector. It holds to it over
crashes, because it writes it down before anything leaves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from voile.core.errors import InvalidInput, Refused
from voile.federation.secure_aggregation.signed import SERVER, Attempt, Identities
from voile.federation.secure_aggregation.threat_models import ThreatModel


@dataclass(frozen=True)
class AttemptTerms:
    """An attempt as it was agreed on.

    Args:
        attempt: which.
        asked: everybody who is asked, in order of names.
        model: against whom the sum holds.
        identities: keys of all parties of the agreement, and of the server.
        length: of every vector.
        dtype: uint32 or uint64.
    """

    attempt: Attempt
    asked: tuple[str, ...]
    model: ThreatModel
    identities: Identities
    length: int
    dtype: Any

    def __post_init__(self) -> None:
        check_asked(self.asked, self.identities)
        self.threshold  # noqa: B018  # a model that does not hold is refused now

    @property
    def threshold(self) -> int:
        """How many have to survive."""
        return self.model.threshold_of(len(self.asked))

    @property
    def shares_needed(self) -> int:
        return self.model.shares_needed(len(self.asked))

    @property
    def size(self) -> int:
        """Bytes of a vector."""
        return self.length * int(self.dtype().itemsize)

    def number(self, name: str) -> int:
        """Where the shares of a holder are taken."""
        return self.asked.index(name) + 1


def check_asked(asked: object, identities: Identities) -> None:
    """Different parties of the agreement, in order of names."""
    if not isinstance(asked, tuple) or not all(type(name) is str for name in asked):
        raise InvalidInput("those who are asked are named")
    if list(asked) != sorted(set(asked)):
        raise InvalidInput("those who are asked are different names in their order")
    strangers = [name for name in asked if name not in identities or name == SERVER]
    if strangers:
        raise Refused(f"asked with parties that the agreement does not name: {strangers[:3]}")


class BegunBefore(Refused):
    """An attempt is refused because of an earlier one of its round, which may have been charged."""


class AttemptStore(Protocol):
    """What a party remembers of rounds; durable when a call returns."""

    def begin(self, attempt: Attempt, asked: Sequence[str]) -> None:
        """Write down that it takes part in this attempt, before any key of it leaves.

        `Refused` if it has begun this very attempt before, has revealed shares for this round, or
        has taken part in an attempt of this round with others who were asked.
        """

    def reveal(self, attempt: Attempt) -> None:
        """Write down that shares of this attempt leave; `Refused` if any of its round have left."""


class AttemptsInMemory:
    """Lost with the process, so a party that crashed would reveal a second time: for tests."""

    def __init__(self) -> None:
        self._asked: dict[tuple[str, str, int], tuple[str, ...]] = {}
        self._begun: set[Attempt] = set()
        self._revealed: set[tuple[str, str, int]] = set()

    def begin(self, attempt: Attempt, asked: Sequence[str]) -> None:
        where = _round(attempt)
        if where in self._revealed:
            raise already_revealed(attempt)
        if attempt in self._begun:
            raise begun_before(attempt)
        if self._asked.setdefault(where, tuple(asked)) != tuple(asked):
            raise others_asked(attempt)
        self._begun.add(attempt)

    def reveal(self, attempt: Attempt) -> None:
        if _round(attempt) in self._revealed:
            raise already_revealed(attempt)
        self._revealed.add(_round(attempt))


def _round(attempt: Attempt) -> tuple[str, str, int]:
    return attempt.agreement, attempt.stage, attempt.round


def already_revealed(attempt: Attempt) -> BegunBefore:
    return BegunBefore(
        f"shares of round {attempt.round} of {attempt.stage!r} have left for one attempt, and "
        "leave for no other: two sums of a round would tell one party's vector. What was lost "
        "is asked for in a later round, as a new participation"
    )


def begun_before(attempt: Attempt) -> BegunBefore:
    return BegunBefore(
        f"this attempt of round {attempt.round} of {attempt.stage!r} was begun before; each has "
        "keys of its own, so begin another"
    )


def others_asked(attempt: Attempt) -> BegunBefore:
    return BegunBefore(
        f"round {attempt.round} of {attempt.stage!r} was begun with other parties; those who are "
        "asked stay the same in every attempt of a round"
    )
