"""The models that can be trained, by name; each with a frozen rule of how.

From moments: everything is made from two released sums, so another model of them is free. From
histories: popularity is released first, then a network is trained on the head by DP-SGD.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from voile.core.choices import ExtensibleKinds
from voile.core.errors import InvalidInput
from voile.core.guarantee import Adversary, Guarantee, Protected
from voile.privacy.accounting import PrivacyLoss
from voile.privacy.calibration import Reading
from voile.privacy.events import Composed, PrivacyEvent
from voile.recommenders.budget import SLACK, MomentsBudget, check_grid
from voile.recommenders.models import Recommender, factors_from, recommender_from
from voile.recommenders.moments import ItemMoments, ItemPopularity
from voile.recommenders.networks import (
    Autoencoder,
    CollaborativeFilter,
    NetworkKind,
    NetworkRecommender,
    TrainedNetwork,
    network_recommender,
    steps_within,
)
from voile.recommenders.shop import Catalogue
from voile.release import Origin, trained_privately
from voile.training.private import PrivateSteps

DEFAULT: Final = "moments"


@dataclass(frozen=True)
class FromMoments:
    """A model of released moments: post-processing, so it costs nothing besides them.

    Args:
        make: from moments to a model; there may be popularity alone (`gram is None`).
    """

    make: Callable[[ItemMoments], Recommender]


@dataclass(frozen=True)
class FromHistories:
    """A network of histories on the head, by DP-SGD with one record a user.

    Args:
        network: what is trained.
        rate: of Adam.
        clipping_norm: of what one user adds to a step.
        sampling_rate: the share of users in a step, expected.
        steps: how many.
    """

    network: NetworkKind
    rate: float
    clipping_norm: float
    sampling_rate: float
    steps: int

    def plan(
        self, budget: MomentsBudget, *, epsilon: float, delta: float, read: Reading | None
    ) -> PrivateSteps:
        """Steps that cost at most (epsilon, delta) together with popularity (`steps_within`)."""
        if budget.popularity_only:
            raise InvalidInput(
                f"users times mu is {budget.signal:.3g}, too little for a network: train the model "
                f"{DEFAULT!r}, which knows popularity alone at such a budget"
            )
        first, steps = budget.popularity_noise.event(), self.at_noise(1.0, budget)
        share = delta * (1 - 2 * SLACK)  # the rest pays for the grid of popularity's sampler
        return steps_within(first, steps, epsilon=epsilon, delta=share, read=read)

    def at_noise(self, noise: float, budget: MomentsBudget) -> PrivateSteps:
        return PrivateSteps(
            clipping_norm=self.clipping_norm,
            noise_multiplier=noise,
            sampling_rate=self.sampling_rate,
            steps=self.steps,
            rows=budget.users,
            relation=budget.relation,
        )


def factors_or_popularity(moments: ItemMoments) -> Recommender:
    """Matrix factorisation, or popularity where the budget was too small for more."""
    return recommender_from(moments) if moments.gram is None else factors_from(moments)


RecommenderKind: TypeAlias = FromMoments | FromHistories
MODELS: Final[Mapping[str, RecommenderKind]] = ExtensibleKinds(
    {
        DEFAULT: FromMoments(recommender_from),
        "mf": FromMoments(factors_or_popularity),
        "ncf": FromHistories(CollaborativeFilter((16,)), 0.01, 0.3, 0.1, 150),
        "autoencoder": FromHistories(Autoencoder(16), 0.03, 0.1, 0.5, 100),
    },
    "voile.recommenders",
)
"""By name; other packages add theirs as entry points (docs/extending.md)."""


@dataclass(frozen=True, eq=False)
class HistoryNetwork:
    """Popularity and a network of histories, and what they promise together.

    What `ItemMoments` is to the closed form. All that is made from it is free.

    Args:
        catalogue: public.
        budget: how noisy popularity is, and how many items have a place in the network.
        kind: what was trained.
        steps: by which steps.
        popularity, network: paid for.
        guarantee: joint, of both.
    """

    catalogue: Catalogue
    budget: MomentsBudget
    kind: FromHistories
    steps: PrivateSteps
    popularity: ItemPopularity
    network: TrainedNetwork
    guarantee: Guarantee

    def __post_init__(self) -> None:
        for each in self.artefacts:
            each.check_paid()

    @property
    def origin(self) -> Origin:
        return trained_privately(self.guarantee)

    @property
    def head(self) -> NDArray[np.int64]:
        """Places of the items with a score of their own."""
        return self.popularity.head(self.budget.head)

    @property
    def artefacts(self) -> tuple[ItemPopularity, TrainedNetwork]:
        """What was paid for, in order."""
        return self.popularity, self.network

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        """What each of them cost."""
        return self.budget.popularity_noise.event(), self.steps.event()

    @property
    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """The same by name."""
        return {"popularity": self.popularity.values, "network": self.network.values}

    @property
    def model(self) -> NetworkRecommender:
        return network_recommender(
            self.kind.network,
            self.network,
            catalogue=self.catalogue,
            chosen=self.popularity,
            head=self.budget.head,
        )


def network_guarantee(
    budget: MomentsBudget, steps: PrivateSteps, *, protected: Protected, delta: float
) -> Guarantee:
    """What popularity and the steps promise together."""
    noise = budget.popularity_noise
    both = Composed((noise.event(), steps.event()))
    epsilon = PrivacyLoss().compose(both).epsilon(delta * (1 - SLACK))
    check_grid([noise], epsilon, delta)
    return Guarantee(
        epsilon=epsilon,
        delta=delta,
        protected=protected,
        against=(Adversary.PUBLIC,),
        computational=True,
        mechanism="Gaussian noise on popularity of items, then DP-SGD, one record a user",
        composition="both together, by privacy-loss distributions",
        public_facts=("catalogue", "number of users", "schedule of training"),
        assumptions=(
            *noise.sensitivity.conditions,
            "all lines of one user make one record",
            "running time is not observed",
            "whoever adds up the interactions sees them: the guarantee is not against the server",
        ),
    )


def model_of(kind: RecommenderKind, made: Any) -> Recommender:
    """The model of what was paid for."""
    if isinstance(kind, FromMoments):
        return kind.make(made)
    model: Recommender = made.model
    return model
