"""The Gaussian mechanism: exact at every epsilon, where the classic formula is not even true."""

from __future__ import annotations

import math

import mpmath
import pytest

from voile.core.errors import InvalidInput
from voile.core.guarantee import ProtectedUnit, Relation
from voile.privacy.accounting.conversion import (
    gaussian_delta,
    gaussian_epsilon,
    gaussian_noise_multiplier,
)
from voile.privacy.mechanisms import ExponentialMechanism, GaussianMechanism, LaplaceMechanism
from voile.privacy.sensitivity import Norm, Sensitivity

pytestmark = pytest.mark.filterwarnings("ignore::voile.privacy.mechanisms.WeakPrivacyWarning")


def of(norm: Norm, value: float = 1.0) -> Sensitivity:
    return Sensitivity(
        value=value, norm=norm, unit=ProtectedUnit.ROW, relation=Relation.REPLACE_ONE
    )


def exact_delta(noise_multiplier: float, epsilon: float) -> float:
    """The hockey-stick divergence of two normals one sensitivity apart, to fifty digits."""
    with mpmath.workdps(50):
        z, e = mpmath.mpf(noise_multiplier), mpmath.mpf(epsilon)
        upper, lower = 1 / (2 * z) - e * z, -1 / (2 * z) - e * z
        return float(mpmath.ncdf(upper) - mpmath.exp(e) * mpmath.ncdf(lower))


def classic(epsilon: float, delta: float) -> float:
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def first_violation(delta: float) -> float:
    """Where the classic noise first has more delta than it was made for."""
    low, high = 1.0, 20.0
    assert exact_delta(classic(low, delta), low) < delta < exact_delta(classic(high, delta), high)
    while high - low > 1e-6:
        middle = (low + high) / 2
        fine = exact_delta(classic(middle, delta), middle) <= delta
        low, high = (middle, high) if fine else (low, middle)
    return low


def test_the_classic_formula_has_four_times_its_delta_at_ten() -> None:
    assert exact_delta(classic(10.0, 0.1), 10.0) == pytest.approx(0.41, abs=0.005)


def test_the_classic_formula_first_fails_where_it_is_said_to() -> None:
    assert first_violation(1e-5) == pytest.approx(8.4, abs=0.05)
    assert first_violation(0.1) == pytest.approx(5.74, abs=0.005)


def test_the_classic_formula_needs_more_noise_than_ours_below_one() -> None:
    for epsilon in (0.1, 0.5, 0.99):
        assert classic(epsilon, 1e-5) > gaussian_noise_multiplier(epsilon, 1e-5)


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 5.8, 8.4, 10.0, 20.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-5, 1e-3, 0.1])
def test_our_calibration_is_exact(epsilon: float, delta: float) -> None:
    """It keeps delta, and a millionth less noise would not."""
    sigma = GaussianMechanism.calibrated(
        of(Norm.L2), epsilon=epsilon, delta=delta, shape=(1,)
    ).sigma
    assert exact_delta(sigma, epsilon) <= delta < exact_delta(sigma * (1 - 1e-6), epsilon)


@pytest.mark.parametrize("noise_multiplier", [0.05, 0.2, 1.0, 4.0, 30.0, 300.0])
@pytest.mark.parametrize("epsilon", [0.0, 1e-3, 0.1, 1.0, 3.0, 10.0, 40.0])
def test_delta_agrees_with_fifty_digits(noise_multiplier: float, epsilon: float) -> None:
    exact = exact_delta(noise_multiplier, epsilon)
    if exact < 1e-300:
        assert gaussian_delta(noise_multiplier, epsilon) <= 1e-300
    else:
        # The difference of two terms loses digits in proportion to how near they are.
        assert gaussian_delta(noise_multiplier, epsilon) == pytest.approx(exact, rel=1e-9)


def test_epsilon_and_delta_are_inverse() -> None:
    for noise_multiplier in (0.3, 1.0, 10.0):
        epsilon = gaussian_epsilon(noise_multiplier, 1e-5)
        assert exact_delta(noise_multiplier, epsilon) <= 1e-5
        assert exact_delta(noise_multiplier, epsilon * (1 - 1e-9)) > 1e-5


# --- What is stated covers what is drawn ---------------------------------------------------------


@pytest.mark.parametrize("size", [1, 12, 10_000])
@pytest.mark.parametrize("sensitivity", [1e-6, 1.0, 3.7e5])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (1.0, 1e-5), (9.0, 1e-3)])
def test_the_stated_cost_of_gaussian_noise_is_within_the_target_and_not_below_the_noise(
    size: int, sensitivity: float, epsilon: float, delta: float
) -> None:
    mechanism = GaussianMechanism.calibrated(
        of(Norm.L2, sensitivity), epsilon=epsilon, delta=delta, shape=(size,)
    )
    stated = mechanism.event().noise_multiplier
    # Rounding to the grid moves a neighbour √n steps of at most 2⁻⁴⁰ of the noise further away.
    step = 2.0 ** (math.floor(math.log2(mechanism.sigma)) - 40)
    with mpmath.workdps(50):
        real = mpmath.mpf(mechanism.sigma) / (
            mpmath.mpf(sensitivity) + mpmath.sqrt(size) * mpmath.mpf(step)
        )
        assert stated <= real
        assert stated > real * (1 - mpmath.mpf(10) ** -12)
    assert exact_delta(stated, epsilon) <= delta


