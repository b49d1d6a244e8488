"""Noise on whole numbers, where the discrete laws are exact: counts and histograms.

Same guarantees as `voile.privacy.mechanisms.noise`, without any rounding to a grid.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from voile.core.errors import InvalidInput
from voile.privacy import events
from voile.privacy.mechanisms.parameters import (
    MARGIN,
    NoisePreview,
    as_array,
    checked_noise,
    checked_shape,
    measured_in,
    warn_if_weak,
)
from voile.privacy.sensitivity import Norm, Sensitivity

_LARGEST = 2**62
_WIDE = 20.0


@dataclass(frozen=True, kw_only=True)
class DiscreteLaplace:
    """Noise k with probability proportional to exp(−|k|/scale); pure epsilon Δ₁/scale.

    Assumes whole numbers that move by whole steps. Adds no rounding, so the cost is exact.

    >>> from voile.privacy.sensitivity import count
    >>> one = DiscreteLaplace(scale=2.0, sensitivity=count(relation="blank one"), shape=(3,))
    >>> one.event(), one.randomise([10, 0, 7]).dtype.name
    (PureDp(epsilon=0.5), 'int64')
    """

    scale: float
    sensitivity: Sensitivity
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        sensitivity = _whole(measured_in(self.sensitivity, Norm.L1))
        object.__setattr__(self, "scale", checked_noise(self.scale, sensitivity))
        object.__setattr__(self, "shape", checked_shape(self.shape))
        warn_if_weak(sensitivity.value / self.scale, 0.0)

    def event(self) -> events.PureDp:
        cost = _laplace(math.prod(self.shape), self.scale).map(int(self.sensitivity.value))
        return events.PureDp(float(cost))

    def randomise(self, values: ArrayLike) -> NDArray[np.int64]:
        numbers = _whole_values(values, self.shape)
        noisy = _laplace(numbers.size, self.scale)(numbers.ravel().tolist())
        return np.array(noisy, dtype=np.int64).reshape(self.shape)

    def preview(self) -> NoisePreview:
        # P(|noise| > w) = 2·decay^(w+1)/(1 + decay) ≤ decay^w.
        decay, rest = math.exp(-1 / self.scale), -math.expm1(-1 / self.scale)
        half_width = math.ceil(self.scale * math.log(20))
        return NoisePreview(math.sqrt(2 * decay) / rest, half_width, _laplace_gap(self.scale))


@dataclass(frozen=True, kw_only=True)
class DiscreteGaussian:
    """Noise k with probability proportional to exp(−k²/(2·sigma²)); rho = Δ₂²/(2·sigma²).

    Assumes whole numbers. Adds no rounding, so the cost is exact.

    >>> from voile.privacy.sensitivity import histogram
    >>> cells = histogram(norm="l2", relation="blank one")
    >>> one = DiscreteGaussian(sigma=5.0, sensitivity=cells, shape=(3,))
    >>> one.event(), one.randomise([10, 0, 7]).shape
    (Zcdp(rho=0.02), (3,))
    """

    sigma: float
    sensitivity: Sensitivity
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        sensitivity = measured_in(self.sensitivity, Norm.L2, Norm.L1)
        object.__setattr__(self, "sigma", checked_noise(self.sigma, sensitivity))
        object.__setattr__(self, "shape", checked_shape(self.shape))

    def event(self) -> events.Zcdp:
        cost = _gaussian(math.prod(self.shape), self.sigma).map(self.sensitivity.value)
        return events.Zcdp(float(cost))

    def randomise(self, values: ArrayLike) -> NDArray[np.int64]:
        numbers = _whole_values(values, self.shape)
        noisy = _gaussian(numbers.size, self.sigma)(numbers.ravel().tolist())
        return np.array(noisy, dtype=np.int64).reshape(self.shape)

    def preview(self) -> NoisePreview:
        from scipy.special import ndtri

        # P(noise > w) ≤ P(normal > w) for whole w: the sum over k > w of exp(−k²/(2·sigma²)) is at
        # most the integral from w, the sum over all k at least the whole integral (Poisson).
        half_width = math.ceil(float(ndtri(0.975)) * self.sigma)
        return NoisePreview(_gaussian_deviation(self.sigma), half_width, _gaussian_gap(self.sigma))


def _laplace_gap(scale: float) -> int:
    """The smallest g with P(difference of two ≥ g) ≤ 5 %: a tie keeps no order."""

    decay, rest = math.exp(-1 / scale), -math.expm1(-1 / scale)
    # P(difference = m) = (rest/(1 + decay))²·decay^m·(m + (1 + decay²)/(1 − decay²)), summed up.
    ties = (1 + decay**2) / (rest * (1 + decay))

    def lost(gap: int) -> float:
        tail = (gap + ties) * rest + decay
        return math.exp(-gap / scale) * tail / (1 + decay) ** 2

    low, high = 0, 2 + math.ceil(4 * scale)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if lost(middle) <= 0.05 else (middle, high)
    return high


def _gaussian_deviation(sigma: float) -> float:

    if sigma > _WIDE:  # equal to sigma in every digit of a float
        return sigma
    steps, masses = _gaussian_law(sigma)
    return math.sqrt(float(masses @ steps**2))


def _gaussian_gap(sigma: float) -> int:
    """The smallest g with P(difference of two ≥ g) ≤ 5 %: a tie keeps no order."""
    from scipy.special import ndtri

    if sigma > _WIDE:  # the difference is a discrete Gaussian too, whose tail sums are convex
        return math.ceil(float(ndtri(0.95)) * math.sqrt(2) * sigma + 0.5)
    steps, masses = _gaussian_law(sigma)
    difference = np.convolve(masses, masses)[steps.size :]  # of 1, 2, 3, ...
    lost = np.cumsum(difference[::-1])[::-1]
    return 1 + int(np.argmax(np.append(lost, 0.0) <= 0.05))


def _gaussian_law(sigma: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    reach = 2 + math.ceil(40 * sigma)
    steps = np.arange(-reach, reach + 1, dtype=np.float64)
    with np.errstate(over="ignore"):  # to infinity, of which the exponential is 0
        masses = np.exp(-0.5 * (steps / sigma) ** 2)
    return steps, masses / masses.sum()


def _whole(sensitivity: Sensitivity) -> Sensitivity:
    if sensitivity.value != int(sensitivity.value) or sensitivity.value > _LARGEST:
        raise InvalidInput(f"whole numbers move by whole steps, found {sensitivity.value}")
    return sensitivity


def _whole_values(values: ArrayLike, shape: tuple[int, ...]) -> NDArray[np.int64]:
    array = as_array(values)
    if array.dtype.kind not in "iu" or array.shape != shape:
        raise InvalidInput(
            f"expected whole numbers of shape {shape}, found {array.dtype} {array.shape}"
        )
    if array.size and (array.min() < -_LARGEST or array.max() > _LARGEST):
        raise InvalidInput(f"expected whole numbers within ±{_LARGEST}")
    return array.astype(np.int64)


@lru_cache(maxsize=256)
def _laplace(size: int, scale: float) -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T="i64"), size=size)
    return dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=scale)


@lru_cache(maxsize=256)
def _gaussian(size: int, sigma: float) -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T="i64"), size=size)
    return dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=sigma)


# --- Discrete Gaussian noise on several blocks, each with a deviation of its own ------------------


@dataclass(frozen=True, kw_only=True)
class GaussianBlocks:
    """P(noise = k) proportional to exp(−k²/(2·sigma²)) on every number, with its block's sigma.

    Guarantees
        1. rho = Δ²/2, where Δ is the l2 sensitivity of all numbers, *each divided by the sigma of
           its block*. A shift by the whole number m costs m²/(2·sigma²) (Canonne, Kamath and
           Steinke 2020), and costs of independent noise add up.
        2. Every number gets noise; nothing is rounded.

    Args:
        sigmas: one for each block.
        shapes: one for each block.
        sensitivity: of all numbers together, each divided by its sigma.
    """

    sigmas: tuple[float, ...]
    shapes: tuple[tuple[int, ...], ...]
    sensitivity: Sensitivity

    def __post_init__(self) -> None:
        measured_in(self.sensitivity, Norm.L2)
        if not self.sigmas or len(self.sigmas) != len(self.shapes):
            raise InvalidInput(
                f"expected one deviation for each block, at least one, found {len(self.sigmas)} "
                f"deviations and {len(self.shapes)} blocks"
            )
        _ = self._parts

    @property
    def _parts(self) -> list[DiscreteGaussian]:
        """By block. The numbers of one block move by no more than all of them together."""
        return [
            DiscreteGaussian(sigma=sigma, sensitivity=self.sensitivity.scaled(sigma), shape=shape)
            for sigma, shape in zip(self.sigmas, self.shapes, strict=True)
        ]

    def event(self) -> events.Zcdp:
        # Deviations and the sensitivity are rounded floats; the margin is far above what is lost.
        return events.Zcdp(self.sensitivity.value**2 / 2 * (1 + MARGIN))

    def randomise(self, blocks: Sequence[ArrayLike]) -> tuple[NDArray[np.int64], ...]:
        if len(blocks) != len(self.shapes):
            raise InvalidInput(f"expected {len(self.shapes)} blocks, found {len(blocks)}")
        return tuple(part.randomise(block) for part, block in zip(self._parts, blocks, strict=True))
