"""Quadrature, progress and memory."""

from __future__ import annotations

import io
import tracemalloc

import numpy as np
import pytest
from numpy.typing import NDArray

import voile.attribution as package
from voile.attribution import ExactShapley, Speed, progress_line
from voile.attribution.coalitions import FEW, Grid
from voile.attribution.gradients import points_and_weights
from voile.core.errors import InvalidInput
from voile.core.schema import Feature, Numbers, Schema

Array = NDArray[np.float64]


def test_points_and_weights_integrate() -> None:
    points, weights = points_and_weights(200)
    assert len(points) == len(weights) == 200
    assert weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert weights @ points**3 == pytest.approx(0.25, abs=0.003)


def test_gauss_is_exact_for_polynomials() -> None:
    points, weights = points_and_weights(5)
    assert weights @ points**9 == pytest.approx(0.1, abs=1e-14)


def test_too_few_steps() -> None:
    with pytest.raises(InvalidInput, match="at least 1 step"):
        points_and_weights(0)


def test_the_progress_line_says_how_far_the_work_is() -> None:
    stream = io.StringIO()
    show = progress_line(stream, every=0.0)
    show(1, 1_200)
    show(1_200, 1_200)
    assert "rows explained: 1 of 1,200" in stream.getvalue()
    assert stream.getvalue().endswith("\n")


def test_short_work_says_nothing() -> None:
    stream = io.StringIO()
    progress_line(stream, every=60.0)(5, 5)
    assert stream.getvalue() == ""


def test_batches_must_hold_a_row() -> None:
    with pytest.raises(InvalidInput, match="at least 1"):
        Speed(batch_rows=0)


@pytest.mark.parametrize("count", [10, 2 * FEW])
def test_equal_inputs_are_found_on_the_grid(count: int) -> None:
    draw = np.random.default_rng(1)
    rows = draw.integers(3, size=(4, 5)).astype(float) / 7
    grid = Grid.from_rows(rows, rows)
    assert grid is not None
    keys = draw.integers(grid.size, size=count)
    inputs, place = grid.distinct(keys)
    assert len(inputs) == len(np.unique(keys))
    radix = np.cumprod([1, *(len(values) for values in grid.values)])
    for feature, values in enumerate(grid.values):
        digit = keys // radix[feature] % len(values)
        assert np.array_equal(inputs[place, feature], values[digit])


def test_a_grid_that_is_too_large_is_not_made() -> None:
    rows = np.random.default_rng(2).normal(size=(400, 4))
    assert Grid.from_rows(rows, rows) is None


@pytest.mark.parametrize("continuous", [True, False])
def test_memory_does_not_grow_with_the_coalitions(continuous: bool) -> None:
    """2^17 coalitions of 17 features would take 18 MB for each pair if they were held together."""
    draw = np.random.default_rng(0)
    rows, background = draw.normal(size=(2, 17)), draw.normal(size=(3, 17))
    if not continuous:
        rows, background = (rows > 0).astype(float), (background > 0).astype(float)
    explainer = ExactShapley(lambda r: r.sum(axis=1), background, speed=Speed(batch_rows=1024))
    tracemalloc.start()
    found = explainer(rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.allclose(found.values[:, :, 0], rows - background.mean(axis=0))
    assert peak < (8e6 if continuous else 60e6)


def test_exports_are_there() -> None:
    assert sorted(package.__all__) == sorted(set(package.__all__))
    assert all(hasattr(package, name) for name in package.__all__)


def test_values_outside_the_schema_are_told_with_their_place() -> None:
    schema = Schema("s", (Feature("age", Numbers(0, 100)), Feature("dose", Numbers(0, 9))))
    explain = ExactShapley(lambda rows: rows.sum(axis=1), np.zeros((1, 2)), schema=schema)
    with pytest.raises(InvalidInput, match=r"'dose': 2 × above, first 10 in row 2"):
        explain({"age": [1, 2, 3], "dose": [1, 10, 11]})
