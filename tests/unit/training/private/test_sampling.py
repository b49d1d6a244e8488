"""The draw of records has exactly the law that is charged for."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.training.private.stubs import KnownSource
from tests.unit.training.twins import Linear, network

from voile.privacy.events import PoissonSampled, Repeated
from voile.training.private import PrivateSteps, Sgd, fit_privately
from voile.training.private.loop import poisson_samples


class Words(np.random.Generator):
    """Gives the words it was told."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(np.random.PCG64(0))
        self._words = {np.uint16: first, np.uint32: second}

    def integers(self, _low: Any, _high: Any = None, size: Any = None, dtype: Any = None) -> Any:  # type: ignore[override]
        return np.full(size, self._words[dtype], dtype=dtype)


@given(
    rate=st.floats(1e-12, 1.0),
    first=st.integers(0, 2**16 - 1),
    second=st.integers(0, 2**32 - 1),
    near=st.booleans(),
)
def test_a_record_is_drawn_if_its_48_bits_lie_below_the_rate(
    rate: float, first: int, second: int, near: bool
) -> None:
    if near:  # the words of the threshold itself, where the second word decides
        first = min(math.floor(rate * 2**16), 2**16 - 1)
    (drawn,) = poisson_samples(Words(first, second), 3, rate, 1)
    inside = first * 2**32 + second < math.floor(rate * 2**48)
    assert drawn.tolist() == ([0, 1, 2] if inside else [])


@pytest.mark.parametrize("rate", [1e-9, 0.05, 0.256, 1 / 3, 0.999])
def test_training_draws_with_exactly_the_rate_that_is_charged(rate: float) -> None:
    """The last word that draws a record, and the first that does not; no statistics needed."""
    charged = PrivateSteps(
        clipping_norm=1.0, noise_multiplier=2.0, sampling_rate=rate, steps=3, rows=4
    )
    event = charged.event()
    assert isinstance(event, Repeated)
    assert isinstance(event.event, PoissonSampled)
    assert math.floor(event.event.probability * 2**48) == math.floor(rate * 2**48)
    for below, drawn in ((1, 12), (0, 0)):
        words = Words(*divmod(math.floor(rate * 2**48) - below, 2**32))
        seen: list[int] = []
        fit_privately(
            network(0, 1, 1),
            (np.ones((4, 1), dtype=np.float32),) * 2,
            Linear(),
            charged,
            optimiser=Sgd(0.1),
            source=KnownSource(words),
            prepare=lambda batch, seen=seen: (seen.append(len(batch[0])), batch)[1],  # type: ignore[misc]
        )
        assert sum(seen) == drawn


@pytest.mark.parametrize(("rows", "steps"), [(0, 5), (1, 7), (1_000, 301), (300_000, 2)])
def test_there_is_one_sample_for_each_step(rows: int, steps: int) -> None:
    samples = list(poisson_samples(np.random.default_rng(0), rows, 0.5, steps))
    assert len(samples) == steps
    assert all(len(drawn) <= rows for drawn in samples)
    assert all(len(drawn) == rows for drawn in poisson_samples(Words(65_535, 0), rows, 1.0, 2))
