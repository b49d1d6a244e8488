"""How trusted rounds went, as plain values for an artefact or a page."""

from __future__ import annotations

from typing import Any

from voile.pipelines.trusted_averaging.history import Score
from voile.pipelines.trusted_averaging.plan import TrustedModel
from voile.pipelines.trusted_averaging.tasks import STAGE
from voile.pipelines.trusted_averaging.watching import drifts, outliers


def trust_figures(trained: TrustedModel) -> dict[str, Any]:
    """What a report shows of trust, as plain values."""
    history, rule = trained.history, trained.plan.rule
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
        "stage": STAGE,
    }


def _plain(score: Score) -> dict[str, float]:
    return {name: float(value) for name, value in score._asdict().items()}
