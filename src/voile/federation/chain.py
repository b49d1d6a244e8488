"""A signed chain of rounds: only those who were shown the same arrays make up a sum.

Every round is chained to the one before it by a hash over the arrays that were sent. The server
signs the link of a round when it begins, and every party keeps what it was shown. Two parties that
were shown different arrays for one round hold two signatures that contradict each other, for
whoever compares their logs later. In one sum they never meet: what parties sign of an attempt names
the round as they were shown it, and each checks the signatures of all others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from voile.core.errors import Refused
from voile.federation.secure_aggregation.attempts import BegunBefore
from voile.federation.secure_aggregation.signed import verify


def first_link(agreement: str, stage: str) -> str:
    """What round 1 of a stage is chained to."""
    return _digest("start", agreement, stage)


def digest_of_shown(arrays: str, given: str) -> str:
    """Of all that is sent in a round, from digests of what is trained and of what is given."""
    return _digest("shown", arrays, given)


def next_link(previous: str, number: int, shown: str) -> str:
    """The link of a round, from the one before it and the digest of what was sent."""
    return _digest("round", previous, str(number), shown)


def link_before(agreement: str, stage: str, sent: Iterable[str]) -> str:
    """What the next round is chained to, after rounds in which this was sent."""
    link = first_link(agreement, stage)
    for number, shown in enumerate(sent, 1):
        link = next_link(link, number, shown)
    return link


@dataclass(frozen=True)
class AnnouncedRound:
    """What a server says when a round begins, and a party keeps.

    Args:
        previous, link: of the chain.
        begun: digest of the attempt and of everybody who is asked.
        signature: of the server.
    """

    agreement: str
    stage: str
    round: int
    previous: str
    link: str
    begun: str
    signature: bytes = field(default=b"", repr=False)

    @property
    def text(self) -> str:
        """What is signed; its first line begins no other text of a voile key."""
        where = self.agreement, self.stage, str(self.round), self.previous, self.link, self.begun
        return "".join(f"{line}\n" for line in ("voile round 1", *where))

    @property
    def attempt(self) -> str:
        """A name for this attempt among those who were shown the same, and nobody else."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def verify(self, key: bytes) -> None:
        """`Refused` unless the server signed it."""
        verify(self.text, self.signature, key, "the server")


def attempt_digest(attempt: str, asked: Iterable[str]) -> str:
    return _digest("attempt", attempt, *asked)


class ChainGuard(Protocol):
    """A party's own record of the rounds that it was shown."""

    def before_round(self, announced: AnnouncedRound) -> None:
        """Keep it, durably; `Refused` if it contradicts what was kept, which is then kept too."""


@dataclass(eq=False)
class KeptRounds:
    """Lost with the process."""

    announced: list[AnnouncedRound] = field(default_factory=list)
    _taken: dict[tuple[str, int], AnnouncedRound] = field(default_factory=dict, repr=False)

    def before_round(self, announced: AnnouncedRound) -> None:
        self.announced.append(announced)
        stage, number = announced.stage, announced.round
        same, before, after = (self._taken.get((stage, number + step)) for step in (0, -1, 1))
        check_chain(
            announced,
            None if same is None else same.link,
            None if before is None else before.link,
            None if after is None else after.previous,
        )
        self._taken.setdefault((stage, number), announced)  # what was shown first counts


def check_chain(
    announced: AnnouncedRound, same: str | None, before: str | None, after: str | None
) -> None:
    """Compare with what was kept.

    Args:
        same: the link of this round, if it was announced before.
        before: the link of the round before, if this party was shown that.
        after: what the round after hangs on, if this party was shown that first.
    """
    where = f"round {announced.round} of {announced.stage!r}"
    if announced.round == 1:
        before = first_link(announced.agreement, announced.stage)
    if before is not None and announced.previous != before:
        raise Refused(f"{where} is chained to another history than the one that was shown here")
    if same is not None and announced.link != same:
        raise BegunBefore(f"{where} was begun before, with other arrays")
    if after is not None and announced.link != after:
        raise Refused(f"the round after {where} was shown here, and hangs on another one")


def _digest(*texts: str) -> str:
    sha = hashlib.sha256(b"voile chain of rounds 1\n")
    for text in texts:
        content = text.encode()
        sha.update(len(content).to_bytes(8, "big") + content)
    return sha.hexdigest()
