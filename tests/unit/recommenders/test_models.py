"""Post-processing, models, and how lists are judged."""

from __future__ import annotations

import math

import numpy as np
import pytest
from experiments.lib.evaluation.ranking import ndcg
from experiments.lib.recommenders.measuring import FullRanking, measure, per_user_holdout
from experiments.lib.recommenders.protocols import RatedOnly, SampledNegatives
from experiments.lib.recommenders.splits import newcomers
from experiments.lib.recommenders.twins import exact_autoencoder, exact_factors, exact_popularity

from tests.unit.recommenders.examples import catalogue, moments, shop
from voile.core.errors import InvalidInput
from voile.recommenders import (
    LinearRecommender,
    PopularityRecommender,
    autoencoder_from,
    factors_from,
    interactions_of,
    recommender_from,
)
from voile.recommenders.explaining import recommended, scores_of
from voile.recommenders.models import best, ease
from voile.recommenders.moments import denoised, positive_semidefinite, shrunk


def goe(size: int, deviation: float, draw: np.random.Generator) -> np.ndarray:
    noise = draw.normal(0, deviation, (size, size))
    return np.asarray((noise + noise.T) / math.sqrt(2))


def test_pure_noise_is_shrunk_to_nothing() -> None:
    draw = np.random.default_rng(1)
    size = 200
    left = shrunk(goe(size, 3.0, draw), 3.0)
    assert np.linalg.norm(left) < 0.05 * 3.0 * size


def test_what_stands_out_of_the_noise_is_kept_and_closer_to_the_truth() -> None:
    draw = np.random.default_rng(2)
    size, tau = 150, 1.0
    direction = np.abs(draw.normal(size=size))
    direction /= np.linalg.norm(direction)
    truth = 100.0 * np.outer(direction, direction)
    noisy = truth + goe(size, tau, draw)
    clean = denoised(noisy, deviation=tau, popularity=direction, features=np.ones((size, 1)))
    assert np.linalg.norm(clean - truth) < 0.25 * np.linalg.norm(noisy - truth)
    assert np.linalg.eigvalsh(clean).min() > -1e-9


def test_the_second_pass_finds_what_the_first_one_cannot() -> None:
    """A direction below the edge of the whole matrix, among few that are public."""
    draw = np.random.default_rng(3)
    size, tau = 200, 1.0
    feature = (np.arange(size) % 2).astype(float)
    direction = feature / np.linalg.norm(feature)
    strength = 20.0
    assert strength < 2 * tau * math.sqrt(size)
    truth = strength * np.outer(direction, direction)
    noisy = truth + goe(size, tau, draw)
    features = np.column_stack([np.ones(size), feature])
    clean = denoised(noisy, deviation=tau, popularity=np.ones(size), features=features)
    assert direction @ clean @ direction > 0.5 * strength
    assert direction @ shrunk(noisy, tau) @ direction < 0.4 * strength


def test_no_popularity_and_no_features_do_not_break_it() -> None:
    clean = denoised(np.eye(4), deviation=0.1, popularity=-np.ones(4), features=np.zeros((4, 2)))
    assert np.isfinite(clean).all()


def test_the_nearest_positive_matrix_has_no_negative_direction() -> None:
    matrix = np.diag([2.0, -1.0])
    assert np.allclose(positive_semidefinite(matrix), np.diag([2.0, 0.0]))


def test_ease_is_the_best_prediction_without_oneself() -> None:
    """Each column solves its own ridge regression on all other items."""
    matrix = shop(80).matrix.toarray()
    gram, ridge = matrix.T @ matrix, 3.0
    weights = ease(gram, ridge)
    others = np.arange(1, 24)
    left = gram[np.ix_(others, others)] + ridge * np.eye(23)
    assert np.allclose(weights[others, 0], np.linalg.solve(left, gram[others, 0]))
    assert not np.diag(weights).any()


# --- models ---------------------------------------------------------------------------------------


def test_a_private_model_knows_the_two_halves() -> None:
    split = per_user_holdout(shop(2000), share=0.3, seed=1)
    made = moments(split.given, 5.0)
    plain = measure(exact_popularity(split.given), split)
    for model in (autoencoder_from(made), factors_from(made)):
        assert measure(model, split).ndcg > plain.ndcg + 0.08
    twin = measure(exact_autoencoder(split.given, ridge=50.0), split)
    factors = measure(exact_factors(split.given, rank=4), split)
    assert twin.ndcg > plain.ndcg + 0.1
    assert factors.ndcg > plain.ndcg + 0.05


def test_newcomers_are_served_without_training() -> None:
    parts = newcomers(shop(2500), share=0.2, held_out=0.3, seed=2)
    model = autoencoder_from(moments(parts.known, 5.0))
    popular = PopularityRecommender(model.catalogue, model.popularity)
    found = measure(model, parts.newcomers).ndcg
    assert found > measure(popular, parts.newcomers).ndcg + 0.08


