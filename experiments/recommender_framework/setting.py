"""Data, methods and one run: a fresh split, everything trained anew, every figure by name."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.lib.evaluation.agreement import kendall_fidelity
from experiments.lib.evaluation.privacy_adjusted import privacy_adjusted_score
from experiments.lib.recommenders import public_data
from experiments.lib.recommenders.measuring import (
    FullRanking,
    RankingProtocol,
    Split,
    measure,
    measure_each,
    per_user_holdout,
)
from experiments.lib.recommenders.protocols import RatedOnly, SampledNegatives
from experiments.lib.recommenders.ratings import PrivateLiking
from experiments.lib.recommenders.twins import exact_autoencoder, exact_factors, exact_popularity
from experiments.recommender_framework.private_baselines import (
    AlsSettings,
    as_published,
    local_popularity,
    private_als,
)
from voile.core.guarantee import Protected, ProtectedUnit, Relation
from voile.evaluation import cosine_similarity
from voile.recommenders import (
    Autoencoder,
    CollaborativeFilter,
    Interactions,
    ItemMoments,
    LinearRecommender,
    MomentsBudget,
    PopularityRecommender,
    PrivateGram,
    PrivateNetwork,
    PrivatePopularity,
    Recommender,
    factors_from,
    joint_guarantee,
    network_recommender,
    recommender_from,
    steps_within,
)
from voile.recommenders.explaining import recommended
from voile.release.charged import paid_artefact
from voile.training.private import PrivateSteps

DELTA = 1e-6
EXPLAINED = 300
ALS_GRID = (AlsSettings(4, 2, 5.0), AlsSettings(4, 2, 200.0), AlsSettings(4, 3, 30.0))
"""The best of these on the very split that is reported: a favour to the baseline."""
Figures = dict[str, float]
Array = NDArray[np.float64]


@dataclass(frozen=True)
class _Unpublished:
    """In the place of a ledger: utility is measured here, and nothing that is drawn leaves."""

    release: PrivateNetwork

    def paid_answer(self, *_: object) -> bytes:
        return self.release.codec.pack(self.release.draw())


@dataclass(frozen=True)
class DataSet:
    """One data set of the experiment.

    Args:
        kind: of labels that explanations are about.
        large: the Gram matrix of the whole catalogue is not inverted: 14,000 items are 1.6 GB.
    """

    name: str
    load: Callable[[], Interactions]
    kind: str
    published: str
    epsilons: tuple[float, ...]
    large: bool = False


DATA = (
    DataSet("MovieLens 100K", public_data.movielens_100k, "genre", "", (0.5, 1.0, 2.0, 5.0)),
    DataSet(
        "MovieLens 1M", public_data.movielens_1m, "genre", "MovieLens 25M", (0.5, 1.0, 2.0, 5.0)
    ),
    DataSet("Amazon", public_data.amazon, "category", "Amazon Electronics", (1.0, 5.0)),
    DataSet("Yelp", public_data.yelp, "category", "Yelp Business", (1.0, 5.0), large=True),
)
PUBLISHED = {
    "MovieLens 1M": {"no privacy": 0.831, "DP-SGD": 0.712, "LDP-MF": 0.703, "framework": 0.763},
    "Amazon": {"no privacy": 0.846, "DP-SGD": 0.698, "LDP-MF": 0.692, "framework": 0.742},
    "Yelp": {"no privacy": 0.853, "DP-SGD": 0.701, "LDP-MF": 0.681, "framework": 0.728},
}


@dataclass(frozen=True)
class OneRun:
    """A fresh split and everything that is judged on it."""

    data: DataSet
    everything: Interactions
    seed: int

    @property
    def protected(self) -> Protected:
        return Protected(ProtectedUnit.USER, Relation.BLANK_ONE, self.data.name)

    def figures(self, *, networks: bool, twins: bool) -> Figures:
        """All figures of this run."""
        split = per_user_holdout(self.everything, share=0.2, seed=1000 + self.seed)
        found: Figures = {}
        plain: dict[str, Recommender] = {"popularity": exact_popularity(split.given)}
        ease = None if self.data.large else exact_autoencoder(split.given)
        if ease is not None:
            plain["EASE"] = ease
        if twins:
            plain["ALS"] = exact_factors(split.given, rank=32, confidence=2.0, ridge=20.0, sweeps=6)
        for name, model in plain.items():
            self._judge(found, f"no privacy, {name}", model, split)
        draw = np.random.default_rng([self.seed, 7])
        noise = PopularityRecommender(
            self.everything.catalogue, draw.random(len(self.everything.catalogue))
        )
        self._judge(found, "random", noise, split)
        for epsilon in self.data.epsilons:
            moments = self._private(found, split, epsilon, draw, ease)
            if networks and epsilon in (1.0, 5.0):
                self._networks(found, split, epsilon, moments)
        return found

    def _private(
        self,
        found: Figures,
        split: Split,
        epsilon: float,
        draw: np.random.Generator,
        ease: LinearRecommender | None,
    ) -> ItemMoments:
        at = f"ε = {epsilon:g}, "
        moments, seconds = self.moments(split.given, epsilon)
        found |= {f"{at}{name}, seconds": value for name, value in seconds.items()}
        model = recommender_from(moments)
        self._judge(found, f"{at}moments", model, split)
        if isinstance(model, LinearRecommender):
            factors = factors_from(moments)
            self._judge(found, f"{at}factors of the moments", factors, split, full_only=True)
            if ease is not None and epsilon == 1.0:
                self._explanations(found, split, model, ease, draw)
        local = local_popularity(split.given, moments.budget.mu, draw)
        self._judge(found, f"{at}local popularity", local, split, full_only=True)
        if epsilon in (1.0, 5.0) and not moments.budget.popularity_only:
            models = [private_als(split.given, moments.budget, each, draw) for each in ALS_GRID]
            best = max(models, key=lambda each: measure(each, split).ndcg)
            self._judge(found, f"{at}DP-ALS", best, split, full_only=True)
        if epsilon in (1.0, 5.0):
            liking = PrivateLiking(
                split.given,
                bounds=(1.0, 5.0),
                protected=self.protected,
                epsilon=epsilon,
                delta=DELTA,
            )
            ranked = PopularityRecommender(self.everything.catalogue, liking.draw().values)
            quality = measure(ranked, split, protocol=RatedOnly())
            found[f"{at}ratings, NDCG@10, {quality.protocol}"] = quality.ndcg
        return moments

    def moments(self, given: Interactions, epsilon: float) -> tuple[ItemMoments, Figures]:
        """Drawn by the exact sampler; how long that and the rest took."""
        budget = MomentsBudget.exact(
            users=len(given),
            items=len(given.catalogue),
            relation=Relation.BLANK_ONE,
            epsilon=epsilon,
            delta=DELTA,
        )
        start = time.perf_counter()
        common: dict[str, Any] = {"protected": self.protected, "delta": DELTA}
        first = PrivatePopularity(given, budget, **common)
        popularity = replace(first.draw(), charge="experiment")
        gram = None
        if not budget.popularity_only:
            second = PrivateGram(given, budget, **common, chosen=popularity)
            gram = replace(second.draw(), charge="experiment")
        drawn = time.perf_counter()
        promise = joint_guarantee(first.budget, protected=first.protected, delta=DELTA)
        made = ItemMoments(given.catalogue, budget, popularity, gram, promise)
        recommender_from(made)
        return made, {"drawing": drawn - start, "fitting": time.perf_counter() - drawn}

    def _networks(self, found: Figures, split: Split, epsilon: float, moments: ItemMoments) -> None:
        users, budget = len(split.given), moments.budget
        if budget.popularity_only:
            return
        for name, kind, rate, norm, sampled, steps in (
            ("DP-SGD autoencoder", Autoencoder(16), 0.03, 0.1, 0.5, 100),
            ("DP-SGD collaborative filter", CollaborativeFilter((16,)), 0.01, 0.3, 0.1, 150),
        ):
            start = PrivateSteps(
                clipping_norm=norm,
                noise_multiplier=1.0,
                sampling_rate=sampled,
                steps=steps,
                rows=users,
            )
            privacy = steps_within(
                budget.popularity_noise.event(), start, epsilon=epsilon, delta=DELTA
            )
            release = PrivateNetwork(
                split.given,
                kind,
                protected=self.protected,
                delta=DELTA,
                chosen=moments.popularity,
                head=budget.head,
                privacy=privacy,
                rate=rate,
            )
            made = paid_artefact(release, "experiment", _Unpublished(release))
            model = network_recommender(
                kind,
                made,
                catalogue=split.given.catalogue,
                chosen=moments.popularity,
                head=budget.head,
            )
            self._judge(found, f"ε = {epsilon:g}, {name}", model, split, full_only=True)

    def _judge(
        self,
        found: Figures,
        name: str,
        model: Recommender,
        split: Split,
        *,
        full_only: bool = False,
    ) -> None:
        protocols: list[RankingProtocol] = [FullRanking()]
        if not full_only and self.data.name.startswith("MovieLens"):
            protocols += [SampledNegatives(seed=self.seed), RatedOnly()]
        for quality in measure_each(model, split, protocols):
            found[f"{name}, NDCG@10, {quality.protocol}"] = quality.ndcg
            found[f"{name}, recall@10, {quality.protocol}"] = quality.recall

    def _explanations(
        self,
        found: Figures,
        split: Split,
        model: LinearRecommender,
        ease: LinearRecommender,
        draw: np.random.Generator,
    ) -> None:
        """Of each user's first recommendation, by labels, beside the model without privacy."""
        given, shares = split.given, split.given.catalogue.shares(self.data.kind)
        half = draw.random(len(given)) < 0.5
        halves = [exact_autoencoder(given.of_users(each), ridge=250.0) for each in (half, ~half)]
        users = draw.choice(len(given), min(EXPLAINED, len(given)), replace=False)

        def explained(by: LinearRecommender) -> Array:
            rows = []
            for user in users.tolist():
                history = given.history_at(user)
                item = recommended(model, history, 1)
                rows.append(shares[history].T @ by.contributions(history, item)[:, 0])
            return np.stack(rows)

        truth, ours = explained(ease), explained(model)
        one, two = (explained(each) for each in halves)
        noisy = np.stack([as_published(each, 1.0, DELTA, draw) for each in truth])
        found |= {
            "ε = 1, explanations, cosine": float(cosine_similarity(ours, truth).mean()),
            "ε = 1, explanations, Kendall": _kendall(ours, truth),
            "ε = 1, explanations, PAAS": _paas(ours, truth),
            "halves without privacy, explanations, Kendall": _kendall(one, two),
            "AGNI as published, explanations, PAAS": _paas(noisy, truth),
            "pure noise, explanations, PAAS": _paas(draw.normal(size=truth.shape), truth),
        }


def _kendall(one: Array, two: Array) -> float:
    """From −1 to 1; `kendall_fidelity` is from 0 to 1."""
    return 2 * float(kendall_fidelity(one, two).mean()) - 1


def _paas(private: Array, true: Array) -> float:
    return float(privacy_adjusted_score(private, true, epsilon=1.0).mean())
