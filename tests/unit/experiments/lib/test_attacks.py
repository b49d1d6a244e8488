"""Attacks by hand: what they find where something is to be found, and where nothing is."""

from __future__ import annotations

import numpy as np
import pytest
from experiments.lib.attacks.explanation_attacks import background_scores, name_newcomer, name_row
from experiments.lib.attacks.gradient_leakage import (
    gradient,
    read_exactly,
    row_of_gradient,
    rows_of_staggered,
    staggered,
)
from experiments.lib.attacks.membership import likelihood_ratios
from experiments.lib.attacks.one_run import curve_epsilon_at_least, epsilon_at_least, p_value
from numpy.typing import NDArray

from voile.assess.members_count import area_under_curve
from voile.core.errors import InvalidInput
from voile.training import Softmax, TargetLoss, perceptron

ELSEWHERE = {
    (1000, 1000, 640): (0.464961, 0.889884),
    (1000, 500, 400): (1.197969, 2.076807),
    (10_000, 2_000, 1_400): (0.764755, 1.089463),
    (100_000, 10_000, 6_000): (0.369100, 0.453769),
}
"""Canaries, guesses and right ones; epsilon found for (epsilon, delta) and for Gaussian curves."""
DRAW = np.random.default_rng(7)
VECTORS = DRAW.normal(size=(60, 5))
KNOWN, CANDIDATES = VECTORS[:20], VECTORS[20:]


def test_the_newcomer_of_the_day_after_is_named() -> None:
    for left, new in ((0, 3), (19, 39), (7, 0)):
        before = KNOWN.mean(axis=0)
        after = before + (CANDIDATES[new] - KNOWN[left]) / len(KNOWN)
        assert name_newcomer(before, after, KNOWN, CANDIDATES) == new


def test_who_is_explained_is_named() -> None:
    assert [name_row(vector, CANDIDATES) for vector in CANDIDATES] == list(range(40))


def test_background_rows_stand_out_in_means() -> None:
    vectors = DRAW.normal(size=(400, 8, 5))
    seen = vectors[:30].mean(axis=0)
    areas = []
    for noise in (0.0, 1.0):
        noisy = seen + noise * DRAW.normal(size=seen.shape)
        scores = background_scores(noisy, vectors[:60], vectors[60:], rows=30, noise=noise)
        areas.append(area_under_curve(scores[:30], scores[30:]))
    assert areas[0] > 0.75
    assert areas[1] < areas[0]


# --- gradients ------------------------------------------------------------------------------------

LOSS = TargetLoss(Softmax())


def batch(rows: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    inputs = DRAW.uniform(size=(rows, 6)).astype(np.float32)
    return inputs, np.eye(2, dtype=np.float32)[DRAW.integers(0, 2, rows)]


def test_one_row_is_read_in_closed_form() -> None:
    network = perceptron(6, (16,), 2, DRAW)
    network.layers[-1].weight[:] = DRAW.normal(size=(2, 16))
    one = batch(1)
    found = row_of_gradient(network, gradient(network, LOSS, one))
    np.testing.assert_allclose(found, one[0][0], atol=1e-3)


def test_a_last_layer_of_zeros_hides_it_in_the_first_round() -> None:
    network, one = perceptron(6, (16,), 2, DRAW), batch(1)
    assert read_exactly(row_of_gradient(network, gradient(network, LOSS, one))[None], one[0]) == 0


def test_a_malicious_server_reads_rows_alone_and_out_of_a_sum() -> None:
    direction = DRAW.normal(size=6).astype(np.float32)
    cuts = np.quantile(batch(2000)[0] @ direction, np.linspace(0, 0.995, 400)).astype(np.float32)
    network = staggered(6, 400, 2, cuts, direction)
    parts = [batch(4) for _ in range(3)]
    alone = rows_of_staggered(network, gradient(network, LOSS, parts[0]))
    assert read_exactly(alone, parts[0][0]) >= 0.75
    summed = sum(gradient(network, LOSS, part) for part in parts)
    rows = np.concatenate([part[0] for part in parts])
    assert read_exactly(rows_of_staggered(network, np.asarray(summed)), rows) >= 0.5


# --- membership -----------------------------------------------------------------------------------


def test_likelihood_ratios_find_what_a_model_remembers() -> None:
    def train(places: NDArray[np.intp]) -> NDArray[np.bool_]:
        remembered = np.zeros(50, dtype=np.bool_)
        remembered[places] = True
        return remembered

    def score(remembered: NDArray[np.bool_]) -> NDArray[np.float64]:
        return remembered + DRAW.normal(0, 0.5, 50)

    ratios, inside = likelihood_ratios(train, score, 50, shadows=30, seed=0)
    assert area_under_curve(ratios[inside], ratios[~inside]) > 0.8
    nothing, inside = likelihood_ratios(
        train, lambda _: DRAW.normal(size=50), 50, shadows=30, seed=0
    )
    assert 0.2 < area_under_curve(nothing[inside], nothing[~inside]) < 0.8


# --- one run --------------------------------------------------------------------------------------


def test_one_run_bounds_are_those_that_were_computed_elsewhere() -> None:
    """By jax-privacy 2.0.0, at delta 1e-5 and 95 % (`benchmarks/assessment.py`)."""
    for (canaries, guesses, right), (plain, curve) in ELSEWHERE.items():
        found = epsilon_at_least(canaries, guesses, right, delta=1e-5)
        assert found == pytest.approx(plain, abs=1e-3)
        found = curve_epsilon_at_least(canaries, guesses, right, delta=1e-5)
        assert found == pytest.approx(curve, abs=1e-3)


def test_coin_flips_refute_nothing() -> None:
    assert epsilon_at_least(1000, 1000, 500, delta=1e-5) == 0.0
    assert curve_epsilon_at_least(1000, 1000, 500, delta=1e-5) == 0.0
    assert p_value(10, 10, 0, 1.0, 0.0) == 1.0


def test_impossible_counts_are_refused() -> None:
    with pytest.raises(InvalidInput, match="right <= guesses"):
        p_value(10, 5, 6, 1.0, 0.0)
