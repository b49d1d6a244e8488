"""Every release that is charged, as a rehearsal: the release itself on invented records.

What is kept of a release is its kind, its settings and its price; what it computes with is replaced
by what was invented (`voile.attacks.invented`). The event does not depend on the number of records,
so few are enough; where it promises much to each, several are tried together.
"""

from __future__ import annotations

from typing import Final

from voile.attacks import (
    background_rehearsals,
    figure_rehearsals,
    history_rehearsals,
    moment_rehearsals,
    population_rehearsals,
    row_rehearsals,
    statistics_rehearsals,
    user_rehearsals,
)
from voile.attacks.claims import group_size
from voile.attacks.rehearsal import Arrangement, Rehearsal
from voile.attacks.release_kind import ReleaseKind
from voile.core.errors import Refused
from voile.core.guarantee import RowPart
from voile.pipelines.shapley_guided_noise import ChargedRate
from voile.privacy.events import PrivacyEvent
from voile.recommenders import (
    LabelImportance,
    NoisyProfileOfUser,
    PrivateGram,
    PrivateLiking,
    PrivateNetwork,
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

_SOME: Final = population_rehearsals.MOST_TOGETHER
KINDS: Final = (
    ReleaseKind(PrivateInteractions, background_rehearsals.interactions, _SOME),
    ReleaseKind(PrivateBackgroundShapley, background_rehearsals.background, _SOME),
    ReleaseKind(PrivateGlobalImportance, population_rehearsals.importance, _SOME),
    ReleaseKind(PrivateTopFeatures, population_rehearsals.top_features, _SOME),
    ReleaseKind(PrivateHistograms, population_rehearsals.histograms, _SOME),
    ReleaseKind(PrivateClusters, population_rehearsals.clusters, _SOME),
    ReleaseKind(ClippedRelease, row_rehearsals.clipped, 1),
    ReleaseKind(TopFeaturesOfRow, row_rehearsals.names_of_row, 1),
    ReleaseKind(NoisyValues, row_rehearsals.noisy_values, _SOME),
    ReleaseKind(TopLabelsOfUser, user_rehearsals.top_labels, 1),
    ReleaseKind(NoisyProfileOfUser, user_rehearsals.noisy_profile, 1),
    ReleaseKind(LabelImportance, user_rehearsals.label_importance, _SOME),
    ReleaseKind(PrivateLiking, user_rehearsals.liking, _SOME),
    ReleaseKind(
        PrivatePopularity, moment_rehearsals.moments, _SOME, moment_rehearsals.at_half_noise
    ),
    ReleaseKind(PrivateGram, moment_rehearsals.moments, _SOME, moment_rehearsals.at_half_noise),
    *(
        ReleaseKind(
            kind, statistics_rehearsals.statistics, _SOME, statistics_rehearsals.at_half_noise
        )
        for kind in statistics_rehearsals.KINDS
    ),
    ReleaseKind(PrivateNetwork, history_rehearsals.histories, 1, history_rehearsals.at_half_noise),
    ReleaseKind(ChargedRate, figure_rehearsals.rates, _SOME, figure_rehearsals.rate_at_half_noise),
)
"""All kinds of release that cost anything; of two that fit, the first."""


def rehearse_release(
    name: str, release: ChargedRelease, charged: PrivacyEvent | None = None
) -> Rehearsal:
    """A release as it is, or will be, charged; refused for kinds that nobody knows to rehearse.

    Args:
        charged: what stands on record, where the release was built from that; else its own cost.
    """
    kind = next((kind for kind in KINDS if isinstance(release, kind.release)), None)
    if kind is None:
        raise Refused(f"{type(release).__name__} cannot be rehearsed: there is no canary for it")
    build, halved = kind.build, kind.halved
    event = release.cost(1) if charged is None else charged
    most = 1 if release.part is RowPart.EXPLAINED else kind.most_together
    together = group_size(event, most)

    def arrangements(half: bool) -> tuple[Arrangement, ...]:
        return build(halved(release) if half else release, together)

    return Rehearsal(name, event, arrangements, release.delta or 1e-6, together)
