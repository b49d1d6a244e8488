"""No record, however wild, moves the clipped sum by more than the norm."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from tests.unit.training.twins import Linear, linear, module_of, network

from voile.training import Batch
from voile.training.private import ModuleSum, PerceptronSum
from voile.training.private.settings import ROUNDING_MARGIN, SMALLEST_NORM

LINES, WIDTH, OUTPUTS = 4, 3, 2
WILD = st.one_of(
    st.floats(width=32, allow_nan=True, allow_infinity=True),
    st.sampled_from([0.0, 1.0, -1.0, 1e-30, 1e9, -1e9, 1e18, 3e19, 1e37, 3e38, math.nan, math.inf]),
)
WAYS = ["perceptron", "any module"]


class Sums:
    """Either way of adding up, over arrays."""

    def __init__(self, way: str) -> None:
        made = network(1, WIDTH, 4, 4, OUTPUTS, size=1.0)
        self._ours = PerceptronSum(made, Linear()) if way == "perceptron" else None
        self._theirs = ModuleSum(module_of(made), linear, chunk=3)

    @np.errstate(all="ignore")
    def add_up(self, batch: Batch, norm: float) -> Any:
        if self._ours is not None:
            return self._ours.add_up(batch, norm)
        return self._theirs.add_up(tuple(torch.from_numpy(part) for part in batch), norm)

    @property
    def total(self) -> Any:
        return (self._theirs if self._ours is None else self._ours).total.astype(np.float64)


ORDINARY = (
    np.random.default_rng(2).normal(size=(6, LINES, WIDTH)).astype(np.float32),
    np.random.default_rng(3).normal(size=(6, LINES, OUTPUTS)).astype(np.float32),
)


def moved_by(sums: Sums, record: Batch, norm: float) -> float:
    sums.add_up(ORDINARY, norm)
    without = sums.total
    joined = tuple(np.concatenate(both) for both in zip(ORDINARY, record, strict=True))
    sums.add_up(joined, norm)
    return float(np.linalg.norm(sums.total - without))


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=300, deadline=None)
@given(
    rows=arrays.arrays(np.float32, (1, LINES, WIDTH), elements=WILD),
    pulls=arrays.arrays(np.float32, (1, LINES, OUTPUTS), elements=WILD),
    norm=st.sampled_from([SMALLEST_NORM, 0.05, 1.0, 1e3]),
)
# Two lines that cancel almost, each far beyond the norm.
@example(
    rows=np.full((1, LINES, WIDTH), 0.7, dtype=np.float32),
    pulls=np.array([[[1e7, 0], [-1e7 - 1, 0], [0, 0], [0, 0]]], dtype=np.float32),
    norm=0.05,
)
# A large input beside an error whose square vanishes in single precision.
@example(
    rows=np.full((1, LINES, WIDTH), 1e18, dtype=np.float32),
    pulls=np.full((1, LINES, OUTPUTS), 5e-24, dtype=np.float32),
    norm=SMALLEST_NORM,
)
def test_one_record_moves_the_sum_by_at_most_the_norm(
    way: str, rows: np.ndarray, pulls: np.ndarray, norm: float
) -> None:
    assert moved_by(Sums(way), (rows, pulls), norm) <= norm * (1 + ROUNDING_MARGIN)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("scale", [1e3, 1e5, 1e7, 1e9])
def test_lines_that_cancel_do_not_hide_a_gradient(way: str, scale: float) -> None:
    """Sums of pulls are ±scale up to little; where rounding could hide more than the norm, too."""
    sums, draw = Sums(way), np.random.default_rng(9)
    for _ in range(50):
        spread = draw.normal(size=(1, LINES, WIDTH)) * 10 ** -(6 * draw.random())
        near = (draw.normal(size=(1, 1, WIDTH)) + spread).astype(np.float32)
        pulls = (draw.normal(size=(1, LINES, OUTPUTS)) * scale).astype(np.float32)
        pulls -= pulls.mean(axis=1, keepdims=True)
        assert moved_by(sums, (near, pulls), 0.05) <= 0.05 * (1 + ROUNDING_MARGIN)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("poison", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("where", [0, 1])
def test_a_poisoned_record_adds_nothing_and_spoils_nothing(
    way: str, poison: float, where: int
) -> None:
    sums = Sums(way)
    assert len(sums.add_up(ORDINARY, 0.5)) == 6
    clean = sums.total
    wild = [np.concatenate([part, part[:2]]) for part in ORDINARY]
    wild[where][6:, 1, 1] = poison
    norms = sums.add_up(tuple(wild), 0.5)
    # A rectifier may turn an infinite input into a finite gradient; NaN never is one.
    if where == 1 or math.isnan(poison) or way == "perceptron":
        np.testing.assert_allclose(sums.total, clean, rtol=0, atol=1e-6)
        assert len(norms) == 6
    assert np.isfinite(sums.total).all()


@pytest.mark.parametrize("way", WAYS)
def test_a_batch_of_blank_records_adds_nothing(way: str) -> None:
    blank = tuple(np.full_like(part, math.nan) for part in ORDINARY)
    sums = Sums(way)
    assert len(sums.add_up(blank, 0.5)) == 0
    assert not sums.total.any()


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (np.bool_, True),
        (np.uint8, 16),
        (np.int16, 256),
        (np.int64, 2**32),
        (np.float64, 1e30),
        (np.float64, 1.427e45),
    ],
)
@pytest.mark.parametrize("lines", [1, 2])
def test_numbers_of_any_kind_are_held_to_the_norm(kind: Any, value: Any, lines: int) -> None:
    """Squares of integers wrap around, and those of truth values are no more than one."""
    sums = PerceptronSum(network(1, 784, OUTPUTS, size=1.0), Linear())
    rows = np.full((1, lines, 784), value, dtype=kind)
    pulls = np.ones((1, lines, OUTPUTS), dtype=np.float64)
    with np.errstate(all="ignore"):
        sums.add_up((rows, pulls), 1.0)
    assert np.linalg.norm(sums.total.astype(np.float64)) <= 1 + ROUNDING_MARGIN


@pytest.mark.parametrize("lines", [64, 256, 1024])
def test_many_lines_that_cancel_do_not_hide_a_gradient(lines: int) -> None:
    """Pairs of lines that differ by little, and pull in opposite directions."""
    draw = np.random.default_rng(0)
    sums = PerceptronSum(network(1, 64, 1, size=0.0), Linear())
    pulls = np.full((1, lines, 1), 1e3, dtype=np.float32)
    pulls[:, 1::2] *= -1
    for _ in range(20_000 // lines):
        spread, near = 10 ** draw.uniform(-4.5, -1.5), draw.normal(size=64)
        near *= 10 ** draw.uniform(0, 3)
        rows = np.tile(near, (1, lines, 1)).astype(np.float32)
        rows[:, 1::2] += (spread * np.abs(near) * draw.normal(size=64)).astype(np.float32)
        with np.errstate(all="ignore"):
            sums.add_up((rows, pulls), 1.0)
        assert np.linalg.norm(sums.total.astype(np.float64)) <= 1 + ROUNDING_MARGIN
