"""The axioms that characterise Shapley values, for games drawn at random."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, permutations
from math import factorial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from voile.attribution import (
    CONSTANT_WORK,
    Evaluations,
    ExactShapley,
    KernelShapley,
    PermutationShapley,
    ShapleyInteractions,
    ShortCuts,
    Speed,
    SurrogateShapley,
)

Array = NDArray[np.float64]
Model = Callable[[Array], Array]


def random_model(seed: int, players: int, used: int | None = None) -> Model:
    """A smooth function with interactions of all orders, of the first `used` features."""
    draw = np.random.default_rng(seed)
    weights = draw.normal(size=(players, 6))
    if used is not None:
        weights[used:] = 0.0
    out = draw.normal(size=(6, 2))
    return lambda rows: np.tanh(rows @ weights) @ out


def data(seed: int, players: int, levels: int) -> tuple[Array, Array]:
    """Rows and background rows; few levels make players equal and rows repeat."""
    draw = np.random.default_rng([seed, 1])
    if levels:
        return (
            draw.integers(levels, size=(4, players)).astype(float),
            draw.integers(levels, size=(6, players)).astype(float),
        )
    return draw.normal(size=(4, players)), draw.normal(size=(6, players))


METHODS: list[Any] = [
    pytest.param(ExactShapley, id="exact"),
    pytest.param(lambda m, b, **k: KernelShapley(m, b, effort=Evaluations(400), **k), id="kernel"),
    pytest.param(
        lambda m, b, **k: PermutationShapley(m, b, effort=Evaluations(400), **k), id="permutation"
    ),
]
games = given(
    seed=st.integers(0, 2**32 - 1), players=st.integers(1, 7), levels=st.sampled_from([0, 2, 3])
)
few = settings(max_examples=40, deadline=None)


def by_definition(model: Model, row: Array, background: Array) -> Array:
    """The mean over all orders of what each player adds; slow and plain."""
    players = len(row)
    orders = list(permutations(range(players)))
    total = np.zeros((players, model(background).shape[1]))
    for order in orders:
        inputs = background.copy()
        before = model(inputs).mean(axis=0)
        for player in order:
            inputs[:, player] = row[player]
            after = model(inputs).mean(axis=0)
            total[player] += after - before
            before = after
    return total / len(orders)


@few
@given(seed=st.integers(0, 2**32 - 1), players=st.integers(1, 5), levels=st.sampled_from([0, 2, 3]))
def test_exact_values_are_those_of_the_definition(seed: int, players: int, levels: int) -> None:
    model, (rows, background) = random_model(seed, players), data(seed, players, levels)
    found = ExactShapley(model, background)(rows).values
    for row, values in zip(rows, found, strict=True):
        assert np.allclose(values, by_definition(model, row, background), atol=1e-12)


@pytest.mark.parametrize("build", METHODS)
@few
@games
def test_additivity(build: Any, seed: int, players: int, levels: int) -> None:
    model, (rows, background) = random_model(seed, players), data(seed, players, levels)
    found = build(model, background)(rows)
    total = found.values.sum(axis=1) + found.base_values
    assert np.allclose(total, model(rows), atol=1e-10)
    assert np.allclose(found.base_values, model(background).mean(axis=0), atol=1e-12)


@pytest.mark.parametrize("build", METHODS)
@few
@games
def test_dummy(build: Any, seed: int, players: int, levels: int) -> None:
    used = players // 2
    model, (rows, background) = random_model(seed, players, used), data(seed, players, levels)
    found = build(model, background)(rows)
    idle = found.values[:, used:]
    if build is ExactShapley:
        assert np.allclose(idle, 0.0, atol=1e-12)
    else:
        # Sampled values of an idle player lie around zero, as their standard errors say.
        assert (np.abs(idle) <= 8 * found.standard_errors[:, used:] + 1e-12).all()


@few
@games
def test_symmetry(seed: int, players: int, levels: int) -> None:
    """Two players that the model and the data cannot tell apart get the same."""
    inner, (rows, background) = random_model(seed, players), data(seed, players, levels)

    def model(given: Array) -> Array:
        swapped = given.copy()
        swapped[:, [0, -1]] = given[:, [-1, 0]]
        return inner(given) + inner(swapped)

    rows[:, -1] = rows[:, 0]
    background[:, -1] = background[:, 0]
    found = ExactShapley(model, background)(rows).values
    assert np.allclose(found[:, 0], found[:, -1], atol=1e-11)


@pytest.mark.parametrize("build", METHODS)
@few
@games
def test_linearity(build: Any, seed: int, players: int, levels: int) -> None:
    """Also for sampled values: the same seed looks at the same coalitions."""
    one, two = random_model(seed, players), random_model(seed + 1, players)
    rows, background = data(seed, players, levels)
    found = build(lambda r: 2 * one(r) - 3 * two(r), background)(rows).values
    parts = 2 * build(one, background)(rows).values - 3 * build(two, background)(rows).values
    assert np.allclose(found, parts, atol=1e-9)


@few
@given(
    seed=st.integers(0, 2**32 - 1),
    players=st.integers(1, 6),
    levels=st.sampled_from([0, 2, 3]),
    equal=st.booleans(),
    rows_once=st.booleans(),
    inputs_once=st.booleans(),
    batch=st.sampled_from([1, 3, 8, 64, 4096]),
)
def test_short_cuts_and_batches_change_nothing(
    seed: int,
    players: int,
    levels: int,
    equal: bool,
    rows_once: bool,
    inputs_once: bool,
    batch: int,
) -> None:
    model, (rows, background) = random_model(seed, players), data(seed, players, levels)
    speed = Speed(batch_rows=batch, short_cuts=ShortCuts(equal, rows_once, inputs_once))
    plain = Speed(short_cuts=CONSTANT_WORK)
    for method in (ExactShapley, ShapleyInteractions):
        quick = method(model, background, speed=speed)(rows)
        assert quick.allclose(method(model, background, speed=plain)(rows), atol=1e-11)


def test_short_cuts_leave_out_evaluations_and_constant_work_does_not() -> None:
    counted: list[int] = []

    def model(rows: Array) -> Array:
        counted.append(len(rows))
        return np.asarray(rows.sum(axis=1))

    def evaluations(rows: Array, background: Array, short_cuts: ShortCuts) -> int:
        explainer = ExactShapley(model, background, speed=Speed(short_cuts=short_cuts))
        explainer.game.background_outputs  # noqa: B018  # counted apart
        counted.clear()
        explainer(rows)
        return sum(counted)

    rows = np.zeros((3, 5))
    background = np.array([[0.0, 0, 0, 1, 1], [0.0, 0, 0, 1, 1]])
    none = ShortCuts(False, False, False)
    assert evaluations(rows, background, none) == 3 * 2 * 2**5
    assert evaluations(rows, background, ShortCuts(True, False, False)) == 3 * 2 * 2**2
    assert evaluations(rows, background, ShortCuts(False, True, False)) == 2**5
    assert evaluations(np.tile(rows, (20, 1)), background, ShortCuts(False, False, True)) == 2**2
    assert evaluations(rows, background, ShortCuts()) == 2**2
    draw = np.random.default_rng(0)
    other = draw.normal(size=(3, 5))
    assert evaluations(other, background, CONSTANT_WORK) == evaluations(
        rows, background, CONSTANT_WORK
    )


@few
@games
def test_interactions_add_up_and_vanish_without_interaction(
    seed: int, players: int, levels: int
) -> None:
    model, (rows, background) = random_model(seed, players), data(seed, players, levels)
    found = ShapleyInteractions(model, background)(rows)
    assert found.shape[1] == players * (players + 1) // 2
    assert np.allclose(found.values.sum(axis=1) + found.base_values, model(rows), atol=1e-10)
    additive = ShapleyInteractions(lambda r: np.sin(r).sum(axis=1), background)(rows)
    assert np.allclose(additive.values[:, players:], 0.0, atol=1e-12)


@few
@given(seed=st.integers(0, 2**32 - 1), players=st.integers(2, 5), levels=st.sampled_from([0, 2, 3]))
def test_interactions_are_those_of_the_definition(seed: int, players: int, levels: int) -> None:
    """I_ij = Σ_S |S|! (d − |S| − 2)!/(d − 1)! of the second difference, over S without i and j."""
    model, (rows, background) = random_model(seed, players), data(seed, players, levels)

    def worth(row: Array, coalition: frozenset[int]) -> Array:
        inputs = background.copy()
        inputs[:, list(coalition)] = row[list(coalition)]
        return np.asarray(model(inputs).mean(axis=0))

    found = ShapleyInteractions(model, background)(rows)
    row = rows[0]
    for place, (i, j) in enumerate(combinations(range(players), 2)):
        others = [player for player in range(players) if player not in (i, j)]
        expected = np.zeros(2)
        for size in range(len(others) + 1):
            weight = factorial(size) * factorial(players - size - 2) / factorial(players - 1)
            for chosen in combinations(others, size):
                s = frozenset(chosen)
                expected += weight * (
                    worth(row, s | {i, j})
                    - worth(row, s | {i})
                    - worth(row, s | {j})
                    + worth(row, s)
                )
        assert np.allclose(found.values[0, players + place], expected, atol=1e-11)


def test_the_interaction_of_a_product() -> None:
    """f = x·y against the baseline 0: the pair gets everything, neither gets anything alone."""
    found = ShapleyInteractions(
        lambda r: r[:, 0] * r[:, 1] + r[:, 2], np.zeros((1, 3)), feature_names=("x", "y", "z")
    )(np.array([[2.0, 3.0, 5.0]]))
    named = dict(zip(found.feature_names, found.values[0, :, 0], strict=True))
    assert named == pytest.approx(
        {"x": 0, "y": 0, "z": 5, "x × y": 6, "x × z": 0, "y × z": 0}, abs=1e-12
    )


@few
@games
def test_a_surrogate_of_the_interventional_game_has_its_values(
    seed: int, players: int, levels: int
) -> None:
    model, (rows, background) = random_model(seed, players), data(seed, players, levels)

    class Surrogate:
        output_names = None
        feature_names = None

        def predict_present(self, given: Array, present: NDArray[np.bool_]) -> Array:
            filled = np.where(present[:, np.newaxis], given[:, np.newaxis], background)
            answers = model(filled.reshape(-1, players))
            mean: Array = answers.reshape(len(given), len(background), -1).mean(axis=1)
            return mean

    found = SurrogateShapley(Surrogate(), speed=Speed(batch_rows=8))(rows)
    assert np.allclose(found.values, ExactShapley(model, background)(rows).values, atol=1e-11)
    assert np.allclose(found.base_values, model(background).mean(axis=0))


@few
@given(seed=st.integers(0, 2**32 - 1))
def test_groups_play_the_game_of_groups(seed: int) -> None:
    """Against a model that takes one number for each group, by the definition."""
    model, (rows, background) = random_model(seed, 5), data(seed, 5, 3)
    groups = {"a": ["feature 0", "feature 3"], "b": ["feature 1", "feature 4"]}
    found = ExactShapley(model, background, groups=groups)(rows)
    owner = np.array([0, 1, 2, 0, 1])
    for row, values in zip(rows, found.values, strict=True):

        def coalition(flags: Array, row: Array = row) -> Array:
            inside = flags[:, owner] > 0
            filled = np.where(inside[:, np.newaxis], row, background)
            worths = model(filled.reshape(-1, 5)).reshape(len(flags), -1, 2)
            return np.asarray(worths.mean(axis=1))

        expected = by_definition(coalition, np.ones(3), np.zeros((1, 3)))
        assert np.allclose(values, expected, atol=1e-11)
