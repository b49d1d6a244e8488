"""How trusted rounds went, as plain values for an artefact or a page."""

from __future__ import annotations

from typing import Any

from voile.pipelines.trusted_averaging.evidence import EvidenceHistory, alarms_of, lines_of
from voile.pipelines.trusted_averaging.history import Score
from voile.pipelines.trusted_averaging.plan import TrustedModel
from voile.pipelines.trusted_averaging.tasks import STAGE
from voile.pipelines.trusted_averaging.watching import drifts, outliers


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