@pytest.mark.parametrize("size", [1, 12, 10_000])
@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 9.0])
def test_the_stated_cost_of_laplace_noise_is_within_the_target_and_not_below_the_noise(
    size: int, epsilon: float
) -> None:
    mechanism = LaplaceMechanism.calibrated(of(Norm.L1, 0.3), epsilon=epsilon, shape=(size,))
    step = 2.0 ** (math.floor(math.log2(mechanism.scale)) - 40)
    with mpmath.workdps(50):
        real = (mpmath.mpf(0.3) + size * mpmath.mpf(step)) / mpmath.mpf(mechanism.scale)
        stated = 1 / mpmath.mpf(mechanism.event().noise_multiplier)
        assert real <= stated <= epsilon
        # Nothing but rounding, and the margin for floating point, is paid on top.
        assert stated > epsilon * (1 - 2e-9) - size * 2.0**-40


def test_noise_is_sampled_on_a_grid_forty_binary_digits_below_it() -> None:
    mechanism = GaussianMechanism(sigma=1.0, sensitivity=of(Norm.L2), shape=(200,))
    value = 1 / 3
    nearest = round(value * 2**40) / 2**40
    steps = (mechanism.randomise([value] * 200) - nearest) * 2**40
    assert all(step == round(step) for step in steps.tolist())


def test_a_scale_a_hair_below_a_power_of_two_has_the_finer_grid() -> None:
    below = math.nextafter(2.0**300, 0.0)
    assert math.log2(below) == 300  # a logarithm cannot tell
    mechanism = GaussianMechanism(sigma=below, sensitivity=of(Norm.L2), shape=(200,))
    steps = mechanism.randomise([0.0] * 200) / 2.0**259
    assert all(step == round(step) for step in steps.tolist())
    assert any(round(step) % 2 for step in steps.tolist())


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-24), (60.0, 1e-5), (1e300, 0.5)])
def test_a_target_below_the_accuracy_of_the_sampler_is_refused(
    epsilon: float, delta: float
) -> None:
    with pytest.raises(InvalidInput, match="below the accuracy of the sampler"):
        GaussianMechanism.calibrated(of(Norm.L2), epsilon=epsilon, delta=delta, shape=(1,))


def test_a_pure_target_below_the_accuracy_of_the_sampler_is_refused() -> None:
    for epsilon, size in ((1e-13, 1), (1e-6, 2**30)):
        with pytest.raises(InvalidInput, match="below the accuracy of the sampler"):
            LaplaceMechanism.calibrated(of(Norm.L1), epsilon=epsilon, shape=(size,))


def test_what_the_grid_costs_in_delta_is_paid_for() -> None:
    epsilon, delta = 42.0, 1e-5
    slack = (1 + math.exp(epsilon)) * 2.0**-80
    assert 0.05 * delta < slack < 0.5 * delta  # otherwise this test tests nothing
    sigma = GaussianMechanism.calibrated(
        of(Norm.L2), epsilon=epsilon, delta=delta, shape=(1,)
    ).sigma
    assert exact_delta(sigma, epsilon) + slack <= delta


def test_a_billionth_of_the_sensitivity_is_left_to_floating_point() -> None:
    more = 1 + 0.999e-9
    laplace = LaplaceMechanism.calibrated(of(Norm.L1), epsilon=0.5, shape=(1,))
    assert laplace.scale * 0.5 >= more
    assert laplace.event().noise_multiplier * 0.5 >= more
    gaussian = GaussianMechanism.calibrated(of(Norm.L2), epsilon=0.5, delta=1e-5, shape=(1,))
    assert exact_delta(gaussian.sigma / more, 0.5) <= 1e-5
    choice = ExponentialMechanism(epsilon=0.5, sensitivity=of(Norm.LINF), candidates=3)
    assert choice.scale * 0.5 / 2 >= more


# --- The distance between the sampler's law and a rounded normal --------------------------------


def _distance(step: float) -> tuple[float, float]:
    """Total variation between the discrete law and the rounded normal of deviation 1; its bound."""
    with mpmath.workdps(40):
        h = mpmath.mpf(step)
        reach = int(mpmath.ceil(14 / h))
        points = range(-reach, reach + 1)
        discrete = [mpmath.exp(-((k * h) ** 2) / 2) for k in points]
        normaliser = mpmath.fsum(discrete)
        rounded = [mpmath.ncdf((k + 0.5) * h) - mpmath.ncdf((k - 0.5) * h) for k in points]
        apart = mpmath.fsum(abs(a / normaliser - b) for a, b in zip(discrete, rounded, strict=True))
        return float(apart / 2), step**2


@pytest.mark.parametrize("digits", [2, 3, 4, 5])
def test_the_sampler_s_law_is_as_near_to_a_rounded_normal_as_the_docs_say(digits: int) -> None:
    distance, bound = _distance(2.0**-digits)
    # h²/48·E|x² − 1| = h²/48·4φ(1) in first order, and h² is stated.
    first_order = bound * 4 * math.exp(-0.5) / math.sqrt(2 * math.pi) / 48
    assert distance == pytest.approx(first_order, rel=0.02)
    assert distance < bound / 45
