"""Trust, weights and rewards of FedXChain (III-C to III-E), as pure functions of public scalars.

For party i in a round, with accuracy a_i and divergence D_i of its importance shares P_i from the
common ones:

    T_i = 0.5·a_i + 0.3·exp(−D_i) + 0.2·consistency_i        in [0, 1]
    λ_i ∝ T_i·max(0, 1 − τ·D_i)                              equal if that leaves nobody
    reward_i = pot·T_i / Σ T                                  over those whose update counted

The paper leaves open what consistency is, what τ is and what a reward is. Here consistency is
1 − min(1, s/0.1) with s the standard deviation of the accuracy over the last five rounds; a party
seen once is consistent. Its λ may be negative (1 − τ·NSDS is not cut at 0), and its D is
unbounded: one feature that nobody else uses and a share of 1e-10 give D > 20.

Everything here is recomputed by each node from the record of a round: nobody is told a weight.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from numpy.typing import ArrayLike

from voile.core.errors import InvalidInput
from voile.evaluation import divergence_score, jensen_shannon
from voile.federation.stored_text import stored_as

WINDOW: Final = 5
"""Rounds over which a party's accuracy should hold still."""
TOLERATED_SPREAD: Final = 0.1
"""Standard deviation of the accuracy at which nothing is left of consistency."""


@stored_as("DivergenceMeasure")
class DivergenceMeasure(StrEnum):
    """How far one party's importance shares lie from the common ones."""

    KULLBACK_LEIBLER = "Kullback-Leibler"
    """As published; unbounded."""
    JENSEN_SHANNON = "Jensen-Shannon"
    """Symmetric, and at most ln 2: no party can be moved far by one feature."""

    def between(self, own: ArrayLike, common: ArrayLike) -> float:
        if self is DivergenceMeasure.KULLBACK_LEIBLER:
            return max(0.0, divergence_score(own, common))
        return max(0.0, jensen_shannon(own, common))


@stored_as("TrustRule")
@dataclass(frozen=True)
class TrustRule:
    """What all parties have agreed on about trust.

    Args:
        accuracy, alignment, consistency: what the three parts of trust count; together 1.
        tau: how much divergence costs in weight; at divergence 1/tau nothing is left.
        divergence: which one.
        largest_share: no party gets more of the weight than this, or one over the number of
            parties where that is more: a sum in which one weight is nearly all shows one update.
    """

    accuracy: float = 0.5
    alignment: float = 0.3
    consistency: float = 0.2
    tau: float = 0.5
    divergence: DivergenceMeasure = DivergenceMeasure.KULLBACK_LEIBLER
    largest_share: float = 0.5

    def __post_init__(self) -> None:
        parts = (self.accuracy, self.alignment, self.consistency)
        if not all(0 <= part <= 1 for part in parts) or not math.isclose(sum(parts), 1):
            raise InvalidInput(f"the parts of trust are shares that add up to 1, found {parts}")
        if not 0 <= self.tau < math.inf or not 0 < self.largest_share <= 1:
            raise InvalidInput(
                f"expected tau of at least 0 and a largest share in (0, 1], found {self.tau} and "
                f"{self.largest_share}"
            )

    def trust(self, accuracies: Sequence[float], divergence: float) -> float:
        """Of a party with these accuracies so far, the latest last."""
        now = min(max(accuracies[-1], 0.0), 1.0)
        steady = consistency_of(accuracies)
        return (
            self.accuracy * now
            + self.alignment * math.exp(-max(divergence, 0.0))
            + self.consistency * steady
        )

    def worth(self, trust: float, divergence: float) -> float:
        """The weight of a party before all are made to add up to 1."""
        return trust * max(0.0, 1.0 - self.tau * divergence)


def consistency_of(accuracies: Sequence[float]) -> float:
    """1 for an accuracy that holds still over the last rounds, 0 for one that moves by 0.1."""
    recent = [min(max(each, 0.0), 1.0) for each in accuracies[-WINDOW:]]
    if not recent:
        raise InvalidInput("expected at least one accuracy")
    # Every node computes this for everybody in every round; an array for five numbers is slow.
    mean = math.fsum(recent) / len(recent)
    spread = math.sqrt(math.fsum((each - mean) ** 2 for each in recent) / len(recent))
    return 1.0 - min(1.0, spread / TOLERATED_SPREAD)


@dataclass(frozen=True)
class Weights:
    """How much the update of each party counts; they add up to 1.

    Args:
        equal: whether the rule left nobody, or one party nearly all, and everybody counts alike.
    """

    shares: Mapping[str, float]
    equal: bool


def weights_of(rule: TrustRule, trusts: Mapping[str, float], found: Mapping[str, float]) -> Weights:
    """λ of everybody, from trust and divergence by name."""
    worth = {name: rule.worth(trusts[name], found[name]) for name in sorted(trusts)}
    total, count = math.fsum(worth.values()), len(worth)
    if not count:
        raise InvalidInput("expected at least one party")
    most = max(rule.largest_share, 1 / count)
    if not total > 0 or max(worth.values()) / total > most:
        return Weights(dict.fromkeys(worth, 1 / count), equal=True)
    return Weights({name: each / total for name, each in worth.items()}, equal=False)


def rewards_of(trusts: Mapping[str, float], pot: float = 1.0) -> dict[str, float]:
    """The pot of a round, shared by trust among those whose update counted."""
    if not 0 <= pot < math.inf:
        raise InvalidInput(f"a pot is a finite number of at least 0, found {pot}")
    total = math.fsum(trusts.values())
    if not total > 0:
        return dict.fromkeys(trusts, pot / max(len(trusts), 1))
    return {name: pot * (trust / total) for name, trust in trusts.items()}
