"""Rows on which a surrogate agrees with itself."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from tests.unit.attribution.fastshap.examples import PLAN, SCHEMA, surrogate

from voile.attribution.fastshap import (
    Surrogate,
    consistent_rows,
    distil,
    inferred_marginals,
    train_surrogate,
)
from voile.attribution.fastshap.distil import RIDGE, _tilted
from voile.core.randomness import Seeded
from voile.core.schema import Categories, Feature, Schema
from voile.training import TrainingPlan

TWINS = Schema("twins", tuple(Feature(n, Categories((0, 1))) for n in "abc"))


@cache
def of_twins() -> Surrogate:
    """Features a and b are always equal in the data, which the surrogate alone has seen."""
    draw = np.random.default_rng(0)
    given = draw.integers(0, 2, (6_000, 3)).astype(float)
    given[:, 1] = given[:, 0]

    def forward(x: np.ndarray) -> np.ndarray:
        found: np.ndarray = x @ np.array([0.4, 0.4, 0.2])
        return found

    return train_surrogate(forward, given, source=Seeded(0), schema=TWINS, plan=PLAN)


def test_features_that_go_together_are_drawn_together() -> None:
    found = of_twins()
    laws = inferred_marginals(found, TWINS)
    drawn = consistent_rows(found, laws, 3_000, np.random.default_rng(1))
    apart = laws.draw(3_000, np.random.default_rng(1))
    assert (apart[:, 0] == apart[:, 1]).mean() < 0.65
    assert (drawn[:, 0] == drawn[:, 1]).mean() > 0.9
    assert drawn.mean(axis=0) == pytest.approx([0.5] * 3, abs=0.1)


def test_answers_keep_their_mean_while_features_become_known() -> None:
    found = of_twins()
    laws = inferred_marginals(found, TWINS)
    drawn = consistent_rows(found, laws, 4_000, np.random.default_rng(2))
    # Outputs lie in [0, 1]: a mean of 4,000 is off by 0.05 with a chance below 1e-8 (Hoeffding);
    # the rest is room for the ridge.
    assert found.predict(drawn).mean() == pytest.approx(found.base[0], abs=0.08)


def test_the_tilt_meets_the_equation_where_it_can() -> None:
    draw = np.random.default_rng(0)
    gaps = draw.normal(size=(200, 16, 2)) + draw.normal(size=(200, 1, 2)) / 2
    chances = _tilted(gaps)
    mean = (chances[..., np.newaxis] * gaps).sum(1)
    assert chances.sum(1) == pytest.approx(np.ones(200))
    met = np.abs(mean).max(1)
    assert np.median(np.abs(gaps.mean(1)).max(1)) > 0.3
    assert np.median(met) < 3 * RIDGE


def test_a_tilt_that_cannot_meet_the_equation_takes_what_is_nearest() -> None:
    gaps = np.array([[[1.0], [2.0], [3.0]], [[0.0], [0.0], [0.0]]])
    chances = _tilted(gaps)
    assert chances[0, 0] > 0.95
    assert chances[1] == pytest.approx([1 / 3] * 3)


@pytest.mark.parametrize("grouped", [False, True])
def test_rows_lie_inside_the_schema(grouped: bool) -> None:
    found = surrogate(grouped)
    laws = inferred_marginals(found, SCHEMA)
    drawn = consistent_rows(found, laws, 300, np.random.default_rng(0))
    assert drawn.shape == (300, 4)
    assert (SCHEMA.clamp(drawn) == drawn).all()
    again = consistent_rows(found, laws, 300, np.random.default_rng(0))
    assert (drawn == again).all()
    assert consistent_rows(found, laws, 0, np.random.default_rng(0)).shape == (0, 4)


@pytest.mark.parametrize("share", [0.0, 0.001, 1.0])
def test_any_share_of_rows_can_be_consistent(share: float) -> None:
    plan = TrainingPlan(steps=4, batch_rows=64, hidden=(8,))
    made = distil(surrogate(True), SCHEMA, source=Seeded(0), plan=plan, inferred_share=share)
    assert np.isfinite(made.on_schema.largest_error)
