"""Agreement with a released total lowers the error and invents nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest

from voile.core.errors import InvalidInput
from voile.release.refining import consistent_with_total


def test_an_exact_total_is_met_exactly() -> None:
    moved = consistent_with_total([0.1, 0.5, -0.2], 0.3, total=1.0)
    assert moved.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("total_sigma", [0.0, 0.2, 5.0])
def test_the_error_shrinks_by_the_share_that_least_squares_predicts(total_sigma: float) -> None:
    d, sigma, runs = 5, 0.3, 20_000
    generator = np.random.default_rng(1)
    truth = generator.normal(size=d)
    noisy = truth + generator.normal(scale=sigma, size=(runs, d))
    totals = truth.sum() + generator.normal(scale=total_sigma or 1e-12, size=runs)
    moved = np.array(
        [
            consistent_with_total(row, sigma, total=total, total_sigma=total_sigma)
            for row, total in zip(noisy, totals, strict=True)
        ]
    )
    before, after = ((noisy - truth) ** 2).sum(1).mean(), ((moved - truth) ** 2).sum(1).mean()
    share = sigma**2 / (d * sigma**2 + total_sigma**2)
    assert after / before == pytest.approx(1 - share, abs=0.01)
    assert after < before or total_sigma == 5.0


def test_a_total_that_says_nothing_changes_nothing() -> None:
    values = np.array([0.1, 0.5, -0.2])
    assert np.allclose(consistent_with_total(values, 0.1, total=9.0, total_sigma=1e9), values)


@pytest.mark.parametrize(
    ("values", "sigma", "total", "total_sigma"),
    [
        ([], 0.1, 1.0, 0.0),
        ([[0.1]], 0.1, 1.0, 0.0),
        ([math.nan], 0.1, 1.0, 0.0),
        ([0.1], 0.0, 1.0, 0.0),
        ([0.1], 0.1, math.inf, 0.0),
        ([0.1], 0.1, 1.0, -1.0),
    ],
)
def test_bad_input_is_refused(
    values: list[float], sigma: float, total: float, total_sigma: float
) -> None:
    with pytest.raises(InvalidInput):
        consistent_with_total(values, sigma, total=total, total_sigma=total_sigma)
