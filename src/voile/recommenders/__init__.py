"""Recommenders whose item side is paid for once; recommending and explaining is free ever after.

Data:
    a public `Catalogue` (`read_catalogue`), protected `Interactions` (`read_interactions`).

Learn the item side with user-level privacy:
    `MomentsBudget` says by a frozen rule how a budget is spent; `PrivatePopularity` and
    `PrivateGram` are the two releases, `ItemMoments` both of them. `voile.app.recommend`
    charges them. By DP-SGD, one record a user: `PrivateNetwork` of an `Autoencoder` or a
    `CollaborativeFilter`.

Recommend, from a user's own history:
    `recommender_from`, `autoencoder_from` (EASE), `factors_from`.

Explain:
    to the user herself, free: `for_herself` with `ByItems`, `ByLabels`, `ScoresOnly`; networks by
    any explainer of `voile.attribution` on `score_by_items` (gradients included) or
    `score_by_labels`;
    to others, charged: `TopLabelsOfUser`, `NoisyProfileOfUser`, `LabelImportance`.
"""

from voile.recommenders.budget import MomentsBudget
from voile.recommenders.explaining import (
    ByItems,
    ByLabels,
    ReasonsByLabels,
    ReasonsOfNetwork,
    ScoresOnly,
    for_herself,
    score_by_items,
    score_by_labels,
)
from voile.recommenders.models import (
    LinearRecommender,
    PopularityRecommender,
    Recommender,
    autoencoder_from,
    factors_from,
    recommender_from,
)
from voile.recommenders.moments import (
    ItemGram,
    ItemMoments,
    ItemPopularity,
    PrivateGram,
    PrivatePopularity,
    joint_guarantee,
)
from voile.recommenders.networks import (
    Autoencoder,
    CollaborativeFilter,
    NetworkRecommender,
    PrivateNetwork,
    TrainedNetwork,
    network_recommender,
    steps_within,
)
from voile.recommenders.shop import (
    Catalogue,
    Interactions,
    catalogue_of,
    interactions_of,
    read_catalogue,
    read_interactions,
)
from voile.recommenders.third_party import (
    LabelImportance,
    NoisyProfileOfUser,
    TopLabelsOfUser,
    refuse_items,
)

__all__ = [
    "Autoencoder",
    "ByItems",
    "ByLabels",
    "Catalogue",
    "CollaborativeFilter",
    "Interactions",
    "ItemGram",
    "ItemMoments",
    "ItemPopularity",
    "LabelImportance",
    "LinearRecommender",
    "MomentsBudget",
    "NetworkRecommender",
    "NoisyProfileOfUser",
    "PopularityRecommender",
    "PrivateGram",
    "PrivateNetwork",
    "PrivatePopularity",
    "ReasonsByLabels",
    "ReasonsOfNetwork",
    "Recommender",
    "ScoresOnly",
    "TopLabelsOfUser",
    "TrainedNetwork",
    "autoencoder_from",
    "catalogue_of",
    "factors_from",
    "for_herself",
    "interactions_of",
    "joint_guarantee",
    "network_recommender",
    "read_catalogue",
    "read_interactions",
    "recommender_from",
    "refuse_items",
    "score_by_items",
    "score_by_labels",
    "steps_within",
]
