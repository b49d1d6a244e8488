"""Explanations with a guarantee. Which question do you have?

Training rows are to be protected: `PostProcessed`, of a model trained with differential privacy.

Background rows are to be protected: `PrivateBackgroundShapley`, paid for by explanation, or
`PrivateHistograms` (rows of a `SyntheticBackground`), paid for once.

A population is to be protected: `PrivateGlobalImportance`, by `ByExplainer` or `OverItself`.

The explained person is to be protected, toward a third party: `TopFeaturesOfRow` (names of
features), `ClippedRelease` (the whole vector, mostly noise).

What matters most to a private population, by name: `PrivateTopFeatures`.

Values that you bring, with a sensitivity that you declare: `NoisyValues`.

How much detail for whom: `at_level` gives the release of a `Level` for a `Role`, over public rows
or a `PrivateBackground`; `derived` a coarser view for free; `PrivateInteractions` adds pairs;
`PrivateClusters`, `public_clusters` and `declared_clusters` (`Clusters`) say who plays together.

Make what was released better, for free: `projected` (`PublicTotal`, `ReleasedTotal`), `agreeing`,
`within`, `shrunk`.

Explanations of several silos, noised at the source: `FederatedAggregate` of `Silo`s.

What every release offers: `Release` (`cost`, `guarantees`, `preview`, `draw`); `ReleaseIdentity`,
`Preview`, `Codec`. What those that cost something share: `voile.release.charged`.

Where artefacts come from: `Origin`, `PUBLIC`, `trained_on`, `trained_privately`.
"""

from voile.core.transparency import Level, Role
from voile.release.background import PrivateBackgroundShapley
from voile.release.clipped import ClippedRelease
from voile.release.contract import Codec, Preview, Release, ReleaseIdentity
from voile.release.feature_clusters import (
    Clusters,
    PrivateClusters,
    declared_clusters,
    public_clusters,
)
from voile.release.federated import FederatedAggregate, Silo
from voile.release.importance import PrivateGlobalImportance
from voile.release.levels import PrivateBackground, PrivateInteractions, at_level, derived
from voile.release.noisy_values import NoisyValues
from voile.release.origin import PUBLIC, Origin, PostProcessed, trained_on, trained_privately
from voile.release.population import ByExplainer, OverItself
from voile.release.refining import (
    PublicTotal,
    ReleasedTotal,
    agreeing,
    projected,
    shrunk,
    within,
)
from voile.release.synthetic import PrivateHistograms, SyntheticBackground
from voile.release.top_features import PrivateTopFeatures, TopFeaturesOfRow

__all__ = [
    "PUBLIC",
    "ByExplainer",
    "ClippedRelease",
    "Clusters",
    "Codec",
    "FederatedAggregate",
    "Level",
    "NoisyValues",
    "Origin",
    "OverItself",
    "PostProcessed",
    "Preview",
    "PrivateBackground",
    "PrivateBackgroundShapley",
    "PrivateClusters",
    "PrivateGlobalImportance",
    "PrivateHistograms",
    "PrivateInteractions",
    "PrivateTopFeatures",
    "PublicTotal",
    "Release",
    "ReleaseIdentity",
    "ReleasedTotal",
    "Role",
    "Silo",
    "SyntheticBackground",
    "TopFeaturesOfRow",
    "agreeing",
    "at_level",
    "declared_clusters",
    "derived",
    "projected",
    "public_clusters",
    "shrunk",
    "trained_on",
    "trained_privately",
    "within",
]
