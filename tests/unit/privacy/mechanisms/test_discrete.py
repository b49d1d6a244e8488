"""Noise on whole numbers: previews against the law itself, summed up by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from voile.core.guarantee import Relation
from voile.privacy.mechanisms import DiscreteGaussian, DiscreteLaplace, NoisePreview
from voile.privacy.sensitivity import Norm, count, histogram

pytestmark = pytest.mark.filterwarnings("ignore::voile.privacy.mechanisms.WeakPrivacyWarning")

SCALES = [0.05, 0.2, 0.3, 0.5, 0.8, 1.0, 1.3, 2.0, 3.7, 11.0, 19.9, 20.1, 57.3]
ONE = count(relation=Relation.REPLACE_ONE)


def _check(preview: NoisePreview, masses: NDArray[np.float64]) -> None:
    """`masses` of −reach, ..., reach: the figures are the smallest whole ones that are true."""
    law = masses / masses.sum()
    steps = np.arange(law.size) - law.size // 2
    assert preview.standard_deviation == pytest.approx(math.sqrt(float(law @ steps**2)), abs=1e-12)
    assert law[np.abs(steps) <= preview.half_width].sum() >= 0.95
    difference = np.convolve(law, law)
    apart = np.arange(difference.size) - difference.size // 2
    assert difference[apart >= preview.gap].sum() <= 0.05
    assert preview.gap == 1 or difference[apart >= preview.gap - 1].sum() > 0.05


@pytest.mark.parametrize("scale", SCALES)
def test_the_preview_of_discrete_laplace_noise_is_exact(scale: float) -> None:
    mechanism = DiscreteLaplace(scale=scale, sensitivity=ONE, shape=())
    reach = 10 + math.ceil(60 * scale)
    _check(mechanism.preview(), np.exp(-np.abs(np.arange(-reach, reach + 1)) / scale))


@pytest.mark.parametrize("sigma", SCALES)
def test_the_preview_of_discrete_gaussian_noise_is_exact(sigma: float) -> None:
    mechanism = DiscreteGaussian(sigma=sigma, sensitivity=ONE, shape=())
    reach = 10 + math.ceil(20 * sigma)
    _check(mechanism.preview(), np.exp(-((np.arange(-reach, reach + 1) / sigma) ** 2) / 2))


@pytest.mark.parametrize("scale", [1e17, 1e60])
def test_very_wide_noise_has_a_preview(scale: float) -> None:
    for kind, name, deviation in (
        (DiscreteLaplace, "scale", math.sqrt(2) * scale),
        (DiscreteGaussian, "sigma", scale),
    ):
        preview = kind(**{name: scale}, sensitivity=ONE, shape=()).preview()
        assert preview.standard_deviation == pytest.approx(deviation)
        assert 2 * scale > preview.half_width / 2 > scale * 0.9


def test_very_narrow_noise_has_a_preview() -> None:
    assert DiscreteGaussian(sigma=1e-80, sensitivity=ONE, shape=()).preview() == NoisePreview(
        0.0, 1, 1
    )
    assert DiscreteLaplace(scale=1e-80, sensitivity=ONE, shape=()).preview() == NoisePreview(
        0.0, 1, 1
    )


def test_the_cost_is_that_of_the_exact_law() -> None:
    moved = histogram(norm=Norm.L1, relation=Relation.REPLACE_ONE)
    assert DiscreteLaplace(scale=4.0, sensitivity=moved, shape=(5,)).event().epsilon == 0.5
    moved = histogram(norm=Norm.L2, relation=Relation.REPLACE_ONE)
    rho = DiscreteGaussian(sigma=4.0, sensitivity=moved, shape=(5,)).event().rho
    assert 2 / 32 <= rho < 2 / 32 * (1 + 1e-12)


def test_counts_at_the_edge_of_their_range_are_saturated_not_wrapped() -> None:
    """A value passes the upper edge with 32 % and the lower one with 13 %; wrapped values would be
    exactly at an edge with 2⁻⁶³. False alarm below 1e-11."""
    mechanism = DiscreteLaplace(scale=1e19, sensitivity=ONE, shape=(200,))
    noisy = mechanism.randomise(np.full(200, 2**62))
    assert (noisy == 2**63 - 1).sum() > 20
    assert (noisy == -(2**63)).any()
