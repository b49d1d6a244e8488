"""The betting test: false alarms are as rare as Ville says, and false claims fall."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from voile.assess.assessment import fair_coins
from voile.assess.betting import FIRST_GUESSES, Bet, EValue, Guess
from voile.assess.claims import CurvePoint, curve_points
from voile.privacy.events import Gaussian

Floats = NDArray[np.float64]
MU = 0.5
AUDITS = 1_000
MOST_ALARMS = 9
"""Of 1,000 true claims at 1,000 to one each: more come once in ten million times (Poisson)."""
CANARIES, RUNS, BLOCKS = 6, 20, 8


def independent(draw: np.random.Generator, coins: NDArray[np.bool_], mu: float) -> Floats:
    return mu * coins + draw.normal(size=coins.shape)


def one_sum(draw: np.random.Generator, coins: NDArray[np.bool_], mu: float) -> Floats:
    """All canaries move one noisy number: what is known of one is known of all."""
    total = mu * coins.sum(axis=1, keepdims=True) + draw.normal(size=(len(coins), 1))
    return np.repeat(total, coins.shape[1], axis=1)


Law = Callable[[np.random.Generator, NDArray[np.bool_], float], Floats]


def audit(draw: np.random.Generator, law: Law, points: tuple[CurvePoint, ...], mu: float) -> float:
    """The largest e-value that is seen."""
    wager, largest = Bet(points, ("score",)), 0.0
    for _ in range(BLOCKS):
        coins = fair_coins(draw, RUNS, CANARIES)
        wager.stake({"score": law(draw, coins, mu)}, coins)
        largest = max(largest, wager.e_value)
    return largest


@pytest.mark.parametrize("law", [independent, one_sum])
def test_true_claims_fall_once_in_a_thousand_times_at_most(law: Law) -> None:
    draw, points = np.random.default_rng(), curve_points(Gaussian(1 / MU))
    alarms = sum(audit(draw, law, points, MU) >= 1000 for _ in range(AUDITS))
    assert alarms <= MOST_ALARMS


def test_a_false_claim_falls() -> None:
    draw, points = np.random.default_rng(), curve_points(Gaussian(1 / MU))
    wager = Bet(points, ("score",))
    while wager.e_value < 1e9 and wager.runs < 5000:
        coins = fair_coins(draw, 10, 20)
        wager.stake({"score": independent(draw, coins, 2 * MU)}, coins)
    assert wager.runs < 1000
    bounds, against = wager.by_variation
    assert bounds[0] == points[0].bound
    assert (np.diff(against) >= 0).all()  # who refutes a claim refutes all smaller ones


def test_exactly_half_of_the_canaries_would_tell_of_each_other() -> None:
    """With two canaries and μ = 0.5, of whom exactly one is in, comparing them is right with an
    advantage of 0.276, where each coin by itself allows 0.197: so coins are fair and each its own.
    """
    draw = np.random.default_rng()
    first = draw.integers(0, 2, 400_000).astype(np.bool_)
    coins = np.column_stack([first, ~first])
    scores = independent(draw, coins, MU)
    right = (scores[:, 0] > scores[:, 1]) == first
    assert 2 * right.mean() - 1 == pytest.approx(0.276, abs=0.008)
    assert curve_points(Gaussian(1 / MU))[0].bound == pytest.approx(0.197, abs=1e-3)
    assert len({tuple(row) for row in fair_coins(draw, 200, 2)}) == 4


def test_wealth_expects_to_win_nothing_and_never_owes() -> None:
    wealth = EValue(np.array([0.2]), -1.0)
    wealth.stake(np.array([-1.0]))
    assert 0 < wealth.e_values[0] < 1
    for outcome, chance in ((1.0, 0.6), (-1.0, 0.4)):  # a mean of exactly 0.2
        assert 0 <= chance <= 1
        fresh = EValue(np.array([0.2]), -1.0)
        fresh.stake(np.array([outcome]))
        assert fresh.e_values[0] >= 0
    up, down = EValue(np.array([0.2]), -1.0), EValue(np.array([0.2]), -1.0)
    up.stake(np.array([1.0]))
    down.stake(np.array([-1.0]))
    assert 0.6 * up.e_values[0] + 0.4 * down.e_values[0] == pytest.approx(1.0)


def test_nothing_is_staked_before_there_is_anything_to_learn_from() -> None:
    wager, coins = (
        Bet((CurvePoint(1.0, 0.1),), ("score",)),
        np.ones((1, FIRST_GUESSES), dtype=np.bool_),
    )
    wager.stake({"score": np.zeros(coins.shape)}, coins)
    assert wager.e_value == 1.0
    wager.stake({"score": np.zeros(coins.shape)}, coins)
    assert wager.e_value != 1.0


@pytest.mark.parametrize("swapped", [False, True])
def test_a_threshold_is_found_on_either_side(swapped: bool) -> None:
    """Scores of those inside are lower: the learned guess follows, at every point of the curve."""
    draw = np.random.default_rng(3)
    coins = fair_coins(draw, 50, 40)
    scores = -8.0 * coins + draw.normal(size=coins.shape)
    for point in (CurvePoint(1.0, 0.2), CurvePoint(3.0, 0.1, swapped)):
        guess = Guess(point)
        guess.learn(scores, coins)
        perfect = 1.0 if point.weight == 1 else 2 * (~coins if swapped else coins).mean()
        assert guess.figures(scores, coins).mean() == pytest.approx(perfect, abs=0.02)


def test_equal_scores_get_equal_guesses() -> None:
    guess, coins = Guess(CurvePoint(1.0, 0.2)), fair_coins(np.random.default_rng(4), 10, 20)
    guess.learn(np.zeros(coins.shape), coins)
    right = guess.figures(np.zeros(coins.shape), coins)
    assert np.allclose(np.abs(right), np.abs(2 * coins.mean(axis=1) - 1))
