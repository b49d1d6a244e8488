"""Noise on numbers: Laplace and Gaussian, on a fine grid, and their discrete forms on counts.

Guarantees
    1. `randomise` draws through OpenDP's exact samplers from the operating system's entropy.
    2. `event()` states a cost that is not below that of what `randomise` does, the rounding of
       the input to the sampler's grid included.
    3. Nothing is drawn if anything about the call is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from voile.core import randomness
from voile.core.errors import InvalidInput
from voile.privacy import events
from voile.privacy.accounting.conversion import check_target, gaussian_noise_multiplier
from voile.privacy.mechanisms.parameters import (
    MARGIN,
    NoisePreview,
    checked_bounds,
    checked_noise,
    checked_shape,
    checked_target,
    checked_values,
    measured_in,
    number,
    warn_if_weak,
)
from voile.privacy.sensitivity import Norm, Sensitivity

# The sampler rounds each value to a grid of at most 2⁻⁴⁰ of the noise: n values move by at most n
# (l1) or √n (l2) steps, which is paid for with a little more noise.
_GRID = 2.0**-40
# The Gaussian theorem is about the continuous law; the sampler's law on that grid differs from it,
# rounded, by less than this in total variation for each value (docs/guarantees/mechanisms.md).
GRID_DISTANCE = 2.0**-80
# Exact samplers are slow: many values are drawn so many at a time, and how far it is can be told.
# Values are drawn independently on one grid, so cutting them changes nothing.
_AT_A_TIME: Final = 8192
# A cost is stated as a reciprocal; the last digit must not be rounded to its favour.
_DOWN = 1 - 2.0**-51


@dataclass(frozen=True, kw_only=True)
class LaplaceMechanism:
    """Laplace noise of this scale on every value; pure epsilon.

    Args:
        scale: of the noise.
        sensitivity: in the l1 norm, of all values together.
        shape: of what will be released.
        bounds: what every value must lie in, if that was declared.

    >>> from voile.privacy.sensitivity import bounded_mean
    >>> mean = bounded_mean(lower=0, upper=120, rows=600, relation="blank one")
    >>> one = LaplaceMechanism.calibrated(mean, epsilon=0.5, shape=(1,))
    >>> 1 / one.event().noise_multiplier <= 0.5, one.randomise([43.5]).shape
    (True, (1,))
    """

    scale: float
    sensitivity: Sensitivity
    shape: tuple[int, ...]
    bounds: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        sensitivity = measured_in(self.sensitivity, Norm.L1)
        object.__setattr__(self, "scale", checked_noise(self.scale, sensitivity))
        object.__setattr__(self, "shape", checked_shape(self.shape))
        object.__setattr__(self, "bounds", checked_bounds(self.bounds))
        warn_if_weak(sensitivity.value / self.scale, 0.0)

    @classmethod
    def calibrated(
        cls,
        sensitivity: Sensitivity,
        *,
        epsilon: float,
        shape: tuple[int, ...],
        bounds: tuple[float, float] | None = None,
    ) -> Self:
        """The smallest scale for a pure epsilon."""
        check_target(number("epsilon", epsilon), 0.0, pure=True)
        measured_in(sensitivity, Norm.L1)
        # Rounding to the grid moves two neighbours up to n steps apart; epsilon pays for that.
        rounding = math.prod(checked_shape(shape)) * _GRID
        if rounding >= epsilon / 2:
            raise InvalidInput(f"epsilon = {epsilon:g} is below the accuracy of the sampler")
        scale = sensitivity.value / (epsilon - rounding) * (1 + MARGIN)
        return cls(scale=scale, sensitivity=sensitivity, shape=shape, bounds=bounds)

    def event(self) -> events.Laplace:
        epsilon = randomness.laplace_epsilon(
            self.scale, math.prod(self.shape), self.sensitivity.value
        )
        return events.Laplace(1 / epsilon * _DOWN)

    def randomise(self, values: ArrayLike) -> NDArray[np.float64]:
        return randomness.laplace(checked_values(values, self.shape, self.bounds), self.scale)

    def preview(self) -> NoisePreview:
        from scipy.optimize import brentq

        # P(|noise| > w) = e^(−w/b); P(difference of two > g) = e^(−g/b)(2 + g/b)/4.
        gap = brentq(lambda g: math.exp(-g) * (2 + g) / 4 - 0.05, 0, 10)
        return NoisePreview(
            math.sqrt(2) * self.scale, math.log(20) * self.scale, float(gap) * self.scale
        )


@dataclass(frozen=True, kw_only=True)
class GaussianMechanism:
    """Gaussian noise of this standard deviation on every value.

    Args:
        sigma: standard deviation of the noise.
        sensitivity: in the l2 norm (or the l1 norm, which is never smaller), of all values.
        shape: of what will be released.
        bounds: what every value must lie in, if that was declared.

    >>> from voile.privacy.accounting import PrivacyLoss
    >>> from voile.privacy.sensitivity import clipped_mean
    >>> mean = clipped_mean(bound=1.0, rows=600, norm="l2", relation="blank one")
    >>> one = GaussianMechanism.calibrated(mean, epsilon=1.0, delta=1e-6, shape=(12,))
    >>> PrivacyLoss().compose(one.event()).epsilon(1e-6) < 1.001
    True
    """

    sigma: float
    sensitivity: Sensitivity
    shape: tuple[int, ...]
    bounds: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        sensitivity = measured_in(self.sensitivity, Norm.L2, Norm.L1)
        object.__setattr__(self, "sigma", checked_noise(self.sigma, sensitivity))
        object.__setattr__(self, "shape", checked_shape(self.shape))
        object.__setattr__(self, "bounds", checked_bounds(self.bounds))

    @classmethod
    def calibrated(
        cls,
        sensitivity: Sensitivity,
        *,
        epsilon: float,
        delta: float,
        shape: tuple[int, ...],
        bounds: tuple[float, float] | None = None,
    ) -> Self:
        """The smallest noise for (epsilon, delta), by the analytic calibration at every epsilon."""
        epsilon, delta = checked_target(epsilon, delta, pure=False)
        measured_in(sensitivity, Norm.L2, Norm.L1)
        size = math.prod(checked_shape(shape))
        # From total variation to delta: the law on the grid replaces the continuous one for both
        # neighbours, once as it is and once under the factor e^epsilon.
        slack = size * (1 + math.exp(min(epsilon, 700.0))) * GRID_DISTANCE
        if slack >= delta / 2:
            raise InvalidInput(
                f"delta = {delta:g} at epsilon = {epsilon:g} is below the accuracy of the sampler"
            )
        multiplier = gaussian_noise_multiplier(epsilon, delta - slack) * (1 + MARGIN)
        rounding = multiplier * math.sqrt(size) * _GRID
        if rounding >= 0.5:
            raise InvalidInput(f"epsilon = {epsilon:g} is below the accuracy of the sampler")
        sigma = multiplier * sensitivity.value / (1 - rounding)
        return cls(sigma=sigma, sensitivity=sensitivity, shape=shape, bounds=bounds)

    def event(self) -> events.Gaussian:
        rho = randomness.gaussian_rho(self.sigma, math.prod(self.shape), self.sensitivity.value)
        return events.Gaussian(1 / math.sqrt(2 * rho) * _DOWN)

    def randomise(
        self, values: ArrayLike, progress: Callable[[int, int], object] | None = None
    ) -> NDArray[np.float64]:
        """With `progress` told how many values are drawn, out of how many."""
        flat = checked_values(values, self.shape, self.bounds).reshape(-1)
        noisy = np.empty_like(flat)
        for start in range(0, flat.size, _AT_A_TIME):
            part = slice(start, start + _AT_A_TIME)
            noisy[part] = randomness.gaussian(flat[part], self.sigma)
            if progress is not None:
                progress(min(start + _AT_A_TIME, flat.size), flat.size)
        return noisy.reshape(self.shape)

    def preview(self) -> NoisePreview:
        # Normal quantiles: two-sided 95 % for a value, one-sided 95 % for a difference of two.
        return NoisePreview(self.sigma, 1.959964 * self.sigma, 1.644854 * math.sqrt(2) * self.sigma)
