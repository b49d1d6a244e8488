"""Noise where private attributes contribute: FedSVA with guarantees that hold.

Train across parties with privacy for declared columns: `GuidedFacts`, `plan_guided_noise` (a
`GuidedPlan`, with a level of its own for each client), and what comes of it, a
`GuidedModel`. What a client does is a `GuidedTask`.

Ask how much private attributes contribute: `AttributeGroups`; `free_rate` of a model that is
private already; `ChargedRate` of protected rows, a release that is charged once and gives a
`ContributionRate`; `contribution_rate` of any worth.

Choose by it: `DeclaredLevels`, between which a rate may choose, and `ChosenLevel`, which carries
the weakest level's guarantee jointly with the rate.
"""

from voile.pipelines.shapley_guided_noise.contribution import (
    AttributeGroups,
    ChargedRate,
    ContributionRate,
    contribution_rate,
    free_rate,
)
from voile.pipelines.shapley_guided_noise.levels import ChosenLevel, DeclaredLevels
from voile.pipelines.shapley_guided_noise.plan import (
    STAGE,
    GuidedFacts,
    GuidedModel,
    GuidedPlan,
    GuidedTask,
    plan_guided_noise,
)

__all__ = [
    "STAGE",
    "AttributeGroups",
    "ChargedRate",
    "ChosenLevel",
    "ContributionRate",
    "DeclaredLevels",
    "GuidedFacts",
    "GuidedModel",
    "GuidedPlan",
    "GuidedTask",
    "contribution_rate",
    "free_rate",
    "plan_guided_noise",
]
