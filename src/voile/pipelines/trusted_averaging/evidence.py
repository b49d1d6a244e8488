"""What a server that sees updates knows of each party, and the weights that follow from it.

Single rounds mislead: in private mode one update is mostly noise. So parties are judged by the sum
S_i of their updates since the start, each first cut to the median length of its round:

    d_i = 2·AUC − 1 of the model at start + S_i, on the public rows
    c_i = cosine of S_i and the sum of the server's reference updates

Both are divided by the median party's and cut to [0, 1]. Weights follow the cosine alone, because
d_i leaves honest parties with skewed labels next to none; rewards follow the product. While the
median party is not better than random directions (`LEVEL`), nothing can be told apart, and all
count alike. Scores of the last round that told parties apart are carried over. An update that is
`LONGEST` times as long as the median one, or shorter than `SHORTEST` of it, counts nothing.

The log holds all numbers that weights and rewards are computed from, so anyone can compute them
again with `shares_from`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from scipy.special import betaincinv

from voile.federation.aggregators import Memory
from voile.pipelines.trusted_averaging.trust import TrustRule, rewards_of

LEVEL: Final = 0.01
"""How often the median of parties that send random directions may pass for one that learns."""
DIRECTIONS: Final = 200
"""Random directions that a round compares with, from a public seed."""
LONGEST: Final = 2.5
SHORTEST: Final = 0.1
"""Lengths that count, in median lengths. Chosen on Adult and generated data."""
CLEARLY: Final = 0.1
"""A party raises an alarm if both its scores are below this share of the median party's."""
_PARTY: Final = "evidence/"
_ROUNDS: Final = "evidence of rounds"


class PartyEvidence(NamedTuple):
    """One party in one round.

    Args:
        length: of its update, in median lengths of the round.
        discrimination: d_i.
        cosine: c_i.
        scored, matched: d_i and c_i over the median party's, in [0, 1], as they counted; 1 while
            nothing can be told apart.
    """

    round: int
    length: float
    discrimination: float
    cosine: float
    scored: float
    matched: float

    @property
    def fits(self) -> bool:
        """Whether the length is one that counts."""
        return SHORTEST <= self.length <= LONGEST

    @property
    def alarming(self) -> bool:
        """Whether its length does not count, or both scores say that it works against the rest."""
        return not self.fits or max(self.scored, self.matched) < CLEARLY

    @property
    def reason(self) -> str:
        """Why it was weighted down; empty if it was not."""
        if self.length > LONGEST:
            return f"its update was {self.length:.1f} times as long as the median one"
        if self.length < SHORTEST:
            return "its update was zero or tiny"
        if self.scored * self.matched >= 0.5:
            return ""
        return (
            f"its updates so far rank public rows {self.discrimination:+.2f} (2·AUC − 1) and agree "
            f"with the reference by {self.cosine:+.2f}; of the median party this is "
            f"{self.scored:.2f} and {self.matched:.2f}"
        )


class RoundEvidence(NamedTuple):
    """What holds for all parties of a round.

    Args:
        needed: what the median d must exceed to differ from random directions at `LEVEL`.
        told: whether parties can be told apart, in this round or by scores carried over.
        steps, clipping_norm, rate: of the reference update; a norm of infinity clips nothing.
        rows: public rows in each of its steps.
        counted: whether the round moved the model.
    """

    round: int
    needed: float
    median_discrimination: float
    median_cosine: float
    told: bool
    steps: int
    clipping_norm: float
    rate: float
    rows: int
    counted: bool


