"""Explanations with a guarantee. Which question do you have?

Training rows are to be protected: `PostProcessed`, of a model trained with differential privacy.

The explained person is to be protected, toward a third party: `TopFeaturesOfRow` (names of
features), `ClippedRelease` (the whole vector, mostly noise).

What matters most to a private population, by name: `PrivateTopFeatures`.

Values that you bring, with a sensitivity that you declare: `NoisyValues`.

Explanations of several silos, noised at the source: `FederatedAggregate` of `Silo`s.

What every release offers: `Release` (`cost`, `guarantees`, `preview`, `draw`); `Identity`,
`Preview`, `RowsAre`, `NOT_CHARGED`.

Where artefacts come from: `Origin`, `PUBLIC`, `trained_on`, `trained_privately`.
"""

from voile.release.clipped import ClippedRelease
from voile.release.contract import NOT_CHARGED, Identity, Preview, Release, RowsAre
from voile.release.federated import FederatedAggregate, Silo
from voile.release.noisy_values import NoisyValues
from voile.release.origin import PUBLIC, Origin, trained_on, trained_privately
from voile.release.post_processed import ALL_PUBLIC, PostProcessed
from voile.release.top_features import PrivateTopFeatures
from voile.release.top_features_of_row import TopFeaturesOfRow

__all__ = [
    "ALL_PUBLIC",
    "NOT_CHARGED",
    "PUBLIC",
    "ClippedRelease",
    "FederatedAggregate",
    "Identity",
    "NoisyValues",
    "Origin",
    "PostProcessed",
    "Preview",
    "PrivateTopFeatures",
    "Release",
    "RowsAre",
    "Silo",
    "TopFeaturesOfRow",
    "trained_on",
    "trained_privately",
]
