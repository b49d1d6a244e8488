"""Why these items: exact toward the user herself, charged or refused toward others."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.unit.recommenders.examples import DELTA, USER, moments, shop
from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import Adversary, Relation
from voile.core.row_note import KnownNote
from voile.recommenders import (
    ByItems,
    ByLabels,
    LabelImportance,
    NoisyProfileOfUser,
    ScoresOnly,
    TopLabelsOfUser,
    autoencoder_from,
    for_herself,
    refuse_items,
    score_by_labels,
)
from voile.recommenders.explaining import grouped_shares, recommended, scores_of
from voile.recommenders.third_party import score_of_pure_noise
from voile.release import Release

SHOP = shop(2000)
MOMENTS = moments(SHOP, 5.0)
MODEL = autoencoder_from(MOMENTS)
HISTORY = SHOP.history_at(0)
GENRES = ("Comedy", "Drama", "War", "no genre")


def other(kind: Any, **changes: Any) -> Any:
    given: dict[str, Any] = {
        "model": "model 1",
        "protected": USER,
        "epsilon": 2.0,
        "origins": [MOMENTS.origin],
    }
    return kind(ByLabels(MODEL, "genre"), **(given | changes))


def test_items_of_the_history_add_up_to_the_score() -> None:
    explained = ByItems(MODEL)([HISTORY])
    items = [MODEL.catalogue.names.index(name) for name in explained.output_names]
    scores = scores_of(MODEL, HISTORY)
    assert np.allclose(explained.values[0].sum(axis=0), scores[items])
    assert explained.feature_names == tuple(f"film {place}" for place in HISTORY)
    assert sorted(items, key=lambda item: -scores[item]) == items
    assert not set(items) & set(HISTORY.tolist())


def test_genres_add_up_to_the_score_and_split_an_item_equally() -> None:
    explained = ByLabels(MODEL, "genre", count=3)([HISTORY])
    by_item = ByItems(MODEL, count=3)([HISTORY]).values[0]
    assert explained.feature_names == GENRES
    assert np.allclose(explained.values[0].sum(axis=0), by_item.sum(axis=0))
    war = [row for row, place in enumerate(HISTORY) if place % 3 == 0]
    assert np.allclose(explained.values[0][2], by_item[war].sum(axis=0) / 2)


def test_genres_are_the_shapley_values_of_their_game() -> None:
    """An item counts by the share of its genres that are in the coalition."""
    contributions = MODEL.contributions(HISTORY, np.array([1])).sum(axis=1)
    shares = MODEL.catalogue.shares("genre")[HISTORY]
    players = len(GENRES)

    def worth(coalition: int) -> float:
        there = np.array([bool(coalition >> player & 1) for player in range(players)])
        return float(contributions @ shares[:, there].sum(axis=1))

    shapley = np.zeros(players)
    for player in range(players):
        for coalition in range(2**players):
            if not coalition >> player & 1:
                size = coalition.bit_count()
                weight = math.factorial(size) * math.factorial(players - size - 1)
                gain = worth(coalition | 1 << player) - worth(coalition)
                shapley[player] += weight / math.factorial(players) * gain
    assert np.allclose(shapley, shares.T @ contributions)


def test_groups_are_sums_of_their_labels() -> None:
    alone = ByLabels(MODEL, "genre")([HISTORY]).values[0]
    groups = {"serious": ("Drama", "War")}
    grouped = ByLabels(MODEL, "genre", groups=groups)([HISTORY])
    assert grouped.feature_names == ("Comedy", "serious", "no genre")
    assert np.allclose(grouped.values[0][1], alone[1] + alone[2])
    for wrong in ({"a": ("Opera",)}, {"a": ("War",), "b": ("War",)}):
        with pytest.raises(InvalidInput, match="each of its labels once"):
            grouped_shares(MODEL.catalogue, "genre", wrong)


def test_an_empty_history_is_explained_by_nothing() -> None:
    nothing = np.array([], dtype=np.int64)
    assert not ByItems(MODEL)([nothing]).values.any()
    assert not ByLabels(MODEL, "genre")([nothing]).values.any()
    with pytest.raises(InvalidInput, match="one user is explained at a time"):
        ByItems(MODEL)([HISTORY, HISTORY])


def test_who_has_touched_everything_is_told_so() -> None:
    with pytest.raises(InvalidInput, match="nothing left to recommend"):
        ScoresOnly(MODEL)([np.arange(24)])
    assert other(TopLabelsOfUser, k=1).draw([np.arange(24)]).shape == (1, 4, 1)


def test_what_a_user_sees_about_herself_is_free_and_says_whom_it_holds_against() -> None:
    for explainer in (ByItems(MODEL), ByLabels(MODEL, "period"), ScoresOnly(MODEL)):
        release = for_herself(explainer, MOMENTS.guarantee, model="model 1")
        assert isinstance(release, Release)
        assert release.preview(10**6).event is None
        explained = release.draw([HISTORY])
        (promise,) = explained.guarantees
        assert promise.against == (Adversary.PUBLIC, Adversary.OTHER_USERS)
        assert promise.epsilon == MOMENTS.guarantee.epsilon
        assert any("joint differential privacy" in each for each in promise.assumptions)
        assert any("not against the server" in each for each in promise.assumptions)
        assert explained.data is None


def test_scores_come_without_a_reason() -> None:
    explained = ScoresOnly(MODEL, count=4)([HISTORY])
    assert explained.shape == (1, 1, 4)
    assert (np.diff(explained.values[0, 0]) <= 0).all()


# --- toward others --------------------------------------------------------------------------------


def test_items_are_refused_toward_others() -> None:
    with pytest.raises(Refused, match="names her history"):
        refuse_items()


def test_top_genres_are_named_by_subset_selection() -> None:
    release = other(TopLabelsOfUser, k=1, epsilon=8.0)
    assert isinstance(release, Release)
    assert release.cost(3) == release.cost(1)
    drawn = release.draw([HISTORY] * 50)
    assert drawn.shape == (50, 4, 1)
    assert (drawn.values.sum(axis=1) == 1).all()
    assert KnownNote.NAMES_ONLY in drawn.notes
    truth = int(np.argmax(ByLabels(MODEL, "genre").profile(HISTORY)))
    assert drawn.values[:, truth].mean() > 0.9
    guarantee = release.guarantees(1)[0]
    assert guarantee.epsilon == pytest.approx(8.0 + MOMENTS.guarantee.epsilon)
    assert guarantee.delta == DELTA


@pytest.mark.parametrize(("epsilon", "warned"), [(0.1, True), (8.0, False)])
def test_an_answer_that_is_more_likely_wrong_says_so(epsilon: float, warned: bool) -> None:
    drawn = other(TopLabelsOfUser, k=1, epsilon=epsilon).draw([HISTORY])
    said = [str(note) for note in drawn.notes if "more likely wrong than right" in str(note)]
    assert len(said) == warned
    assert all("with probability 0.2" in each and "by chance 0.250" in each for each in said)


def test_any_history_is_answered() -> None:
    for kind, more in (
        (TopLabelsOfUser, {"k": 2}),
        (NoisyProfileOfUser, {"delta": 1e-6}),
    ):
        release = other(kind, **more)
        odd: list[Any] = [[], [-5, 10**6], [3, 3, 3], HISTORY]
        assert release.draw(odd).shape == (4, 4, 1)


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(InvalidInput, match="tells nothing"):
        other(TopLabelsOfUser, k=4)
    with pytest.raises(InvalidInput, match="say what every artefact was made from"):
        other(TopLabelsOfUser, k=1, origins=[])


def test_a_profile_with_noise_says_what_pure_noise_would_score() -> None:
    blank = other(NoisyProfileOfUser, delta=1e-6, epsilon=1.0)
    assert "pure noise would reach a PAAS of 0.609" in str(blank.preview())
    replaced = other(
        NoisyProfileOfUser,
        delta=1e-6,
        epsilon=1.0,
        protected=replace(USER, relation=Relation.REPLACE_ONE),
        origins=[moments_under_replace_one()],
    )
    # C where a user stands against nothing, 2C where she stands against another one.
    assert replaced.sensitivity.value == 2 * blank.sensitivity.value == 2.0
    drawn = blank.draw([HISTORY])
    assert drawn.standard_errors is not None
    assert score_of_pure_noise(1e9) == pytest.approx(0.65)


def moments_under_replace_one() -> Any:
    protected = replace(USER, relation=Relation.REPLACE_ONE)
    promise = replace(MOMENTS.guarantee, protected=protected)
    return replace(MOMENTS, guarantee=promise).origin


def test_importance_over_all_users_moves_little_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    release = other(LabelImportance, users=2000, delta=1e-6, epsilon=1.0)
    assert isinstance(release, Release)
    drawn = release.draw(SHOP)
    assert drawn.shape == (1, 4, 1)
    assert drawn.values[0, :2, 0].min() > drawn.values[0, 3, 0]
    from voile.privacy.mechanisms import GaussianMechanism

    def plain(_: object, values: Any, __: object = None) -> Any:
        return values

    monkeypatch.setattr(GaussianMechanism, "randomise", plain)
    small = shop(40)
    exact = other(LabelImportance, users=40, delta=1e-6, epsilon=1.0)
    before = exact.draw(small).values
    moves = [
        np.linalg.norm(before - exact.draw(small.where(small.user != user)).values)
        for user in range(40)
    ]
    assert 0.99 / 40 < max(moves) <= 1 / 40 * (1 + 1e-9)
    with pytest.raises(InvalidInput, match="interactions of 2000 users"):
        release.draw(small)


# --- models without a closed form -----------------------------------------------------------------


def labels_schema() -> Any:
    from voile.core.schema import Feature, Numbers, Schema

    return Schema("labels", tuple(Feature(name, Numbers(0.0, 1.0)) for name in GENRES))


def test_any_explainer_takes_the_score_by_labels() -> None:
    """Of the linear model it gives what the closed form gives."""
    from voile.attribution import ExactShapley
    from voile.models import Box, wrap

    item = int(recommended(MODEL, HISTORY, 1)[0])
    model = wrap(score_by_labels(MODEL, HISTORY, item, "genre"), outputs=Box(-50, 50))
    ones, zeros = np.ones((1, 4)), np.full((1, 4), 1e-9)  # nothing at all would be a stranger
    found = ExactShapley(model, zeros, schema=labels_schema())(ones)
    closed = ByLabels(MODEL, "genre", count=1)([HISTORY])
    assert np.allclose(found.values[0, :, 0], closed.values[0, :, 0], atol=1e-6)


def test_networks_are_explained_by_labels() -> None:
    from voile.attribution import ExactShapley
    from voile.models import Box, wrap
    from voile.recommenders import Autoencoder, NetworkRecommender
    from voile.recommenders.networks import fresh_network

    network = fresh_network(Autoencoder(4), 24)
    network.values[:] = np.random.default_rng(1).normal(size=network.values.shape)
    places = np.arange(24)
    recommender = NetworkRecommender(
        SHOP.catalogue, MODEL.popularity, places, Autoencoder(4), network
    )
    score = score_by_labels(recommender, HISTORY, 3, "genre")
    model = wrap(score, outputs=Box(-500, 500))
    explained = ExactShapley(model, np.zeros((1, 4)), schema=labels_schema())(np.ones((1, 4)))
    whole, empty = score(np.ones((1, 4)))[0], score(np.zeros((1, 4)))[0]
    assert whole == pytest.approx(scores_of(recommender, HISTORY)[3], abs=1e-4)
    assert explained.values.sum() == pytest.approx(whole - empty, abs=1e-3)
