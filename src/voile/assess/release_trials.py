"""Every release that is charged, as a trial: the release itself on invented records.

What is kept of a release is its kind, its settings and its price; what it computes with is replaced
by what was invented (`voile.assess.invented`). The event does not depend on the number of records,
so few are enough; where it promises much to each, several are tried together.
"""

from __future__ import annotations

from typing import Final

from voile.assess import (
    background_trials,
    explanation_trials,
    figure_trials,
    network_trials,
    statistics_trials,
    user_trials,
)
from voile.assess.assessment import Arrangement, AuditTrial
from voile.assess.claims import group_size
from voile.assess.release_canary import ReleaseKind
from voile.core.errors import Refused
from voile.core.guarantee import RowPart
from voile.pipelines.score_table import PrivateScoreTable
from voile.pipelines.shapley_guided_noise import ChargedRate
from voile.privacy.events import PrivacyEvent
from voile.recommenders import (
    LabelImportance,
    NoisyProfileOfUser,
    PrivateGram,
    PrivatePopularity,
    TopLabelsOfUser,
)
from voile.release import (
    ClippedRelease,
    NoisyValues,
    PrivateBackgroundShapley,
    PrivateClusters,
    PrivateGlobalImportance,
    PrivateHistograms,
    PrivateInteractions,
    PrivateTopFeatures,
    TopFeaturesOfRow,
)
from voile.release.charged import ChargedRelease

_SOME: Final = explanation_trials.MOST_TOGETHER
KINDS: Final = (
    ReleaseKind(PrivateInteractions, background_trials.interactions, _SOME),
    ReleaseKind(PrivateBackgroundShapley, background_trials.background, _SOME),
    ReleaseKind(PrivateGlobalImportance, explanation_trials.importance, _SOME),
    ReleaseKind(PrivateTopFeatures, explanation_trials.top_features, _SOME),
    ReleaseKind(PrivateHistograms, explanation_trials.histograms, _SOME),
    ReleaseKind(PrivateClusters, explanation_trials.clusters, _SOME),
    ReleaseKind(ClippedRelease, explanation_trials.clipped, 1),
    ReleaseKind(TopFeaturesOfRow, explanation_trials.names_of_row, 1),
    ReleaseKind(NoisyValues, explanation_trials.noisy_values, _SOME),
    ReleaseKind(TopLabelsOfUser, user_trials.top_labels, 1),
    ReleaseKind(NoisyProfileOfUser, user_trials.noisy_profile, 1),
    ReleaseKind(LabelImportance, user_trials.label_importance, _SOME),
    ReleaseKind(PrivatePopularity, user_trials.moments, _SOME, user_trials.at_half_noise),
    ReleaseKind(PrivateGram, user_trials.moments, _SOME, user_trials.at_half_noise),
    *(
        ReleaseKind(kind, statistics_trials.statistics, _SOME, statistics_trials.at_half_noise)
        for kind in statistics_trials.KINDS
    ),
    ReleaseKind(
        PrivateScoreTable, network_trials.score_tables, _SOME, network_trials.scores_at_half_noise
    ),
    ReleaseKind(ChargedRate, figure_trials.rates, _SOME, figure_trials.rate_at_half_noise),
)
"""All kinds of release that cost anything; of two that fit, the first."""


def release_trial(
    name: str, release: ChargedRelease, charged: PrivacyEvent | None = None
) -> AuditTrial:
    """A release as it is, or will be, charged; refused for kinds that nobody knows to audit.

    Args:
        charged: what stands on record, where the release was built from that; else its own cost.
    """
    kind = next((kind for kind in KINDS if isinstance(release, kind.release)), None)
    if kind is None:
        raise Refused(f"{type(release).__name__} cannot be audited: there is no canary for it")
    build, halved = kind.build, kind.halved
    event = release.cost(1) if charged is None else charged
    most = 1 if release.part is RowPart.EXPLAINED else kind.most_together
    together = group_size(event, most)

    def arrangements(half: bool) -> tuple[Arrangement, ...]:
        return build(halved(release) if half else release, together)

    return AuditTrial(name, event, arrangements, release.delta or 1e-6, together)