class EvidenceHistory(NamedTuple):
    """Of all parties and rounds."""

    parties: Mapping[str, tuple[PartyEvidence, ...]]
    rounds: tuple[RoundEvidence, ...]

    @classmethod
    def from_memory(cls, memory: Memory) -> EvidenceHistory:
        parties = {
            name.removeprefix(_PARTY): tuple(
                PartyEvidence(int(r[0]), *map(float, r[1:])) for r in rows
            )
            for name, rows in memory.items()
            if name.startswith(_PARTY)
        }
        rounds = tuple(
            RoundEvidence(
                int(r[0]), float(r[1]), float(r[2]), float(r[3]), bool(r[4]), int(r[5]),
                float(r[6]), float(r[7]), int(r[8]), bool(r[9]),
            )
            for r in memory.get(_ROUNDS, np.zeros((0, 10)))
        )  # fmt: skip
        return cls(parties, rounds)

    def as_memory(self) -> Memory:
        found = {
            f"{_PARTY}{name}": np.array(rows, dtype=np.float64)
            for name, rows in sorted(self.parties.items())
        }
        return {**found, _ROUNDS: np.array(self.rounds, dtype=np.float64)}

    def after(self, now: Mapping[str, PartyEvidence], about: RoundEvidence) -> EvidenceHistory:
        names = sorted({*self.parties, *now})
        grown = {n: (*self.parties.get(n, ()), *([now[n]] if n in now else [])) for n in names}
        return EvidenceHistory(grown, (*self.rounds, about))

    @property
    def is_told(self) -> bool:
        return bool(self.rounds) and self.rounds[-1].told

    def carried(self, name: str) -> tuple[float, float]:
        """Scores of the last round; a party that is new begins with the least."""
        if not self.is_told:
            return 1.0, 1.0
        if name in self.parties:
            return self.parties[name][-1].scored, self.parties[name][-1].matched
        least = min((rows[-1] for rows in self.parties.values()), key=lambda e: e.scored)
        return least.scored, least.matched


def needed_quantile(parties: int) -> float:
    """Of random directions: half of so many pass it together with probability `LEVEL`."""
    half = (parties + 1) // 2
    return 1.0 - float(betaincinv(half, parties - half + 1, LEVEL))


def over_median(values: Mapping[str, float]) -> dict[str, float]:
    """Each over the median, in [0, 1]; the median must be above 0."""
    middle = float(np.median(list(values.values())))
    return {name: min(max(value / middle, 0.0), 1.0) for name, value in values.items()}


def capped(worth: Mapping[str, float], most: float) -> dict[str, float] | None:
    """Shares of at most `most`; None if too few have any worth to share it out like that.

    What is cut off goes to the others in proportion. Of two parties each gets one half.
    """
    positive = {name: each for name, each in worth.items() if each > 0}
    if len(positive) * most < 1 - 1e-12:
        return None
    shares = dict.fromkeys(worth, 0.0)
    left, free = 1.0, dict(positive)
    while free:
        total = math.fsum(free.values())
        over = [name for name, each in free.items() if left * each / total > most]
        if not over:
            return shares | {name: left * each / total for name, each in free.items()}
        for name in over:
            shares[name] = most
            del free[name]
        left = 1.0 - math.fsum(shares.values())
    return shares


class RoundShares(NamedTuple):
    """What each party's update counted in a round, and what the party earned."""

    weights: Mapping[str, float]
    rewards: Mapping[str, float]


def shares_from(
    rule: TrustRule,
    found: Mapping[str, PartyEvidence],
    trusts: Mapping[str, float],
    divergences: Mapping[str, float],
    *,
    told: bool,
    pot: float = 1.0,
) -> RoundShares | None:
    """Weights and rewards of a round; None if too few updates count.

    Args:
        rule: agreed on.
        found, trusts, divergences: of each party, as they stand in the log.
        told: whether parties can be told apart; else all updates that fit count alike.
        pot: what is shared out.
    """

    def counted(name: str, by_scores: float) -> float:
        return found[name].fits * (by_scores if told else 1.0)

    worth = {
        n: counted(n, rule.worth(trusts[n], divergences[n]) * each.matched)
        for n, each in found.items()
    }
    weights = capped(worth, max(rule.largest_share, 1 / len(worth)))
    if weights is None:
        return None
    earned = {n: counted(n, trusts[n] * each.matched * each.scored) for n, each in found.items()}
    return RoundShares(weights, rewards_of(earned if any(earned.values()) else weights, pot))


def lines_of(history: EvidenceHistory) -> list[str]:
    """Who was weighted down in which rounds, and why in the last of them."""
    found = []
    for name, rows in history.parties.items():
        low = [each for each in rows if each.reason]
        if low:
            found.append(f"{name} in {_listed([e.round for e in low])}: {low[-1].reason}")
    return found


def alarms_of(history: EvidenceHistory) -> list[str]:
    """Parties that counted next to nothing in the last round they took part in."""
    last = {name: rows[-1] for name, rows in history.parties.items()}
    return [
        f"{name} was weighted down in round {each.round}: {each.reason}. Its rows or labels differ "
        "much from the public ones, it works wrongly, or it attacks. Look at it before you use this"
        for name, each in last.items()
        if each.alarming
    ]


def _listed(rounds: Sequence[int]) -> str:
    return f"round{'s' if len(rounds) > 1 else ''} {', '.join(map(str, rounds))}"
