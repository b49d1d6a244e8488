"""`PrivateInteractions`: values, base and pairs over a private background."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

from tests.contract.releases import MODEL, PEOPLE, SCHEMA, TRAINED
from tests.protecting import joined, row_of
from voile.attribution import CONSTANT_WORK, ExactShapley, ShapleyInteractions, Speed
from voile.core.errors import Refused
from voile.core.guarantee import Protected, ProtectedUnit, Relation
from voile.core.schema import Categories, Feature, Schema
from voile.models import Box, wrap
from voile.privacy.sensitivity import interaction_background, shapley_background_with_base
from voile.release import PUBLIC, PrivateInteractions
from voile.release.levels import NOT_ADDITIVE

RELATIONS = [Relation.BLANK_ONE, Relation.REPLACE_ONE]
NULL = np.nan


def schema_of(features: int) -> Schema:
    return Schema("grid", tuple(Feature(f"f{i}", Categories((0, 1, 2))) for i in range(features)))


def table_model(table: Any) -> Any:
    """Any function on the grid {0, 1, 2}^d, as the table of its values."""
    return wrap(
        lambda rows: table[tuple(rows.astype(int).T)],
        outputs=Box(0, 1),
        digest="table",
        treats_rows_independently=True,
    )


def release(table: Any, background: Any, **changes: Any) -> PrivateInteractions:
    settings: dict[str, Any] = {
        "schema": schema_of(table.ndim),
        "dataset": "d",
        "relation": Relation.REPLACE_ONE,
        "epsilon": 1.0,
        "delta": 1e-5,
        "origins": [PUBLIC],
    }
    return PrivateInteractions(table_model(table), background, **joined(settings | changes))


def everything(one: PrivateInteractions, row: Any) -> Any:
    return np.concatenate([one.before_noise(row), one.pairs(row)], axis=1).ravel()


@pytest.mark.parametrize("speed", [Speed(), Speed(short_cuts=CONSTANT_WORK)])
def test_before_noise_it_is_what_exact_methods_give(speed: Speed) -> None:
    draw = np.random.default_rng(1)
    table, rows = draw.random((3, 3, 3)), draw.integers(0, 3, (4, 3)).astype(float)
    background = draw.integers(0, 3, (9, 3)).astype(float)
    one = release(table, background, speed=speed)
    pairs = ShapleyInteractions(table_model(table), background)(rows).values[:, 3:]
    single = ExactShapley(table_model(table), background)(rows)
    assert np.allclose(one.pairs(rows), pairs)
    assert np.allclose(one.before_noise(rows)[:, :3], single.values)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("features", [2, 3])
def test_the_search_for_neighbouring_backgrounds_stays_below_the_sensitivity(
    relation: Relation, features: int
) -> None:
    """Tables of zeros and ones on the grid, the explained row (1, …, 1), m = 1."""
    draw = np.random.default_rng(2)
    row = np.ones((1, features))
    first = np.zeros((1, features))
    other = np.full((1, features), NULL if relation is Relation.BLANK_ONE else 2.0)
    bound = float(release(np.zeros((3,) * features), first, relation=relation).sensitivity)
    tables = (draw.integers(0, 2, (3,) * features).astype(float) for _ in range(250))
    if features == 2:
        corners = [(0, 0), (0, 1), (1, 0), (2, 2), (2, 1), (1, 2), (1, 1)]
        tables = (_table(corners, bits) for bits in itertools.product([0.0, 1.0], repeat=7))
    found = 0.0
    for table in tables:
        pair = [
            everything(release(table, background, relation=relation), row)
            for background in (first, other)
        ]
        found = max(found, float(np.linalg.norm(pair[0] - pair[1])))
    assert 0.65 * bound < found <= bound


def _table(corners: list[tuple[int, int]], bits: tuple[float, ...]) -> Any:
    table = np.zeros((3, 3))
    for corner, bit in zip(corners, bits, strict=True):
        table[corner] = bit
    return table


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_sensitivity_is_that_of_both_parts_together(relation: Relation) -> None:
    one = release(np.zeros((3,) * 4), np.zeros((50, 4)), relation=relation)
    facts: dict[str, Any] = {
        "features": 4,
        "background_rows": 50,
        "output_width": 1.0,
        "relation": relation,
    }
    parts = shapley_background_with_base(**facts), interaction_background(**facts)
    exact = float(np.hypot(float(parts[0]), float(parts[1])))
    assert exact < float(one.sensitivity) < exact * 1.001


def test_columns_are_named_and_said_not_to_add_up() -> None:
    draw = np.random.default_rng(3)
    one = release(draw.random((3, 3, 3)), draw.integers(0, 3, (50, 3)).astype(float))
    drawn = one.draw(np.ones((2, 3)))
    assert drawn.feature_names == ("f0", "f1", "f2", "f0 × f1", "f0 × f2", "f1 × f2")
    assert NOT_ADDITIVE in drawn.notes
    assert drawn.data is None
    assert drawn.shape == (2, 6, 1)
    assert one.preview().remarks


def test_half_widths_hold_as_often_as_they_say() -> None:
    draw = np.random.default_rng(4)
    table, background = draw.random((3, 3, 3)), draw.integers(0, 3, (50, 3)).astype(float)
    one = release(table, background)
    row = np.ones((1, 3))
    truth = np.concatenate([one.before_noise(row)[:, :3], one.pairs(row)], axis=1)
    drawn = one.draw(np.repeat(row, 500, axis=0))
    inside = int((np.abs(drawn.values - truth) <= drawn.half_widths).sum())
    assert binomtest(inside, drawn.values.size, 0.95).pvalue > 1e-6


def test_what_no_bound_covers_is_refused() -> None:
    with pytest.raises(Refused, match="2 to 16 players"):
        release(np.zeros(3), np.zeros((5, 1)))
    two = wrap(lambda rows: rows[:, :2] / 2, outputs=Box(0, 1), digest="two")
    with pytest.raises(Refused, match="one output"):
        PrivateInteractions(
            two,
            np.zeros((5, 2)),
            schema=schema_of(2),
            protected=Protected(ProtectedUnit.ROW, Relation.BLANK_ONE, "d"),
            epsilon=1.0,
            delta=1e-5,
            origins=[PUBLIC],
        )


def test_null_records_count_as_the_centre_everywhere_but_in_the_full_coalition() -> None:
    table = np.random.default_rng(5).random((3, 3))
    one = release(table, np.full((4, 2), NULL), relation=Relation.BLANK_ONE)
    pairs = one.pairs(np.ones((1, 2)))
    assert pairs[0, 0, 0] == pytest.approx(table[1, 1] - 0.5)


def test_a_model_trained_on_the_same_rows_is_added() -> None:
    settings: dict[str, Any] = {
        "schema": SCHEMA,
        "protected": row_of("training rows"),
        "epsilon": 1.0,
        "delta": 1e-5,
    }
    alone = PrivateInteractions(MODEL, PEOPLE, origins=[PUBLIC], **settings)
    both = PrivateInteractions(MODEL, PEOPLE, origins=[TRAINED], **settings)
    (promise,) = both.guarantees(3)
    assert promise.epsilon == alone.guarantees(3)[0].epsilon + 1.0
    assert both.cost(3) == alone.cost(3)
    assert both.identity != alone.identity
