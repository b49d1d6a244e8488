"""Noise on whole numbers, where the discrete laws are exact: counts and histograms.

Same guarantees as `voile.privacy.mechanisms.noise`, without any rounding to a grid.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from voile.core.errors import InvalidInput
from voile.privacy import events
from voile.privacy.mechanisms.parameters import checked_scale, checked_shape, measured_in
from voile.privacy.mechanisms.preview import NoisePreview
from voile.privacy.sensitivity import Norm, Sensitivity

_LARGEST = 2**62


@dataclass(frozen=True, kw_only=True)
class DiscreteLaplace:
    """P(noise = k) proportional to exp(−|k|/scale); pure epsilon Δ₁/scale."""

    scale: float
    sensitivity: Sensitivity
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", checked_scale(self.scale))
        object.__setattr__(self, "shape", checked_shape(self.shape))
        _whole(measured_in(self.sensitivity, Norm.L1))

    def event(self) -> events.PureDp:
        cost = _laplace(math.prod(self.shape), self.scale).map(int(self.sensitivity.value))
        return events.PureDp(float(cost))

    def randomise(self, values: ArrayLike) -> NDArray[np.int64]:
        numbers = _whole_values(values, self.shape)
        noisy = _laplace(numbers.size, self.scale)(numbers.ravel().tolist())
        return np.array(noisy, dtype=np.int64).reshape(self.shape)

    def preview(self) -> NoisePreview:
        decay = math.exp(-1 / self.scale)
        deviation = math.sqrt(2 * decay) / (1 - decay)
        return _rounded_up(
            deviation, self.scale * math.log(20), 1.644854 * math.sqrt(2) * deviation
        )


@dataclass(frozen=True, kw_only=True)
class DiscreteGaussian:
    """P(noise = k) proportional to exp(−k²/(2·sigma²)); rho = Δ₂²/(2·sigma²)."""

    sigma: float
    sensitivity: Sensitivity
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", checked_scale(self.sigma))
        object.__setattr__(self, "shape", checked_shape(self.shape))
        measured_in(self.sensitivity, Norm.L2, Norm.L1)

    def event(self) -> events.Zcdp:
        cost = _gaussian(math.prod(self.shape), self.sigma).map(self.sensitivity.value)
        return events.Zcdp(float(cost))

    def randomise(self, values: ArrayLike) -> NDArray[np.int64]:
        numbers = _whole_values(values, self.shape)
        noisy = _gaussian(numbers.size, self.sigma)(numbers.ravel().tolist())
        return np.array(noisy, dtype=np.int64).reshape(self.shape)

    def preview(self) -> NoisePreview:
        # The variance of the discrete law is never above sigma².
        spread = float(ndtri(0.975)) * self.sigma
        return _rounded_up(self.sigma, spread, 1.644854 * math.sqrt(2) * self.sigma)


def _rounded_up(deviation: float, half_width: float, gap: float) -> NoisePreview:
    return NoisePreview(deviation, math.ceil(half_width), math.ceil(gap))


def _whole(sensitivity: Sensitivity) -> None:
    if sensitivity.value != int(sensitivity.value):
        raise InvalidInput(f"whole numbers move by whole steps, found {sensitivity.value}")


def _whole_values(values: ArrayLike, shape: tuple[int, ...]) -> NDArray[np.int64]:
    array = np.asarray(values)
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
