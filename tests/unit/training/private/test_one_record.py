"""No record, however wild, moves the clipped sum by more than the norm."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from torch import Tensor, nn

from voile.training import Batch
from voile.training.private import FlatParameters, ModuleSum, PerceptronSum
from voile.training.private.settings import ROUNDING_MARGIN, SMALLEST_NORM

LINES, WIDTH, OUTPUTS = 4, 3, 2
WILD = st.one_of(
    st.floats(width=32, allow_nan=True, allow_infinity=True),
    st.sampled_from([0.0, 1.0, -1.0, 1e-30, 1e9, -1e9, 1e18, 3e19, 1e37, 3e38, math.nan, math.inf]),
)


def network(activation: type[nn.Module]) -> nn.Sequential:
    made = nn.Sequential(
        nn.Linear(WIDTH, 4), activation(), nn.Linear(4, 4), activation(), nn.Linear(4, OUTPUTS)
    )
    draw = torch.Generator().manual_seed(1)
    for parameter in made.parameters():
        nn.init.normal_(parameter, generator=draw)
    return made


def loss(net: nn.Module, batch: Batch) -> Tensor:
    """Linear in the outputs, with wild weights: the worst a loss can do."""
    found: Tensor = (net(batch[0]) * batch[1]).sum((1, 2))
    return found


def sums_of(way: str, activation: type[nn.Module]) -> PerceptronSum | ModuleSum:
    made = network(activation)
    flat = FlatParameters(made)
    return PerceptronSum(made, flat) if way == "perceptron" else ModuleSum(made, flat, chunk=3)


ORDINARY = (
    torch.randn(6, LINES, WIDTH, generator=torch.Generator().manual_seed(2)),
    torch.randn(6, LINES, OUTPUTS, generator=torch.Generator().manual_seed(3)),
)


def moved_by(sums: PerceptronSum | ModuleSum, record: Batch, norm: float) -> float:
    sums.add_up(loss, ORDINARY, norm)
    without = sums.total.double()
    joined = tuple(torch.cat([all_, one]) for all_, one in zip(ORDINARY, record, strict=True))
    sums.add_up(loss, joined, norm)
    return float((sums.total.double() - without).norm())


@pytest.mark.parametrize("way", ["perceptron", "any module"])
@pytest.mark.parametrize("activation", [nn.ReLU, nn.Tanh])
@settings(max_examples=150, deadline=None)
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
    pulls=np.full((1, LINES, OUTPUTS), 1e-22, dtype=np.float32),
    norm=SMALLEST_NORM,
)
def test_one_record_moves_the_sum_by_at_most_the_norm(
    way: str,
    activation: type[nn.Module],
    rows: np.ndarray,
    pulls: np.ndarray,
    norm: float,
) -> None:
    sums = sums_of(way, activation)
    record = (torch.from_numpy(rows), torch.from_numpy(pulls))
    assert moved_by(sums, record, norm) <= norm * (1 + ROUNDING_MARGIN)


@pytest.mark.parametrize("way", ["perceptron", "any module"])
@pytest.mark.parametrize("scale", [1e3, 1e5, 1e7, 1e9])
def test_lines_that_cancel_do_not_hide_a_gradient(way: str, scale: float) -> None:
    """Sums of pulls are ±scale up to little; where rounding could hide more than the norm, too."""
    sums = sums_of(way, nn.Tanh)
    draw = torch.Generator().manual_seed(9)
    for _ in range(50):
        rows = torch.randn(1, 1, WIDTH, generator=draw).expand(1, LINES, WIDTH)
        near = rows + torch.randn(1, LINES, WIDTH, generator=draw) * 10 ** -(6 * torch.rand(1))
        pulls = torch.randn(1, LINES, OUTPUTS, generator=draw) * scale
        pulls -= pulls.mean(1, keepdim=True)
        assert moved_by(sums, (near, pulls), 0.05) <= 0.05 * (1 + ROUNDING_MARGIN)


@pytest.mark.parametrize("way", ["perceptron", "any module"])
@pytest.mark.parametrize("poison", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("where", [0, 1])
def test_a_poisoned_record_adds_nothing_and_spoils_nothing(
    way: str, poison: float, where: int
) -> None:
    sums = sums_of(way, nn.Tanh)
    norms = sums.add_up(loss, ORDINARY, 0.5)
    clean = sums.total.clone()
    assert len(norms) == 6
    wild = [torch.cat([tensor, tensor[:2]]) for tensor in ORDINARY]
    wild[where][6:, 1, 1] = poison
    norms = sums.add_up(loss, tuple(wild), 0.5)
    # A saturated unit may turn an infinite input into a finite gradient; NaN never is.
    if where == 1 or math.isnan(poison) or way == "perceptron":
        torch.testing.assert_close(sums.total, clean, rtol=0, atol=1e-6)
        assert len(norms) == 6
    assert sums.total.isfinite().all()


def test_a_batch_of_blank_records_adds_nothing() -> None:
    blank = tuple(torch.full_like(tensor, math.nan) for tensor in ORDINARY)
    for way in ("perceptron", "any module"):
        sums = sums_of(way, nn.ReLU)
        assert len(sums.add_up(loss, blank, 0.5)) == 0
        assert not sums.total.any()
