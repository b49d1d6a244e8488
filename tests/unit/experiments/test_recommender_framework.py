"""Attacks on the item side: never above their ceiling, and strong where there is no noise."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from experiments.lib.recommenders.measuring import measure, per_user_holdout
from experiments.lib.recommenders.twins import exact_autoencoder, exact_popularity
from experiments.recommender_framework import tables
from experiments.recommender_framework.attacks import (
    coin_world,
    inversion,
    membership_of_model,
    membership_of_moments,
    membership_one_by_one,
)
from experiments.recommender_framework.private_baselines import (
    AlsSettings,
    as_published,
    local_popularity,
    private_als,
)
from experiments.recommender_framework.setting import DATA
from scipy.special import ndtr
from tests.unit.recommenders.examples import budget, shop

from voile.privacy.mechanisms import GaussianMechanism

SHOP, WIDE = shop(800), shop(800, 60)
RUNS = 2500
# Five standard errors of a share: a false alarm has a probability below 1e-6.
ERROR = 5 * 0.5 / math.sqrt(RUNS)


def test_nobody_guesses_a_coin_better_than_the_ceiling_and_the_attack_reaches_it() -> None:
    spent = budget(SHOP, 5.0)
    found = membership_one_by_one(SHOP, spent, RUNS, np.random.default_rng(1))
    assert found.ceiling == pytest.approx(float(ndtr(spent.mu / 2)))
    assert found.right <= found.ceiling + ERROR
    assert found.right > found.ceiling - ERROR - 0.02  # users on few head items are a little safer


def test_noise_for_half_the_sensitivity_is_seen_by_the_attack() -> None:
    spent = budget(SHOP, 5.0)
    half = replace(spent)

    def halved(noise: GaussianMechanism) -> GaussianMechanism:
        return replace(noise, sigma=noise.sigma / 2)

    half.__dict__["popularity_noise"] = halved(spent.popularity_noise)
    half.__dict__["gram_noise"] = halved(spent.gram_noise)
    found = membership_one_by_one(SHOP, half, RUNS, np.random.default_rng(1))
    assert found.right > found.ceiling + ERROR


def test_many_targets_hide_each_other_and_a_model_without_privacy_gives_them_away() -> None:
    draw = np.random.default_rng(2)
    world = coin_world(WIDE, 300, draw)
    assert world.present.matrix.shape == world.others.matrix.shape == WIDE.matrix.shape
    private = membership_of_moments(world, budget(WIDE, 1.0), draw)
    assert private.right <= private.ceiling + 5 * 0.5 / math.sqrt(300)
    open_one = membership_of_model(world, ridge=5.0)
    assert open_one.right > 0.65


def test_inversion_compares_targets_that_were_in_with_those_that_were_not() -> None:
    draw = np.random.default_rng(3)
    world = coin_world(WIDE, 400, draw)
    inside, outside = inversion(exact_autoencoder(world.present, ridge=0.1), world, draw=draw)
    assert 0 < outside < inside < 1
    same = exact_popularity(world.others)
    inside, outside = inversion(same, world, draw=draw)
    assert abs(inside - outside) < 0.1


def test_private_baselines_are_models_of_the_same_interactions() -> None:
    split = per_user_holdout(shop(2000), share=0.3, seed=1)
    spent, draw = budget(split.given, 5.0), np.random.default_rng(4)
    plain = measure(exact_popularity(split.given), split).ndcg
    als = private_als(split.given, spent, AlsSettings(2, 3, 5.0), draw)
    assert measure(als, split).ndcg > plain + 0.03
    local = local_popularity(split.given, spent.mu, draw)
    assert measure(local, split).ndcg < plain + 0.03
    profile = np.array([3.0, 4.0])
    drawn = np.stack([as_published(profile, 1.0, 1e-6, draw) for _ in range(2000)])
    assert np.allclose(drawn.mean(axis=0), profile / 5, atol=0.6)


def test_tables_state_targets_tests_and_what_cannot_be_reproduced() -> None:
    run = {
        f"no privacy, EASE, {tables.FULL}": 0.43,
        f"ε = 1, moments, {tables.FULL}": 0.32,
        f"ε = 1, DP-ALS, {tables.FULL}": 0.2,
        "ε = 1, explanations, Kendall": 0.55,
        "halves without privacy, explanations, Kendall": 0.56,
    }
    runs = {"MovieLens 1M": [{k: v + 0.001 * n for k, v in run.items()} for n in range(8)]}
    figures = {figure.what: figure for figure in tables.figures(runs)}
    moments = figures[f"MovieLens 1M: ε = 1, moments, {tables.FULL}"]
    assert (moments.target, moments.met, moments.peer) == ("at least 0.31", True, 0.763)
    assert figures["MovieLens 1M: Kendall at ε = 1 less that of two halves without privacy"].met
    compared = {row["method"]: row for row in tables.comparisons(runs)}
    assert compared[f"ε = 1, DP-ALS, {tables.FULL}"]["Bonferroni p"] < 0.05
    assert any("not reproducible" in line for line in tables.NOT_REPRODUCIBLE)
    assert tables.characteristics(DATA[0], shop(10))["users"] == 10


def test_a_figure_of_fewer_runs_says_so() -> None:
    both, few = "ε = 1, moments, NDCG@10, full ranking", "ε = 1, DP-ALS, NDCG@10, full ranking"
    runs = {"MovieLens 1M": [{both: 0.3, few: 0.2}, {both: 0.3, few: 0.2}, {both: 0.4}]}
    units = {figure.what.partition(": ")[2]: figure.unit for figure in tables.figures(runs)}
    assert units == {both: "± 0.058", few: "± 0.000 (2 runs)"}
