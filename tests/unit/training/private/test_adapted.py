"""An adapted norm costs what is stated, and finds the quantile it was asked for."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.training.private.stubs import Known, KnownSource, Showing
from tests.unit.training.twins import Linear, network

from voile.core.errors import InvalidInput
from voile.core.randomness import Seeded
from voile.training import Batch
from voile.training.private import AdaptedNorm, PrivateSteps, fit_privately
from voile.training.private.loop import centred_count
from voile.training.private.settings import ROUNDING_MARGIN

ROWS = 400


def records() -> Batch:
    """Of zeros: the gradient of a record is its size, in a direction of norm 1."""
    sizes = np.linspace(0.01, 4.0, ROWS, dtype=np.float32)[:, np.newaxis]
    return np.zeros_like(sizes), sizes


def promise(norm: AdaptedNorm, steps: int = 1, rate: float = 1.0) -> PrivateSteps:
    return PrivateSteps(
        clipping_norm=norm, noise_multiplier=1.3, sampling_rate=rate, steps=steps, rows=ROWS
    )


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


def test_the_event_is_that_of_a_fixed_norm_and_the_gradient_pays() -> None:
    adapted = promise(AdaptedNorm(start=0.5, count_noise=2.0))
    fixed = PrivateSteps(
        clipping_norm=0.5, noise_multiplier=1.3, sampling_rate=1.0, steps=1, rows=ROWS
    )
    assert adapted.event() == fixed.event()
    seen = Showing()
    blank = (np.full((ROWS, 1), math.nan, dtype="f"), np.ones((ROWS, 1), dtype="f"))
    source = KnownSource(Known())
    fit_privately(network(0, 1, 1), blank, Linear(), adapted, optimiser=seen, source=source)
    noise = adapted.gradient_noise() * 0.5 * (1 + ROUNDING_MARGIN) / ROWS
    assert adapted.gradient_noise() > 1.3
    assert seen.gradients[0] == pytest.approx(noise, rel=1e-5)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
@pytest.mark.parametrize("start", [0.01, 50.0])
def test_it_finds_the_quantile(share: float, start: float) -> None:
    norm = AdaptedNorm(start=start, count_noise=5.0, share=share, rate=0.3)
    run = fit_privately(
        network(0, 1, 1),
        records(),
        Linear(),
        promise(norm, steps=200, rate=0.5),
        optimiser=Showing(),
        source=Seeded(1),
    )
    assert run.clipping_norm == pytest.approx(4 * share, rel=0.12)


def test_it_never_leaves_the_range_of_norms() -> None:
    norm = AdaptedNorm(start=1e-5, count_noise=5.0, rate=50.0)
    assert norm.after(1e-5, 0.5) == 1e-5
    assert norm.after(1.0, -1e9) == pytest.approx(math.exp(25))
    assert norm.after(1.0, 1e9) > 0


@pytest.mark.parametrize(
    "wrong", [{"start": 0}, {"count_noise": 0}, {"share": 1.0}, {"rate": -1.0}, {"start": 1e-6}]
)
def test_impossible_rules_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidInput):
        AdaptedNorm(**{"start": 1.0, "count_noise": 5.0, **wrong})
