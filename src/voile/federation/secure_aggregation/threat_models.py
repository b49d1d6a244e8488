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

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from voile.core.errors import InvalidInput, Refused
from voile.federation.secure_aggregation.graphs import Complete, Sparse


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
        return (
            f"secure sum: {self.name}, together with at most {self.colluders} of {parties} "
            f"parties; at least {threshold} survive a round, so at least "
            f"{threshold - self.colluders} honest ones are in every sum",
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
