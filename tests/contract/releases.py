"""Every kind of release, each as a case for the suite: add yours to `CASES`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from experiments.lib.recommenders.ratings import PrivateLiking

from tests.protecting import explained_row_of, row_of
from tests.unit.pipelines import table_networks
from tests.unit.recommenders import examples as shops
from tests.unit.release.statistics import examples as statistics
from voile.assess.members_count import OpenThreshold, PrivateMembersCount
from voile.attribution import ExactShapley
from voile.core.explanation import Explanation
from voile.core.guarantee import Adversary, Guarantee, Protected, ProtectedUnit, Relation
from voile.core.schema import Categories, Feature, Label, Numbers, Schema
from voile.models import Box, wrap
from voile.pipelines.tables import NetworkModel, OutputHead, TableRecords
from voile.privacy.sensitivity import Norm, Sensitivity
from voile.recommenders import (
    Autoencoder,
    ByLabels,
    LabelImportance,
    NoisyProfileOfUser,
    PrivateGram,
    PrivateNetwork,
    PrivatePopularity,
    TopLabelsOfUser,
    autoencoder_from,
)
from voile.release import (
    PUBLIC,
    ByExplainer,
    ClippedRelease,
    Level,
    NoisyValues,
    Origin,
    OverItself,
    PostProcessed,
    PrivateBackground,
    PrivateBackgroundShapley,
    PrivateClusters,
    PrivateGlobalImportance,
    PrivateHistograms,
    PrivateInteractions,
    PrivateTopFeatures,
    Release,
    Role,
    TopFeaturesOfRow,
    at_level,
    trained_privately,
)
from voile.training import arrays_of, perceptron
from voile.training.private import PrivateSteps

SCHEMA = Schema(
    "clinic",
    (
        Feature("age", Numbers(0.0, 100.0), semantic="person"),
        Feature("sex", Categories(("f", "m")), semantic="person"),
        Feature("dose", Numbers(0, 10, whole=True), semantic="treatment"),
    ),
)
DRAW = np.random.default_rng(4)
PEOPLE = np.column_stack(
    [DRAW.uniform(0, 100, 40), DRAW.integers(0, 2, 40), DRAW.integers(0, 11, 40)]
)


def risk(rows: Any) -> Any:
    """A probability with interactions between all three features."""
    score = rows[:, 0] / 50 - rows[:, 1] * rows[:, 2] / 5 + rows[:, 2] * rows[:, 0] / 400 - 0.5
    return 1 / (1 + np.exp(-score))


MODEL = wrap(risk, outputs=Box(0, 1), output_names=["risk"], digest="risk of the tests")
TRAINED = trained_privately(
    Guarantee(
        epsilon=1.0,
        delta=1e-6,
        protected=Protected(ProtectedUnit.ROW, Relation.BLANK_ONE, "training rows"),
        against=(Adversary.PUBLIC,),
        computational=False,
        mechanism="output perturbation",
        composition="one release",
    )
)


@dataclass(frozen=True)
class Case:
    """A release, and what it is called with.

    Args:
        build: makes it; two calls give equal releases with the same protected rows.
        rows: what `draw` takes.
        count: how many rows that is, as `cost` counts them.
        values_vary: whether two draws give other values (with probability 1 − 1e-9 or more).
        is_choice: values and notes are a choice out of few, which may or may not repeat.
    """

    build: Callable[[], Release[Any]]
    rows: Any
    count: int
    values_vary: bool = True
    is_choice: bool = False


def background(relation: Relation, model: Any = MODEL, **settings: Any) -> Release[Explanation]:
    return PrivateBackgroundShapley(
        model,
        PEOPLE,
        schema=SCHEMA,
        protected=Protected(ProtectedUnit.ROW, relation, "people 1"),
        epsilon=1.0,
        delta=1e-5,
        origins=[PUBLIC],
        **settings,
    )


def importance(source: Any, **settings: Any) -> Release[Explanation]:
    return PrivateGlobalImportance(
        source,
        protected=Protected(ProtectedUnit.ROW, Relation.BLANK_ONE, "people 1"),
        epsilon=1.0,
        delta=1e-5,
        origins=[TRAINED],
        model=MODEL.digest,
        name="exact",
        **settings,
    )


def by_explainer() -> ByExplainer:
    explainer = ExactShapley(MODEL, PEOPLE[:5], schema=SCHEMA)
    return ByExplainer(explainer, Box(0, 1), SCHEMA)


MANY = Schema("many", tuple(Feature(f"feature {i}", Numbers(0.0, 1.0)) for i in range(18)))


def many_players() -> Release[Explanation]:
    draw = np.random.default_rng(5)
    weights = draw.normal(size=18)
    return PrivateBackgroundShapley(
        wrap(lambda rows: np.tanh(rows @ weights), outputs=Box(-1, 1), digest="many"),
        draw.random((20, 18)),
        schema=MANY,
        protected=Protected(ProtectedUnit.ROW, Relation.REPLACE_ONE, "people 1"),
        epsilon=1.0,
        delta=1e-5,
        origins=[PUBLIC],
        pairs_a_player=2,
    )


CASES: dict[str, Case] = {
    "post-processed, public": Case(
        lambda: PostProcessed(
            ExactShapley(MODEL, PEOPLE[:5], schema=SCHEMA), [PUBLIC], MODEL.digest, "exact"
        ),
        PEOPLE[:3],
        3,
        values_vary=False,
    ),
    "post-processed, trained privately": Case(
        lambda: PostProcessed(
            ExactShapley(MODEL, PEOPLE[:5], schema=SCHEMA), [TRAINED, PUBLIC], MODEL.digest, "exact"
        ),
        PEOPLE[:3],
        3,
        values_vary=False,
    ),
    "private background, replace one": Case(
        lambda: background(Relation.REPLACE_ONE), PEOPLE[:3], 3
    ),
    "private background, blank one, groups": Case(
        lambda: background(Relation.BLANK_ONE, groups=SCHEMA.semantic_groups()), PEOPLE[:1], 1
    ),
    "private background, many players": Case(many_players, np.full((2, 18), 0.25), 2),
    "importance, by an explainer": Case(lambda: importance(by_explainer()), PEOPLE, len(PEOPLE)),
    "importance, in parts": Case(
        lambda: importance(by_explainer(), parts=("north", "south")),
        {"north": PEOPLE[:10], "south": PEOPLE[10:]},
        len(PEOPLE),
    ),
    "importance, over itself": Case(
        lambda: importance(OverItself(MODEL, SCHEMA)), PEOPLE, len(PEOPLE)
    ),
}

OWN_ROWS: dict[str, Any] = {
    "schema": SCHEMA,
    "protected": explained_row_of("people"),
    "origins": [TRAINED, PUBLIC],
    "model": MODEL.digest,
    "name": "exact",
}
"""What releases about the explained rows themselves have in common."""


def exact() -> ExactShapley:
    return ExactShapley(MODEL, PEOPLE[:5], schema=SCHEMA)


def declared(norm: Norm, unit: ProtectedUnit) -> Sensitivity:
    return Sensitivity(value=0.5, norm=norm, unit=unit, relation=Relation.REPLACE_ONE)


CASES |= {
    "clipped": Case(
        lambda: ClippedRelease(exact(), bound=0.5, epsilon=1.0, delta=1e-5, **OWN_ROWS),
        PEOPLE[:3],
        3,
    ),
    "top features, signed": Case(
        lambda: PrivateTopFeatures(
            exact(),
            k=2,
            output_width=1.0,
            epsilon=1.0,
            delta=1e-5,
            **OWN_ROWS | {"protected": row_of("people")},
        ),
        PEOPLE,
        40,
        is_choice=True,
    ),
    "top features, pure and unsigned": Case(
        lambda: PrivateTopFeatures(
            exact(),
            k=1,
            output_width=1.0,
            epsilon=1.0,
            delta=0.0,
            signed=False,
            **OWN_ROWS | {"protected": row_of("people", Relation.REPLACE_ONE)},
        ),
        PEOPLE,
        40,
        is_choice=True,
    ),
    "top features of a row": Case(
        lambda: TopFeaturesOfRow(exact(), k=1, epsilon=1.0, **OWN_ROWS),
        PEOPLE[:3],
        3,
        is_choice=True,
    ),
    "noisy values, Gaussian": Case(
        lambda: NoisyValues(
            declared(Norm.L2, ProtectedUnit.ROW),
            epsilon=1.0,
            delta=1e-5,
            protected=row_of("people", Relation.REPLACE_ONE),
            feature_names=SCHEMA.feature_names,
            name="ones",
            model=MODEL.digest,
        ),
        np.ones((4, 3)),
        4,
    ),
    "noisy values, Laplace, row by row": Case(
        lambda: NoisyValues(
            declared(Norm.L1, ProtectedUnit.EXPLAINED_ROW),
            epsilon=1.0,
            delta=0.0,
            protected=explained_row_of("people"),
            feature_names=SCHEMA.feature_names,
            name="ones",
            model=MODEL.digest,
        ),
        np.ones((4, 3)),
        4,
    ),
}

CASES |= {
    "interactions over a private background": Case(
        lambda: PrivateInteractions(
            MODEL,
            PEOPLE,
            schema=SCHEMA,
            protected=row_of("people"),
            epsilon=1.0,
            delta=1e-5,
            origins=[TRAINED, PUBLIC],
        ),
        PEOPLE[:3],
        3,
    ),
    "summary level": Case(
        lambda: at_level(
            Level.SUMMARY,
            role=Role.READER,
            model=MODEL,
            background=PrivateBackground(
                PEOPLE,
                protected=row_of("people"),
                delta=1e-5,
            ),
            schema=SCHEMA,
            origins=[PUBLIC],
        ),
        PEOPLE[:1],
        1,
    ),
}

ONCE: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5}


def histograms(relation: Relation) -> PrivateHistograms:
    protected = row_of("people", relation)
    return PrivateHistograms(PEOPLE, SCHEMA, protected=protected, size=20, **ONCE)


def clusters(relation: Relation) -> PrivateClusters:
    return PrivateClusters(PEOPLE, SCHEMA, protected=row_of("people", relation), count=2, **ONCE)


LABELLED = replace(SCHEMA, label=Label("ill", Categories(("no", "yes"))))


def members_count(
    relation: Relation, labels: Any = None, *, origin: Origin = PUBLIC
) -> PrivateMembersCount:
    """Of forty people, about half of whom have the label that the network expects."""
    network = perceptron(len(LABELLED.column_names), (), 2, np.random.default_rng(0))
    network.layers[-1].bias[:] = (0.0, 1.0)
    model = NetworkModel.from_arrays(LABELLED, OutputHead.of_label(LABELLED), arrays_of(network))
    labels = PEOPLE[:, 1] if labels is None else labels
    members = TableRecords(LABELLED, LABELLED.clamp(PEOPLE), labels, np.isnan(PEOPLE[:, 0]))
    return PrivateMembersCount(
        protected=row_of("people", relation),
        epsilon=1.0,
        delta=0.0,
        origins=[origin],
        model=model,
        members=members,
        threshold=OpenThreshold(value=-0.5, above=0.05, rows=100),
    )


ARTEFACTS: dict[str, Case] = {
    "histograms, blank one": Case(lambda: histograms(Relation.BLANK_ONE), None, 1),
    "histograms, add or remove one": Case(lambda: histograms(Relation.ADD_OR_REMOVE_ONE), None, 1),
    "clusters, replace one": Case(lambda: clusters(Relation.REPLACE_ONE), None, 1, is_choice=True),
}
"""What is made once from protected records: a release, though not of an explanation."""
COUNTS: dict[str, Case] = {
    f"count of members, {relation}": Case(partial(members_count, relation), None, 1)
    for relation in (Relation.BLANK_ONE, Relation.REPLACE_ONE)
}
"""What attacks release about members: figures, of which nothing is made any more."""
COUNTS |= {
    f"private statistics, {kind}": Case(partial(statistics.known, kind), None, 1)
    for kind in ("tables", "moments", "calibration")
}
"""What additive models are made from; the promise about all three is joint."""
COUNTS |= {
    "network of a table": Case(lambda: table_networks.network(table_networks.records(30)), None, 1),
    "scores of a network": Case(table_networks.known_scores, None, 1),
}
"""What networks of one table are made from."""

SHOP = shops.shop(1000)
MOMENTS = shops.moments(SHOP)
USERS: dict[str, Any] = {"protected": shops.USER, "delta": shops.DELTA}
TOLD: dict[str, Any] = {
    "protected": shops.USER,
    "epsilon": 1.0,
    "origins": [MOMENTS.origin],
    "model": "shop",
}
STEPS = PrivateSteps(
    clipping_norm=0.3, noise_multiplier=2.0, sampling_rate=0.1, steps=3, rows=len(SHOP)
)


def profile() -> ByLabels:
    return ByLabels(autoencoder_from(MOMENTS), "genre")


ABOUT_USERS: dict[str, Case] = {
    "top labels of a user": Case(
        lambda: TopLabelsOfUser(profile(), k=1, **TOLD),
        [SHOP.history_at(place) for place in range(3)],
        3,
        is_choice=True,
    ),
    "noisy profile of a user": Case(
        lambda: NoisyProfileOfUser(profile(), **TOLD, delta=shops.DELTA),
        [SHOP.history_at(place) for place in range(3)],
        3,
    ),
    "importance of labels": Case(
        lambda: LabelImportance(profile(), users=len(SHOP), **TOLD, delta=shops.DELTA), SHOP, 1
    ),
}
"""What recommenders say about users to others."""
ITEM_SIDE: dict[str, Case] = {
    "popularity of items": Case(lambda: PrivatePopularity(SHOP, MOMENTS.budget, **USERS), None, 1),
    "Gram matrix of items": Case(
        lambda: PrivateGram(SHOP, MOMENTS.budget, **USERS, chosen=MOMENTS.popularity), None, 1
    ),
    "ratings of items": Case(
        lambda: PrivateLiking(SHOP, bounds=(1.0, 5.0), epsilon=1.0, **USERS), None, 1
    ),
    "network of histories": Case(
        lambda: PrivateNetwork(
            SHOP,
            Autoencoder(4),
            **USERS,
            chosen=MOMENTS.popularity,
            head=10,
            privacy=STEPS,
        ),
        None,
        1,
    ),
}
"""What recommenders are made of; the promise about all of it is joint (`ItemMoments`)."""
