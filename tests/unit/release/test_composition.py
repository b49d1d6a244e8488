"""What repeated Gaussian releases promise: the sampler's grid is paid for."""

from __future__ import annotations

import math

import pytest

from voile.core.guarantee import ProtectedUnit, Relation
from voile.privacy.accounting.conversion import gaussian_epsilon, zcdp_to_epsilon
from voile.privacy.mechanisms import GaussianMechanism
from voile.privacy.sensitivity import Norm, Sensitivity
from voile.release.background import epsilon_of_repeated

ONE = Sensitivity(value=1.0, norm=Norm.L2, unit=ProtectedUnit.ROW, relation=Relation.BLANK_ONE)


def noise(delta: float, size: int) -> GaussianMechanism:
    return GaussianMechanism.calibrated(ONE, epsilon=1.0, delta=delta, shape=(size,))


def test_at_a_delta_in_use_it_is_nearly_that_of_the_continuous_law() -> None:
    one = noise(1e-5, 12)
    continuous = gaussian_epsilon(one.event().noise_multiplier / math.sqrt(40), 1e-5)
    assert continuous < epsilon_of_repeated(one, 1.0, 1e-5, 40) < continuous * (1 + 1e-6)


@pytest.mark.parametrize(("delta", "size", "times"), [(1e-12, 20, 50), (1e-15, 20, 2)])
def test_a_small_delta_pays_for_every_value_on_the_grid(
    delta: float, size: int, times: int
) -> None:
    """Slack of (1 + e^epsilon)·2⁻⁸⁰ for each value: more than a millionth of these deltas."""
    one = noise(delta, size)
    found = epsilon_of_repeated(one, 1.0, delta, times)
    multiplier = one.event().noise_multiplier
    slack = times * size * (1 + math.exp(found)) * 2.0**-80
    exact = gaussian_epsilon(multiplier / math.sqrt(times), delta - slack)
    concentrated = zcdp_to_epsilon(times / (2 * multiplier**2), delta)
    assert found >= min(exact, concentrated)
