"""Networks by DP-SGD, one record a user."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from experiments.lib.recommenders.measuring import measure, per_user_holdout

from tests.paying import as_if_paid
from tests.unit.recommenders.examples import DELTA, USER, moments, shop
from voile.core.errors import InvalidInput, Refused, UnreadableFile
from voile.core.guarantee import ProtectedUnit
from voile.privacy.accounting import PrivacyLoss
from voile.privacy.events import Composed, Gaussian
from voile.recommenders import Interactions
from voile.recommenders.models import PopularityRecommender
from voile.recommenders.networks import (
    Autoencoder,
    CollaborativeFilter,
    NetworkRecommender,
    PrivateNetwork,
    TrainedNetwork,
    fresh_network,
    head_rows,
    network_recommender,
    steps_within,
)
from voile.release import Release
from voile.training.private import PerceptronSum, PrivateSteps

STEPS = PrivateSteps(
    clipping_norm=0.3, noise_multiplier=1.0, sampling_rate=0.3, steps=60, rows=1200
)


def release(interactions: Interactions, kind: Any, **changes: Any) -> PrivateNetwork:
    given: dict[str, Any] = {
        "protected": USER,
        "delta": DELTA,
        "chosen": moments(interactions, 5.0).popularity,
        "head": 20,
        "privacy": replace(STEPS, rows=len(interactions)),
        "rate": 0.03,
    }
    return PrivateNetwork(interactions, kind, **(given | changes))


def as_model(found: PrivateNetwork, made: TrainedNetwork) -> NetworkRecommender:
    return network_recommender(
        found.kind,
        made,
        catalogue=found.interactions.catalogue,
        chosen=found.chosen,
        head=found.head,
    )


@pytest.mark.parametrize("kind", [Autoencoder(8), CollaborativeFilter((8,))])
def test_networks_learn_the_two_halves(kind: Any) -> None:
    split = per_user_holdout(shop(1200), share=0.3, seed=1)
    found = release(split.given, kind)
    assert isinstance(found, Release)
    model = as_model(found, as_if_paid(found))
    plain = PopularityRecommender(split.given.catalogue, found.chosen.values)
    assert measure(model, split).ndcg > measure(plain, split).ndcg + 0.05
    (promise,) = found.guarantees(1)
    assert promise.computational
    assert promise.epsilon == PrivacyLoss().compose(found.privacy.event()).epsilon(DELTA)


@pytest.mark.parametrize("kind", [Autoencoder(8), CollaborativeFilter((8, 4))])
def test_scores_are_what_the_network_says(kind: Any) -> None:
    network = fresh_network(kind, 6)
    network.values[:] = np.random.default_rng(1).normal(size=network.values.shape)
    rows = head_rows(shop(5).matrix, np.arange(6))
    found = kind.scores(network, rows)
    if isinstance(kind, CollaborativeFilter):
        asked = np.concatenate([np.repeat(rows, 6, axis=0), np.tile(np.eye(6), (5, 1))], axis=1)
        expected = network(asked.astype(np.float32)).reshape(5, 6)
    else:
        expected = network(rows)
    assert np.allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize("kind", [Autoencoder(4), CollaborativeFilter((4,))])
def test_a_user_is_one_record_whatever_she_is_asked_about(kind: Any) -> None:
    """The clipped sum of one user is no longer than the norm, all her lines together."""
    network = fresh_network(kind, 20)
    network.values[:] = np.random.default_rng(2).normal(size=network.values.shape)
    sums = PerceptronSum(network, kind.loss)
    rows = head_rows(shop(1).matrix, np.arange(20))
    sums.add_up(kind.prepare((rows,)), 0.3)
    assert np.linalg.norm(sums.total) <= 0.3 * (1 + 1e-4)


def test_a_user_is_asked_about_items_that_are_taken_out_of_her_history() -> None:
    rows = head_rows(shop(3).matrix, np.arange(20))
    inputs, wanted = CollaborativeFilter().prepare((rows,))
    items = inputs[:, :, 20:].argmax(axis=2)
    own = np.take_along_axis(rows > 0, items, axis=1)
    assert np.array_equal(own, wanted[:, :, 0] > 0)
    assert not np.take_along_axis(inputs[:, :, :20], items[:, :, np.newaxis], axis=2).any()


def test_the_noise_is_calibrated_with_what_was_released_first() -> None:
    first = Gaussian(10.0)
    steps = steps_within(first, STEPS, epsilon=2.0, delta=DELTA)
    both = PrivacyLoss().compose(Composed((first, steps.event()))).epsilon(DELTA)
    assert 1.98 < both <= 2.0
    with pytest.raises(InvalidInput, match="costs more than this target already"):
        steps_within(Gaussian(0.5), STEPS, epsilon=1.0, delta=DELTA)


def test_networks_of_something_else_are_refused() -> None:
    found = shop(100)
    kind = Autoencoder(4)
    with pytest.raises(Refused, match="a record of these steps is a user"):
        release(found, kind, protected=replace(USER, unit=ProtectedUnit.ROW))
    with pytest.raises(InvalidInput, match="the steps are for 1200 users"):
        release(found, kind, privacy=STEPS)
    unpaid = replace(moments(found).popularity, charge=None)
    with pytest.raises(Refused, match="nobody was charged"):
        release(found, kind, chosen=unpaid)
    made = release(found, kind, privacy=replace(STEPS, rows=100, steps=1))
    drawn = made.draw()
    with pytest.raises(Refused, match="nobody was charged"):
        as_model(made, drawn)
    again = made.codec.unpack(made.codec.pack(drawn))
    assert np.array_equal(again.values, drawn.values)
    with pytest.raises(UnreadableFile):
        made.codec.unpack(b"nonsense")
