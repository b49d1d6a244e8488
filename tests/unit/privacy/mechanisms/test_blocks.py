"""Noise on blocks of whole numbers: what it costs, and that it is on every number."""

from __future__ import annotations

import math

import numpy as np
import pytest

from voile.core.errors import InvalidInput
from voile.core.guarantee import ProtectedUnit, Relation
from voile.privacy.mechanisms.discrete import GaussianBlocks
from voile.privacy.sensitivity import Norm, Sensitivity


def sensitivity(value: float, norm: Norm = Norm.L2) -> Sensitivity:
    return Sensitivity(value=value, norm=norm, unit=ProtectedUnit.ROW, relation=Relation.BLANK_ONE)


def blocks(*sigmas: float, size: int = 2000) -> GaussianBlocks:
    shapes = tuple((size,) for _ in sigmas)
    return GaussianBlocks(sigmas=sigmas, shapes=shapes, sensitivity=sensitivity(0.5))


def test_the_cost_is_half_the_squared_sensitivity() -> None:
    assert blocks(3.0, 70.0).event().rho == pytest.approx(0.125, rel=1e-8)
    assert blocks(3.0, 70.0).event().rho >= 0.125


def test_every_block_has_noise_of_its_own_deviation_on_every_whole_number() -> None:
    """With 2,000 values a deviation is 7 of its errors away from true once in 10^11."""
    sigmas = (6.0, 21.0, 500.5)
    noisy = blocks(*sigmas).randomise([np.full(2000, 7) for _ in sigmas])
    for sigma, block in zip(sigmas, noisy, strict=True):
        assert block.dtype == np.int64
        noise = block - 7
        error = 7 / math.sqrt(2 * 2000)
        assert noise.std() == pytest.approx(sigma, rel=error)
        assert abs(noise.mean()) < 7 * sigma / math.sqrt(2000)
        # All remainders occur: noise in multiples of a factor would tell the rest.
        assert {int(each) for each in noise % 6} == set(range(6))


def test_numbers_are_independent() -> None:
    one, two = blocks(40.0, 40.0).randomise([np.zeros(2000, dtype=np.int64)] * 2)
    assert abs(np.corrcoef(one, two)[0, 1]) < 7 / math.sqrt(2000)
    assert abs(np.corrcoef(one[1:], one[:-1])[0, 1]) < 7 / math.sqrt(2000)


def test_wrong_calls_are_refused() -> None:
    with pytest.raises(InvalidInput, match="one deviation for each block"):
        GaussianBlocks(sigmas=(1.0,), shapes=(), sensitivity=sensitivity(1.0))
    with pytest.raises(InvalidInput, match="l2"):
        GaussianBlocks(sigmas=(1.0,), shapes=((2,),), sensitivity=sensitivity(1.0, Norm.LINF))
    with pytest.raises(InvalidInput, match="expected 2 blocks"):
        blocks(1.0, 2.0).randomise([np.zeros(2000, dtype=np.int64)])
    with pytest.raises(InvalidInput, match="whole numbers"):
        blocks(1.0).randomise([np.zeros(2000)])
