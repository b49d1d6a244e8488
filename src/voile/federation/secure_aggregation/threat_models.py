"""Against whom the secure sum holds, and how many parties that takes.

| server | what it does | threshold t of n, c colluding parties |
| --- | --- | --- |
| `HonestButCurious` | follows the protocol, and looks at all it gets | 2t > n + c |
| `ActiveServer` | may send anything to anybody | 2t > n + c, and everybody signs the survivors |

Two sets of t parties then meet in an honest one, who reveals shares for one attempt of a round. A
colluder may tell its shares of an attempt and take part in the next, whatever the server does.

Survivors of an attempt are at least t, so at least t − c honest parties are in every sum. With one
honest party in it a sum hides nothing from the others together; the default threshold leaves two
where the number of parties allows it. Derivations: docs/guarantees/secure-sum.md.
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar, Final, TypeAlias

from voile.core.errors import InvalidInput, Refused

# --- Who shares a mask with whom: everybody with everybody, or with a few neighbours -------------
# With many parties a few neighbours do (Bell and others, 2020). The parties who advertised keys are
# put on a circle in an order that follows from a hash of all these keys, so everybody has
# contributed to it and nobody alone has chosen it; each has the k/2 before it and the k/2 after it
# as neighbours. That can fail, with a probability that `Sparse.failure` bounds:
#
# - privacy: so many neighbours of one party collude that they hold enough shares of its secrets, or
#   the honest survivors fall apart into groups whose sums could be told from each other;
# - completion: of some party's neighbours too few are left to give its secrets back.


PRIVACY_RISK: Final = 2.0**-40
COMPLETION_RISK: Final = 2.0**-20


@dataclass(frozen=True)
class GraphFailure:
    """Upper bounds on the probability that a round fails; see the module."""

    privacy: float
    completion: float


@dataclass(frozen=True)
class Complete:
    """Everybody shares a mask with everybody; thresholds alone decide."""

    def neighbours(self, name: str, roster: Sequence[str], seed: bytes) -> tuple[str, ...]:  # noqa: ARG002
        return tuple(other for other in roster if other != name)


@dataclass(frozen=True)
class Sparse:
    """Everybody shares masks with k neighbours.

    Args:
        degree: k, even.
        shares: how many of a party's shares, of those with its neighbours and its own, give its
            secrets back.
        dropouts: how many parties may fall out of a round, for the probabilities.
    """

    degree: int
    shares: int
    dropouts: int

    def __post_init__(self) -> None:
        if self.degree < 2 or self.degree % 2 or not 1 <= self.shares <= self.degree:
            raise InvalidInput(
                "a sparse graph has an even number of neighbours, and needs from one share to as "
                f"many as there are neighbours; found {self.degree} and {self.shares}"
            )
        if self.dropouts < 0:
            raise InvalidInput(f"dropouts are counted from 0, found {self.dropouts}")

    def neighbours(self, name: str, roster: Sequence[str], seed: bytes) -> tuple[str, ...]:
        """In order of names; all others where there are no more than k."""
        if len(roster) <= self.degree + 1:
            return Complete().neighbours(name, roster, seed)
        circle = _circle(tuple(roster), seed)
        place, half = circle.index(name), self.degree // 2
        found = {circle[(place + step) % len(circle)] for step in range(-half, half + 1)}
        return tuple(other for other in roster if other in found and other != name)

    def failure(self, parties: int, colluders: int) -> GraphFailure:
        """For so many parties that are asked, the worst over when the drop-outs happen."""
        worst = [
            self._failure(parties - early, colluders, self.dropouts - early)
            for early in range(min(self.dropouts, parties - 1) + 1)
        ]
        return GraphFailure(max(w.privacy for w in worst), max(w.completion for w in worst))

    def _failure(self, parties: int, colluders: int, dropouts: int) -> GraphFailure:
        degree = min(self.degree, parties - 1)
        captured = parties * _at_least(parties - 1, colluders, degree, self.shares)
        apart = 0.0 if degree < self.degree else _apart(parties, colluders + dropouts, degree // 2)
        # Of a party that fell out its own share is gone, too: neighbours alone must do.
        lost = parties * _at_least(parties - 1, dropouts, degree, degree - self.shares + 1)
        return GraphFailure(min(1.0, captured + apart), min(1.0, lost))


def sparse_for(parties: int, *, colluders: int, dropouts: int) -> Sparse:
    """The fewest neighbours that fail with at most 2^-40 (privacy) and 2^-20 (completion).

    Of these the largest number of shares, which is the safest.
    """
    for degree in range(2, parties, 2):
        for shares in range(degree, 0, -1):
            found = Sparse(degree, shares, dropouts)
            failure = found.failure(parties, colluders)
            if failure.completion > COMPLETION_RISK:
                continue
            if failure.privacy <= PRIVACY_RISK:
                return found
            break  # fewer shares make it only worse
    raise InvalidInput(
        f"no sparse graph keeps {parties} parties safe from {colluders} colluders with {dropouts} "
        "drop-outs; use the complete graph"
    )


@lru_cache(maxsize=8)
def _circle(roster: tuple[str, ...], seed: bytes) -> tuple[str, ...]:
    def key(name: str) -> bytes:
        return hashlib.sha256(b"voile circle\n" + seed + name.encode()).digest()

    return tuple(sorted(roster, key=key))


def _at_least(others: int, marked: int, drawn: int, count: int) -> float:
    """Of `drawn` among `others`, of which some are marked, at least `count` are marked."""
    marked = min(marked, others)
    ways = sum(
        math.comb(marked, k) * math.comb(others - marked, drawn - k)
        for k in range(max(count, 0), min(marked, drawn) + 1)
    )
    return ways / math.comb(others, drawn)


def _apart(parties: int, missing: int, run: int) -> float:
    """Somewhere on the circle so many in a row are missing: without that nothing falls apart."""
    missing = min(missing, parties)
    return parties * (math.comb(missing, run) / math.comb(parties, run))


# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _ThreatModel(ABC):
    colluders: int = 1
    threshold: int | None = None

    def __post_init__(self) -> None:
        if type(self.colluders) is not int or self.colluders < 1:
            raise InvalidInput(
                f"at least one party must be assumed to collude, found {self.colluders!r}"
            )

    def least(self, parties: int) -> int:
        """The smallest threshold that is allowed; it exceeds the number of colluders."""
        return (parties + self.colluders) // 2 + 1

    def threshold_of(self, parties: int) -> int:
        """How many parties have to survive an attempt; `Refused` where the model does not hold."""
        least = self.least(parties)
        chosen = self.threshold
        if chosen is None:
            chosen = max(least, min(self.colluders + 2, parties))
        if type(chosen) is not int or not least <= chosen <= parties:
            raise Refused(
                f"{self.name}: of {parties} parties with {self.colluders} colluding at least "
                f"{least} must survive a round, and at most all can; found a threshold of "
                f"{chosen}. Declare fewer colluders, ask more parties or leave the threshold out"
            )
        return chosen

    @property
    @abstractmethod
    def name(self) -> str:
        """In words."""

    @property
    def stated(self) -> dict[str, int | str | None]:
        """What was declared, by name; stands for the model in agreements, so it never changes."""
        return {"server": self.name, "colluders": self.colluders, "threshold": self.threshold}

    def assumptions(self, parties: int) -> tuple[str, ...]:
        """What the secrecy of single vectors rests on, in words."""
        threshold = self.threshold_of(parties)
        honest = threshold - self.colluders
        are = "one is" if honest == 1 else "ones are"
        return (
            f"secure sum: {self.name}, together with at most {self.colluders} of {parties} "
            f"parties; at least {threshold} survive a round, so at least "
            f"{honest} honest {are} in every sum",
        )


@dataclass(frozen=True)
class HonestButCurious(_ThreatModel):
    """The server follows the protocol, and looks at all it gets with its colluding parties.

    Args:
        colluders: how many parties at most tell the server all they know; at least 1.
        threshold: how many survive a round at least; the smallest sensible one if None.
        graph: who shares masks with whom.
    """

    graph: Complete | Sparse = field(default_factory=Complete)
    signs_survivors: ClassVar[bool] = False

    @property
    def name(self) -> str:
        return "an honest-but-curious server"

    def shares_needed(self, parties: int) -> int:
        """How many shares give a secret back."""
        graph = self.graph
        return graph.shares if isinstance(graph, Sparse) else self.threshold_of(parties)

    @property
    def stated(self) -> dict[str, int | str | None]:
        graph = self.graph
        return super().stated | (vars(graph) if isinstance(graph, Sparse) else {})

    def assumptions(self, parties: int) -> tuple[str, ...]:
        said = super().assumptions(parties)
        if not isinstance(self.graph, Sparse):
            return said
        risk = self.graph.failure(parties, self.colluders)
        return (
            *said,
            f"masks between {self.graph.degree} neighbours each: fails with a probability of at "
            f"most {risk.privacy:.1e} a round, as long as at most {self.graph.dropouts} drop out",
            "the server does not begin a round anew once parties have begun to unmask it",
        )


@dataclass(frozen=True)
class ActiveServer(_ThreatModel):
    """The server may send anything to anybody; parties reveal shares for one signed list only.

    Every party shares masks with every other: in a sparse graph such a server could choose who
    meets whom.

    Args:
        colluders: how many parties at most work for the server; at least 1.
        threshold: how many survive a round at least; the smallest sensible one if None.
    """

    graph: ClassVar[Complete] = Complete()
    signs_survivors: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return "an active server"

    def shares_needed(self, parties: int) -> int:
        """How many shares give a secret back."""
        return self.threshold_of(parties)


ThreatModel: TypeAlias = HonestButCurious | ActiveServer
