"""Measures that judge explanations.

- are two sets of explanations alike? `cosine_similarity`, `r_squared`
- does a model imitate another? `fidelity`
- does one party differ from the others? `divergence_score` (NSDS), `jensen_shannon`
- are predictions good, and compared with what? `judge_classes`,
  `judge_numbers`, `is_constant`, `spread_of`, `log_losses`, `brier_scores`

They are computed from exact data: on protected rows their results are for the custodian only.
"""

from voile.evaluation.measures import (
    ClassJudgement,
    PredictionQuality,
    brier_scores,
    cosine_similarity,
    divergence_score,
    fidelity,
    importance_shares,
    is_constant,
    jensen_shannon,
    judge_classes,
    judge_numbers,
    log_losses,
    r_squared,
    spread_of,
)

__all__ = [
    "ClassJudgement",
    "PredictionQuality",
    "brier_scores",
    "cosine_similarity",
    "divergence_score",
    "fidelity",
    "importance_shares",
    "is_constant",
    "jensen_shannon",
    "judge_classes",
    "judge_numbers",
    "log_losses",
    "r_squared",
    "spread_of",
]
