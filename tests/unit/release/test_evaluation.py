"""Models that mix the rows of a batch get no two protected rows to mix."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import LinearRegression, RidgeClassifier

from tests.protecting import row_of
from tests.unit.release.lookup import background, schema, without_noise
from voile.attribution import Speed
from voile.core.errors import Refused
from voile.core.guarantee import Relation
from voile.core.schema import Feature, Numbers, Schema
from voile.models import Box, RowWise, row_wise, wrap
from voile.release import (
    PUBLIC,
    OverItself,
    PrivateBackgroundShapley,
    PrivateGlobalImportance,
    PrivateInteractions,
)
from voile.release.output_sets import BoundedModel
from voile.release.records import Records

Array = NDArray[np.float64]
RELATIONS = [Relation.REPLACE_ONE, Relation.BLANK_ONE]
OTHER = {Relation.REPLACE_ONE: 2.0, Relation.BLANK_ONE: math.nan}


def mixer(seed: int) -> Callable[[Array], Array]:
    """0 or 1 for each row, from all that is in the batch: every row can turn every answer."""

    def answers(rows: Array) -> Array:
        key = zlib.crc32(np.sort(rows, axis=0).tobytes())
        draw = np.random.default_rng([seed, key])
        once, place = np.unique(rows, axis=0, return_inverse=True)
        return draw.integers(0, 2, size=len(once))[place.reshape(-1)].astype(float)

    return answers


def settings(relation: Relation) -> dict[str, Any]:
    common = {"protected": row_of("rows 1", relation), "origins": [PUBLIC]}
    return {**common, "epsilon": 1.0, "delta": 1e-5}


def release(
    forward: Any, rows: Array, relation: Relation, kind: Any = PrivateBackgroundShapley
) -> Any:
    model = wrap(forward, outputs=Box(0, 1), digest="mixer")
    return kind(model, rows, schema=schema(rows.shape[1]), **settings(relation))


def gap(forward: Any, players: int, relation: Relation, rest: list[float]) -> float:
    """How far one record moves values and base value, as a share of the sensitivity."""
    both = [
        release(forward, background(players, row, *rest), relation)
        for row in (1.0, OTHER[relation])
    ]
    apart = np.linalg.norm(without_noise(both[0]) - without_noise(both[1]))
    return float(apart / both[0].sensitivity.value)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("players", [1, 2, 3])
def test_no_mixing_model_moves_values_beyond_the_bound(players: int, relation: Relation) -> None:
    """Random functions of whole batches; together they move values by several times the bound."""
    worst = max(gap(mixer(seed), players, relation, [3.0, 3.0, 1.0]) for seed in range(60))
    assert 0.5 < worst <= 1


# A scalar product of 0 but for rounding, whose sign changes with the number of rows beside it.
WEIGHTS = np.array([0.6, -0.3, 0.4, 0.4, -0.9, 0.2, -0.2, -0.8, -0.2, 0.0, 0.9, -0.1])
ON_THE_EDGE = np.array([7.0, 1, 7, 1, 7, 5, 9, 3, 3, 5, 4, 6])


def test_rounding_does_not_carry_a_record_into_the_labels_of_others() -> None:
    """Together, replacing one record turned the label of all: values moved by 1.0, not by 0.117."""
    fitted = RidgeClassifier().fit(np.eye(12), np.arange(12) % 2)
    fitted.coef_, fitted.intercept_ = WEIGHTS[np.newaxis], np.zeros(1)
    twelve = Schema("twelve", tuple(Feature(f"f{i}", Numbers(0.0, 10.0)) for i in range(12)))
    explained, one = ON_THE_EDGE.copy(), np.tile(ON_THE_EDGE, (16, 1))
    explained[0], other = 2.0, one.copy()
    other[0, 0] = 8.0
    groups = {"first": ["f0"], "rest": [f"f{i}" for i in range(1, 12)]}
    both = [
        PrivateBackgroundShapley(
            wrap(fitted, outputs=Box(0, 1)),
            rows,
            schema=twelve,
            groups=groups,
            **settings(Relation.REPLACE_ONE),
        )
        for rows in (one, other)
    ]
    first, second = (release.before_noise(explained[np.newaxis]) for release in both)
    assert np.linalg.norm(first - second) <= both[0].sensitivity.value


def test_every_game_is_worth_the_same_when_all_players_are_in() -> None:
    """This one turns f(x) too, where a batch holds 1s: values would move by 2·R/m, not by 1.58."""

    def turned(rows: Array) -> Any:
        first = rows[:, 0] == 0
        return (first if (rows == 1).any() else ~first).astype(float)

    assert 0.8 < gap(turned, 2, Relation.REPLACE_ONE, [3.0]) <= 1


def recorded(seen: list[Array]) -> Callable[[Array], Any]:
    def forward(rows: Array) -> Any:
        seen.append(rows.copy())
        return rows.mean(axis=1) / 3

    return forward


MIXED = np.array([[1.0, 2.0, 3.0], [2.0, 3.0, 1.0], [3.0, 1.0, 2.0]])


@pytest.mark.parametrize("kind", [PrivateBackgroundShapley, PrivateInteractions])
def test_no_call_holds_two_background_rows(kind: Any) -> None:
    seen: list[Array] = []
    release(recorded(seen), MIXED, Relation.REPLACE_ONE, kind).draw(np.zeros((2, 3)))
    assert len(seen) > len(MIXED)
    for batch in seen:
        assert any(((batch == 0) | (batch == one)).all() for one in MIXED)


def test_a_population_over_itself_is_asked_about_one_pair_in_a_call() -> None:
    seen: list[Array] = []
    model = wrap(recorded(seen), outputs=Box(0, 1), digest="recorded")
    source = OverItself(model, schema(3))
    people = np.vstack([MIXED, np.full((1, 3), np.nan)])
    PrivateGlobalImportance(source, model="m", name="x", **settings(Relation.BLANK_ONE)).draw(
        people
    )
    assert max(len(np.unique(batch[:, 0])) for batch in seen) == 2


@pytest.mark.parametrize("relation", RELATIONS)
def test_no_mixing_model_moves_the_importance_of_a_population_beyond_the_bound(
    relation: Relation,
) -> None:
    for seed in range(20):
        model = wrap(mixer(seed), outputs=Box(0, 1), digest="mixer")
        source = OverItself(model, schema(2))
        means = []
        for row in (1.0, OTHER[relation]):
            records = Records.read(background(2, 3.0, 0.0, row), schema(2), "people")
            means.append(np.abs(source.vectors(records)).mean(axis=0))
        apart = np.linalg.norm(means[0] - means[1])
        assert apart <= source.sensitivity(3, relation).value


def test_progress_is_told_as_ever() -> None:
    told: list[tuple[int, int]] = []
    model = wrap(lambda rows: rows.mean(axis=1) / 3, outputs=Box(0, 1), digest="mean")
    speed = Speed(progress=lambda *done: told.append(done))
    one = PrivateBackgroundShapley(
        model, MIXED, schema=schema(3), speed=speed, **settings(Relation.BLANK_ONE)
    )
    one.draw(np.array([[0.0, 1.0, 2.0], [0.0, 0.0, 0.0]]))
    assert told == [(0, 2), (1, 2), (2, 2)]


def test_a_known_model_that_is_all_but_a_step_is_asked_pair_by_pair() -> None:
    """It passes through points side by side: weights of 10⁹ cancel each other on every row."""
    draw = np.random.default_rng(0)
    points = np.repeat(draw.uniform(0, 3, (100, 3)), 2, axis=0)
    points[::2] += 1e-6
    wanted = points[:, 0] / 3 + 0.1 * draw.random(200)
    steep = GaussianProcessRegressor(RBF(10.0), optimizer=None).fit(points, wanted)
    flat = LinearRegression().fit(points, wanted)
    for fitted, expected in ((steep, None), (flat, RowWise.KNOWN)):
        model = wrap(fitted, outputs=Box(0, 1))
        assert row_wise(model) is RowWise.KNOWN
        assert BoundedModel.from_model(model, schema(3)).row_wise is expected


# --- Declarations ---------------------------------------------------------------------------------


def centred(rows: Array) -> Any:
    return np.abs(rows - rows.mean(axis=0)).mean(axis=1) / 4


def highest(rows: Array) -> Array:
    return np.full(len(rows), rows.max() / 3)


@pytest.mark.parametrize("forward", [centred, highest, mixer(0)])
def test_a_declaration_that_is_seen_to_be_false_is_refused(forward: Any) -> None:
    model = wrap(forward, outputs=Box(0, 1), digest="false", treats_rows_independently=True)
    with pytest.raises(Refused, match="differ by"):
        BoundedModel.from_model(model, schema(3))
    BoundedModel.from_model(replace(model, treats_rows_independently=False), schema(3))


def test_the_probe_looks_at_no_protected_row_and_counts_for_nobody() -> None:
    seen: list[Array] = []
    model = wrap(recorded(seen), outputs=Box(0, 1), digest="seen", treats_rows_independently=True)
    PrivateBackgroundShapley(model, MIXED, schema=schema(3), **settings(Relation.BLANK_ONE))
    before = len(seen)
    PrivateBackgroundShapley(model, MIXED[:1], schema=schema(3), **settings(Relation.BLANK_ONE))
    assert all(map(np.array_equal, seen[:before], seen[before:]))
    assert model.diagnostics.rows == 2  # the null row that every model is asked about
