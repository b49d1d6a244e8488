"""An adapted norm costs what is stated, and finds the quantile it was asked for."""

from __future__ import annotations

import math

import numpy as np
import pytest
from experiments.lib.adapted_norm import AdaptedNorm, centred_count, fit_with_adapted_norm
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.training.private.stubs import Showing
from tests.unit.training.twins import Linear, network

from voile.core.errors import InvalidInput
from voile.core.randomness import Seeded
from voile.training import Batch
from voile.training.private import PrivateSteps

ROWS = 400


def records() -> Batch:
    """Of zeros: the gradient of a record is its size, in a direction of norm 1."""
    sizes = np.linspace(0.01, 4.0, ROWS, dtype=np.float32)[:, np.newaxis]
    return np.zeros_like(sizes), sizes


@given(
    multiplier=st.floats(0.3, 20),
    ratio=st.floats(1.001, 100),
    within=st.booleans(),
    g=st.floats(0, 1),
)
def test_gradient_and_count_together_have_the_stated_multiplier(
    multiplier: float, ratio: float, within: bool, g: float
) -> None:
    """In units of their noise, what one record adds is never longer than 1/multiplier."""
    norm = AdaptedNorm(start=1.0, count_noise=ratio * multiplier / 2)
    gradient = g if within else 1.0
    moved = math.hypot(
        gradient / norm.gradient_noise(multiplier), (0.5 if within else -0.5) / norm.count_noise
    )
    assert moved <= (1 + 1e-9) / multiplier
    if gradient == 1.0:  # attained, so nothing is wasted either
        assert moved == pytest.approx(1 / multiplier)


def test_a_record_moves_the_count_by_at_most_a_half() -> None:
    norms = np.array([0.1, 0.5, 2.0, 3.0, 4.0])
    assert centred_count(norms, 0.5) == -0.5
    for place in range(5):
        others = np.delete(norms, place)
        assert abs(centred_count(norms, 0.5) - centred_count(others, 0.5)) == 0.5
    assert centred_count(norms[:0], 0.5) == 0


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
@pytest.mark.parametrize("start", [0.01, 50.0])
def test_it_finds_the_quantile(share: float, start: float) -> None:
    norm = AdaptedNorm(start=start, count_noise=5.0, share=share, rate=0.3)
    privacy = PrivateSteps(
        clipping_norm=start, noise_multiplier=1.3, sampling_rate=0.5, steps=200, rows=ROWS
    )
    found = fit_with_adapted_norm(
        network(0, 1, 1),
        records(),
        Linear(),
        privacy,
        norm,
        optimiser=Showing(),
        source=Seeded(1),
    )
    assert found == pytest.approx(4 * share, rel=0.12)


def test_it_never_leaves_the_range_of_norms() -> None:
    norm = AdaptedNorm(start=1e-5, count_noise=5.0, rate=50.0)
    assert norm.after(1e-5, 0.5) == 1e-5
    assert norm.after(1.0, -1e9) == pytest.approx(math.exp(25))
    assert norm.after(1.0, 1e9) > 0


def test_a_count_that_costs_more_than_all_is_refused() -> None:
    with pytest.raises(InvalidInput, match="costs more"):
        AdaptedNorm(start=0.1, count_noise=0.8).gradient_noise(1.7)
