"""Sampled values: their intervals, their effort, and when they are exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binomtest

from voile.attribution import (
    Evaluations,
    ExactShapley,
    KernelShapley,
    Lime,
    PermutationShapley,
    Tolerance,
)
from voile.attribution.kernel import allocation, designs, pairs_of_size, smallest_design
from voile.core.errors import InvalidInput
from voile.core.row_note import RowNote

Array = NDArray[np.float64]
SAMPLED: list[Any] = [KernelShapley, PermutationShapley]
DRAW = np.random.default_rng(5)
PLAYERS = 8
BACKGROUND = DRAW.normal(size=(30, PLAYERS))
WEIGHTS = DRAW.normal(size=(PLAYERS, 5)) / 2


def wavy(rows: Array) -> Array:
    """Interactions of every order."""
    return np.asarray(np.sin(2 * rows @ WEIGHTS).sum(axis=1))


def two_way(rows: Array) -> Array:
    return np.asarray(rows[:, 0] * rows[:, 1] - rows[:, 2] * rows[:, 7] + np.exp(rows[:, 3]))


@pytest.mark.parametrize("method", SAMPLED)
@pytest.mark.parametrize(
    "evaluations", [400, 600, 1_600, 3_000], ids=["some rows", "each once", "each", "more"]
)
def test_95_percent_intervals_hold_the_truth_95_percent_of_the_time(
    method: Any, evaluations: int
) -> None:
    """One value of one row counts as one case: values of a row depend on each other."""
    rows = np.random.default_rng(21).normal(size=(40, PLAYERS))
    truth = ExactShapley(wavy, BACKGROUND)(rows).values
    inside = []
    for seed in range(40):
        found = method(wavy, BACKGROUND, effort=Evaluations(evaluations), seed=seed)(rows)
        hits = np.abs(found.values - truth) <= 1.96 * found.standard_errors
        inside += [hits[place, (place + seed) % PLAYERS, 0] for place in range(len(rows))]
    assert len(inside) == 1_600
    assert binomtest(int(np.sum(inside)), len(inside), 0.95).pvalue > 1e-6


@pytest.mark.parametrize("method", SAMPLED)
def test_standard_errors_are_as_large_as_the_errors(method: Any) -> None:
    rows = np.random.default_rng(22).normal(size=(30, PLAYERS))
    truth = ExactShapley(wavy, BACKGROUND)(rows).values
    found = method(wavy, BACKGROUND, effort=Evaluations(3_000))(rows)
    actual = np.sqrt(np.mean((found.values - truth) ** 2))
    claimed = np.sqrt(np.mean(np.asarray(found.standard_errors) ** 2))
    assert 0.8 < claimed / actual < 1.25


@pytest.mark.parametrize("method", SAMPLED)
def test_pairwise_models_are_explained_without_error(method: Any) -> None:
    rows = np.random.default_rng(23).normal(size=(3, PLAYERS))
    found: Any = method(two_way, BACKGROUND, effort=Evaluations(3_000))(rows)
    assert np.allclose(found.values, ExactShapley(two_way, BACKGROUND)(rows).values, atol=1e-11)
    assert np.max(found.standard_errors) < 1e-12


def test_the_regression_is_exact_once_it_has_all_coalitions() -> None:
    rows = np.random.default_rng(24).normal(size=(3, PLAYERS))
    effort = Evaluations(len(BACKGROUND) * 2**PLAYERS)
    found: Any = KernelShapley(wavy, BACKGROUND, effort=effort)(rows)
    assert np.allclose(found.values, ExactShapley(wavy, BACKGROUND)(rows).values, atol=1e-11)
    assert np.max(found.standard_errors) == 0.0


def test_few_background_rows_are_chosen_when_the_effort_is_small() -> None:
    """And the answer still adds up, because the mean of all background outputs is known."""
    many = np.random.default_rng(25).normal(size=(5_000, PLAYERS))
    seen: list[int] = []

    def counted(rows: Array) -> Array:
        seen.append(len(rows))
        return wavy(rows)

    for method in SAMPLED:
        explainer = method(counted, many, effort=Evaluations(2_000))
        base = explainer.game.base
        seen.clear()
        found = explainer(many[:1])
        assert sum(seen) <= 2_200
        assert np.allclose(found.values.sum(axis=1) + base, wavy(many[:1]))


@pytest.mark.parametrize("method", SAMPLED)
def test_a_tolerance_is_kept_or_reported(method: Any) -> None:
    rows = np.random.default_rng(26).normal(size=(4, PLAYERS))
    found = method(wavy, BACKGROUND, effort=Tolerance(0.01))(rows)
    assert np.max(found.standard_errors) < 0.01
    assert found.notes == ()
    truth = ExactShapley(wavy, BACKGROUND)(rows).values
    assert np.abs(found.values - truth).max() < 0.05
    short = method(wavy, BACKGROUND, effort=Tolerance(1e-6, at_most=4_000))(rows)
    assert short.notes == (RowNote("tolerance not reached", (0, 1, 2, 3)),)


def test_efforts_that_make_no_sense() -> None:
    for wrong in (lambda: Evaluations(0), lambda: Tolerance(0.0), lambda: Tolerance(float("nan"))):
        with pytest.raises(InvalidInput):
            wrong()


@pytest.mark.parametrize("players", range(2, 18))
def test_designs_hold_what_they_promise(players: int) -> None:
    pairs = smallest_design(players) + 5
    counts = allocation(players, pairs)
    assert counts[1] == pairs_of_size(players, 1)
    assert sum(counts.values()) <= pairs + players
    assert all(1 <= n <= pairs_of_size(players, s) for s, n in counts.items())
    plan = designs(players, pairs, 3, 0)
    assert (plan.coalitions.sum(axis=2) == plan.sizes).all()
    for design in plan.coalitions:
        # No coalition twice, and no coalition beside its complement.
        both = np.concatenate([design, ~design])
        listed = plan.chance < 1
        assert len(np.unique(both[np.tile(listed, 2)], axis=0)) == 2 * listed.sum()
    # The solution recovers any values that add up to zero from their responses.
    values = np.random.default_rng(players).normal(size=players)
    values -= values.mean()
    responses = 2 * plan.memberships @ values
    assert np.allclose(np.einsum("gpn,gn->gp", plan.solve, responses), values, atol=1e-9)


def test_seeds_choose_the_coalitions() -> None:
    rows = np.random.default_rng(27).normal(size=(2, PLAYERS))
    for method in SAMPLED:
        one = method(wavy, BACKGROUND, effort=Evaluations(2_000), seed=1)
        two = method(wavy, BACKGROUND, effort=Evaluations(2_000), seed=2)
        assert one(rows) == one(rows)
        assert not one(rows).allclose(two(rows))


def test_many_players() -> None:
    """A hundred players with pairwise interactions: exact, and quick."""
    background = np.random.default_rng(28).normal(size=(20, 100))
    weights = np.random.default_rng(29).normal(size=100)

    def model(rows: Array) -> Array:
        return np.asarray(rows @ weights + rows[:, 0] * rows[:, 99])

    row = np.random.default_rng(30).normal(size=(1, 100))
    mean = background.mean(axis=0)
    expected = weights * (row[0] - mean)
    for here, there in ((0, 99), (99, 0)):
        # Half of the pair's own interaction, and its main effect against the background.
        difference = row[0, here] - background[:, here]
        expected[here] += np.mean(difference * (row[0, there] + background[:, there]) / 2)
    for method in SAMPLED:
        found = method(model, background, effort=Evaluations(20_000))(row)
        assert np.allclose(found.values[0, :, 0], expected, atol=1e-9)


def test_lime_finds_the_coefficients_of_a_linear_model() -> None:
    weights = np.arange(1.0, PLAYERS + 1)
    rows = np.random.default_rng(31).normal(size=(3, PLAYERS))
    found = Lime(lambda r: r @ weights, BACKGROUND, samples=20_000, ridge=0.0)(rows)
    expected = weights * (rows - BACKGROUND.mean(axis=0))
    gap = np.abs(found.values[:, :, 0] - expected)
    assert (gap < 5 * np.asarray(found.standard_errors)[:, :, 0]).all()
    assert gap.max() < 0.5
    drawn = Lime(lambda r: r @ weights, BACKGROUND, samples=20_000, ridge=10.0)(rows)
    assert np.abs(drawn.values).sum() < 0.3 * np.abs(found.values).sum()


@pytest.mark.parametrize("settings", [{"samples": 5}, {"width": 0.0}, {"ridge": -1.0}])
def test_settings_of_lime_that_make_no_sense(settings: Any) -> None:
    with pytest.raises(InvalidInput):
        Lime(wavy, BACKGROUND, **settings)


def test_lime_looks_near_the_row() -> None:
    """A model that is 1 at the row and 0 elsewhere: near by, one player off changes everything."""
    row = np.ones((1, 4))

    def model(rows: Array) -> Array:
        return np.asarray((rows == 1.0).all(axis=1), dtype=float)

    near = Lime(model, np.zeros((2, 4)), width=0.4, ridge=0.0)(row).values[0, :, 0]
    far = Lime(model, np.zeros((2, 4)), width=50.0, ridge=0.0)(row).values[0, :, 0]
    assert (near > 0.6).all()
    assert np.allclose(far, 2 / 16, atol=0.03)  # the least-squares slope over all 16 corners
