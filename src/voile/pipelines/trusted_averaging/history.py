"""What is known of every party after each round, as arrays that a checkpoint keeps.

A party that leaves keeps its record and finds it when it comes back, after whatever restarts. One
that comes later is trusted like the least trusted of those who are there: a new name is no way to
get rid of a bad record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from voile.federation.aggregators import Memory
from voile.pipelines.trusted_averaging.trust import WINDOW, TrustRule

_PARTY: Final = "party/"
_COMMON: Final = "common importance"
_EQUAL: Final = "rounds with equal weights"


class Score(NamedTuple):
    """One party in one round in which its update counted."""

    round: int
    accuracy: float
    divergence: float
    trust: float
    weight: float
    reward: float


class Common(NamedTuple):
    """The trust-weighted importance shares of a round."""

    round: int
    shares: tuple[float, ...]


@dataclass(frozen=True)
class TrustHistory:
    """Scores of each party, the common importance of each round, and which rounds fell back."""

    scores: Mapping[str, tuple[Score, ...]] = field(default_factory=dict)
    common: tuple[Common, ...] = ()
    equal: tuple[int, ...] = ()

    @classmethod
    def from_memory(cls, memory: Memory) -> TrustHistory:
        """The inverse of `as_memory`."""
        scores = {
            name.removeprefix(_PARTY): tuple(Score(int(r[0]), *map(float, r[1:])) for r in rows)
            for name, rows in memory.items()
            if name.startswith(_PARTY)
        }
        rows = memory.get(_COMMON, np.zeros((0, 1)))
        common = tuple(Common(int(row[0]), tuple(map(float, row[1:]))) for row in rows)
        return cls(scores, common, tuple(int(n) for n in memory.get(_EQUAL, np.zeros(0))))

    def as_memory(self) -> Memory:
        found = {
            f"{_PARTY}{name}": np.array(rows, dtype=np.float64)
            for name, rows in sorted(self.scores.items())
            if rows
        }
        if self.common:
            found[_COMMON] = np.array([[row.round, *row.shares] for row in self.common])
        if self.equal:
            found[_EQUAL] = np.array(self.equal, dtype=np.float64)
        return found

    def after(
        self, scores: Mapping[str, Score], common: Sequence[float], *, equal: bool
    ) -> TrustHistory:
        """With one more round."""
        (number,) = {score.round for score in scores.values()}
        names = sorted({*self.scores, *scores})
        grown = {
            name: (*self.scores.get(name, ()), *([scores[name]] if name in scores else []))
            for name in names
        }
        return TrustHistory(
            grown,
            (*self.common, Common(number, tuple(map(float, common)))),
            (*self.equal, number) if equal else self.equal,
        )

    def accuracies(self, name: str) -> tuple[float, ...]:
        """Of the rounds before, as many as consistency looks at besides the present one."""
        return tuple(score.accuracy for score in self.scores.get(name, ())[-(WINDOW - 1) :])

    def trusts(self, names: Sequence[str]) -> dict[str, float]:
        """Of the last round that each took part in; in the first round all count alike."""
        known = {name: rows[-1].trust for name, rows in self.scores.items() if rows}
        least = min(known.values(), default=1.0)
        return {name: known.get(name, least) for name in names}

    def last(self) -> dict[str, Score]:
        """The scores of the last round."""
        if not self.common:
            return {}
        number = self.common[-1].round
        return {n: rows[-1] for n, rows in self.scores.items() if rows and rows[-1].round == number}


def recomputed_trust(
    rule: TrustRule, accuracies: Sequence[float], accuracy: float, divergence: float
) -> float:
    """Trust after this round, from what stands in the record."""
    return rule.trust([*accuracies, accuracy], divergence)