def small() -> LinearRecommender:
    """Six items, three in the head."""
    weights = np.array([[0.0, 1.0, 2.0], [3.0, 0.0, 4.0], [5.0, 6.0, 0.0]])
    shape = (3, catalogue(6).features.shape[1])
    through = np.arange(math.prod(shape), dtype=float).reshape(shape)
    return LinearRecommender(
        catalogue(6), np.array([6.0, 5, 4, 3, 2, 1]), np.array([4, 0, 2]), weights, through
    )


def test_scores_are_sums_of_contributions() -> None:
    model = small()
    history = np.array([0, 2, 5])
    scores = scores_of(model, history)
    assert scores[4] == 3.0 + 5.0
    added = model.contributions(history, np.arange(6))
    assert np.allclose(added.sum(axis=0), scores)
    assert not added[2].any()  # outside the head: it has no weight
    assert scores[1] == pytest.approx(
        5.0 * (model.through[[1, 2]] @ model.catalogue.features[1]).sum()
    )


def test_who_has_no_head_item_gets_popularity() -> None:
    model = small()
    for history in (np.array([], dtype=np.int64), np.array([1, 3])):
        assert np.array_equal(scores_of(model, history), model.popularity)
    assert recommended(model, np.array([1]), 3).tolist() == [0, 2, 3]


def test_what_was_touched_is_not_recommended_again() -> None:
    scores = np.array([5.0, 4.0, 3.0, 3.0])
    assert best(scores, np.array([0]), 10).tolist() == [1, 2, 3]


def test_arrays_that_do_not_fit_are_refused() -> None:
    model = small()
    with pytest.raises(InvalidInput, match="shapes"):
        LinearRecommender(
            model.catalogue, model.popularity, model.head, model.weights[:2], model.through
        )
    with pytest.raises(InvalidInput, match="finite"):
        LinearRecommender(
            model.catalogue, model.popularity * np.nan, model.head, model.weights, model.through
        )


def test_without_a_gram_matrix_everybody_gets_the_same() -> None:
    made = moments(shop(40), 1.0)
    model = recommender_from(made)
    assert isinstance(model, PopularityRecommender)
    assert (model.popularity >= 0).all()
    scores = model.scores(shop(3).matrix)
    assert np.array_equal(scores[0], scores[2])


# --- protocols ------------------------------------------------------------------------------------


def test_full_ranking_is_the_ndcg_of_all_that_is_untouched() -> None:
    split = per_user_holdout(shop(30), share=0.3, seed=1)
    model = exact_popularity(split.given)
    gains, scores = split.held_out.matrix.toarray(), model.scores(split.given.matrix)
    scores[split.given.matrix.toarray() > 0] = -1e9
    asked = gains.sum(axis=1) > 0
    expected = ndcg(gains[asked], scores[asked], k=10).mean()
    found = measure(model, split)
    assert found.ndcg == pytest.approx(expected)
    assert found.protocol == "full ranking"
    assert "not for release" in str(found)


def test_protocols_say_their_names_and_give_other_figures() -> None:
    split = per_user_holdout(shop(200, 150), share=0.3, seed=1)
    model = exact_popularity(split.given)
    full, few, rated = (
        measure(model, split, protocol=each)
        for each in (FullRanking(), SampledNegatives(seed=3), RatedOnly())
    )
    assert len({full.ndcg, few.ndcg, rated.ndcg}) == 3
    assert rated.ndcg > 0.5
    assert (few.protocol, rated.protocol) == ("99 sampled negatives", "rated items only")
    again = measure(model, split, protocol=SampledNegatives(seed=3))
    assert again.ndcg == few.ndcg
    assert measure(model, split, protocol=SampledNegatives(seed=4)).ndcg != few.ndcg


def test_ties_do_not_favour_the_item_that_counts() -> None:
    split = per_user_holdout(shop(400, 150), share=0.3, seed=1)
    nothing = PopularityRecommender(split.given.catalogue, np.zeros(150))
    found = measure(nothing, split, protocol=SampledNegatives(seed=1))
    assert found.recall == pytest.approx(0.1, abs=0.06)


def test_only_rated_items_count_by_their_rating() -> None:
    columns = {
        "user": np.array(["a", "a", "a", "a"]),
        "item": np.array([0, 1, 2, 3]),
        "rating": np.array([1.0, 5.0, np.nan, 3.0]),
    }
    held = interactions_of(columns, catalogue(12))
    split = per_user_holdout(held, share=0.5, seed=1)
    split = split._replace(given=held.where(np.zeros(4, dtype=bool)), held_out=held)
    scores = np.zeros(12)
    scores[[0, 1, 3]] = 3.0, 2.0, 1.0
    found = measure(PopularityRecommender(held.catalogue, scores), split, protocol=RatedOnly())
    gains, discounts = np.array([1.0, 31.0, 7.0]), 1 / np.log2(np.arange(2, 5))
    assert found.ndcg == pytest.approx(gains @ discounts / (np.sort(gains)[::-1] @ discounts))


def test_nothing_held_out_is_nothing_to_judge() -> None:
    found = shop(5)
    split = per_user_holdout(found, share=0.2, seed=1)
    empty = split._replace(held_out=found.where(np.zeros(len(found.item), dtype=bool)))
    with pytest.raises(InvalidInput, match="nothing is held out"):
        measure(exact_popularity(found), empty)
