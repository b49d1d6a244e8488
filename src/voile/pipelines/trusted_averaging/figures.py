"""How trusted rounds went, as plain values for an artefact or a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from voile.pipelines.trusted_averaging.evidence import EvidenceHistory, alarms_of, lines_of
from voile.pipelines.trusted_averaging.history import Score, TrustHistory
from voile.pipelines.trusted_averaging.plan import TrustedModel
from voile.pipelines.trusted_averaging.tasks import STAGE

# --- Who explains its data unlike the others, and whose explanations move away -------------------
# Both compare with medians, which fewer than half of the parties (or of a party's own rounds)
# cannot move. They name parties for people to look at; nothing is done to anybody because of it.


SPREADS: Final = 3.5
"""How many spreads from the median count as odd (Iglewicz and Hoaglin)."""
SMALLEST: Final = 0.02
"""Differences of divergence below this are never odd, however well everybody agrees."""
_NORMAL: Final = 1.4826
"""Median absolute deviation of a normal law, to its standard deviation."""


@dataclass(frozen=True)
class Oddity:
    """A party that stands out in a round: its divergence, and the one that would be usual."""

    round: int
    party: str
    divergence: float
    usual: float

    def __str__(self) -> str:
        return (
            f"{self.party} in round {self.round}: divergence {self.divergence:.3f}, usual "
            f"{self.usual:.3f}"
        )


def outliers(history: TrustHistory) -> tuple[Oddity, ...]:
    """Parties whose divergence in a round lies far above the median of that round."""
    found = []
    for number in (row.round for row in history.common):
        now = {
            name: score.divergence
            for name, rows in history.scores.items()
            for score in rows
            if score.round == number
        }
        limit, usual = _limit(list(now.values()))
        found += [Oddity(number, n, d, usual) for n, d in sorted(now.items()) if d > limit]
    return tuple(found)


def drifts(history: TrustHistory, *, before: int = 3) -> tuple[Oddity, ...]:
    """Parties whose divergence lies far above that of all their own earlier rounds, from the
    round on in which it does so twice in a row."""
    found = []
    for name, rows in sorted(history.scores.items()):
        high = []
        for place, score in enumerate(rows):
            limit, usual = _limit([row.divergence for row in rows[:place]])
            high.append(place >= before and score.divergence > limit)
            if len(high) > 1 and all(high[-2:]) and not (len(high) > 2 and high[-3]):
                found.append(Oddity(score.round, name, score.divergence, usual))
    return tuple(sorted(found, key=lambda oddity: (oddity.round, oddity.party)))


def _limit(values: Sequence[float]) -> tuple[float, float]:
    """Above which a value is odd, and what is usual."""
    if not len(values):
        return np.inf, 0.0
    usual = float(np.median(values))
    spread = _NORMAL * float(np.median(np.abs(np.asarray(values) - usual)))
    return usual + max(SPREADS * spread, SMALLEST), usual


# --------------------------------------------------------------------------------------------------


def trust_figures(trained: TrustedModel) -> dict[str, Any]:
    """What a report shows of trust, as plain values."""
    history, rule = trained.history, trained.plan.rule
    evidence = EvidenceHistory.from_memory(trained.results[STAGE].memory)
    return {
        "rule": {
            "accuracy": rule.accuracy,
            "alignment": rule.alignment,
            "consistency": rule.consistency,
            "tau": rule.tau,
            "divergence": rule.divergence.value,
        },
        "verified": trained.plan.verified,
        "parties": {name: [_plain(s) for s in rows] for name, rows in history.scores.items()},
        "importance": dict(trained.importance),
        "equal_weights_in_rounds": list(history.equal),
        "outliers": [str(odd) for odd in outliers(history)],
        "drifts": [str(odd) for odd in drifts(history)],
        "rounds": _rounds(trained),
        "weighted_down": lines_of(evidence),
        "alarms": alarms_of(evidence),
        "stage": STAGE,
    }


def _rounds(trained: TrustedModel) -> list[dict[str, Any]]:
    """How each round weighed its updates, and the weight of each party that took part."""
    history = trained.history
    evidence = EvidenceHistory.from_memory(trained.results[STAGE].memory)
    uncounted = [each.round for each in evidence.rounds if not each.counted]
    numbers = sorted({*(row.round for row in history.common), *uncounted})
    said = dict.fromkeys(history.equal, "equal") | dict.fromkeys(uncounted, "none")
    return [
        {
            "round": number,
            "weights": said.get(number, "by trust"),
            "parties": {
                name: float(score.weight)
                for name, rows in history.scores.items()
                for score in rows
                if score.round == number
            },
        }
        for number in numbers
    ]


def _plain(score: Score) -> dict[str, float]:
    return {name: float(value) for name, value in score._asdict().items()}
