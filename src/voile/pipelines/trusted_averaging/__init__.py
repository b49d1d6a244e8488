"""Trusted averaging: FedXChain, with a guarantee, real sums and weights that everybody can check.

- plan and train: `plan_trusted_averaging`, `train_trusted`; what comes of it is a `TrustedModel`
- what parties agree on about trust: `TrustRule`, `DivergenceMeasure`
- how it went: `TrustHistory`, `Score`, `outliers`, `drifts`, `trust_figures`
- one round: `TrustedRound` over `ComparisonRows`, with any way of summing that takes `Total`; or
  `VerifiedRound`, in which the server sees updates and believes nothing that is reported
"""

from voile.pipelines.trusted_averaging.figures import Oddity, drifts, outliers, trust_figures
from voile.pipelines.trusted_averaging.history import Score, TrustHistory
from voile.pipelines.trusted_averaging.importance import ImportanceDesign, OverOwnRows, shares_of
from voile.pipelines.trusted_averaging.plan import (
    EXACT,
    REPORTED,
    TrustedModel,
    TrustedPlan,
    plan_trusted_averaging,
    train_trusted,
)
from voile.pipelines.trusted_averaging.protocol import ComparisonRows, Total, TrustedRound
from voile.pipelines.trusted_averaging.tasks import STAGE
from voile.pipelines.trusted_averaging.trust import (
    DivergenceMeasure,
    TrustRule,
    Weights,
    consistency_of,
    rewards_of,
    weights_of,
)
from voile.pipelines.trusted_averaging.verified import VerifiedRound

__all__ = [
    "EXACT",
    "REPORTED",
    "STAGE",
    "ComparisonRows",
    "DivergenceMeasure",
    "ImportanceDesign",
    "Oddity",
    "OverOwnRows",
    "Score",
    "Total",
    "TrustHistory",
    "TrustRule",
    "TrustedModel",
    "TrustedPlan",
    "TrustedRound",
    "VerifiedRound",
    "Weights",
    "consistency_of",
    "drifts",
    "outliers",
    "plan_trusted_averaging",
    "rewards_of",
    "shares_of",
    "train_trusted",
    "trust_figures",
    "weights_of",
]
