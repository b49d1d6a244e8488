"""Measures that judge explanations.

- are two sets of explanations alike? `compare`, and one by one: `l2_distance`, `cosine_similarity`,
  `feature_agreement`, `sign_agreement`, `rank_correlation`, `kendall_fidelity`, `r_squared`
- do they say what the model does? `faithfulness`, `faithfulness_difference`, `deletion`,
  `insertion`, `infidelity`, `fidelity`
- does one party differ from the others? `divergence_score` (NSDS), `jensen_shannon`
- is a ranked list good? `ndcg`, `recall`
- are predictions good, and compared with what? `judge_classes`,
  `judge_numbers`, `is_constant`, `spread_of`, `log_losses`, `brier_scores`
- do repeated runs say the same? `summarise`, `compare_to`, `cohens_d`
- a published score, with its flaw: `privacy_adjusted_score` (PAAS)

They are computed from exact data: on protected rows their results are for the custodian only.
"""

from voile.evaluation.agreement import (
    Agreement,
    compare,
    cosine_similarity,
    feature_agreement,
    kendall_fidelity,
    l2_distance,
    r_squared,
    rank_correlation,
    sign_agreement,
)
from voile.evaluation.divergence import divergence_score, importance_shares, jensen_shannon
from voile.evaluation.faithfulness import (
    deletion,
    faithfulness,
    faithfulness_difference,
    fidelity,
    infidelity,
    insertion,
)
from voile.evaluation.predictions import (
    ClassJudgement,
    Judged,
    brier_scores,
    is_constant,
    judge_classes,
    judge_numbers,
    log_losses,
    spread_of,
)
from voile.evaluation.privacy_adjusted import privacy_adjusted_score
from voile.evaluation.ranking import ndcg, recall
from voile.evaluation.runs import PairedTest, RunSummary, cohens_d, compare_to, summarise

__all__ = [
    "Agreement",
    "ClassJudgement",
    "Judged",
    "PairedTest",
    "RunSummary",
    "brier_scores",
    "cohens_d",
    "compare",
    "compare_to",
    "cosine_similarity",
    "deletion",
    "divergence_score",
    "faithfulness",
    "faithfulness_difference",
    "feature_agreement",
    "fidelity",
    "importance_shares",
    "infidelity",
    "insertion",
    "is_constant",
    "jensen_shannon",
    "judge_classes",
    "judge_numbers",
    "kendall_fidelity",
    "l2_distance",
    "log_losses",
    "ndcg",
    "privacy_adjusted_score",
    "r_squared",
    "rank_correlation",
    "recall",
    "sign_agreement",
    "spread_of",
    "summarise",
]
