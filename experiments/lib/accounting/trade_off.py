"""The trade-off curve: how well anybody can tell two neighbouring data sets apart.

f(α) is the smallest rate of false negatives of any test whose false-positive rate is at most α. The
curve 1 − α is perfect privacy; every (epsilon, delta) of an accountant cuts off what lies below two
lines, and the curve is the highest of them (Dong, Roth and Su 2022).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from experiments.lib.accounting.accountants import Accountant
from voile.core.errors import InvalidInput

_LARGEST = 700.0
"""An epsilon beyond which both lines lie at zero; so does infinity, which promises nothing."""


def trade_off(
    accountant: Accountant, false_positives: ArrayLike, *, points: int = 60
) -> NDArray[np.float64]:
    """A lower bound of the smallest false-negative rate at each false-positive rate."""
    alpha = np.asarray(false_positives, dtype=np.float64)
    if not ((alpha >= 0) & (alpha <= 1)).all():
        raise InvalidInput("false-positive rates lie between 0 and 1")
    curve = np.zeros_like(alpha)
    for delta in np.geomspace(1e-9, 0.5, points):
        epsilon = accountant.epsilon(float(delta))
        if epsilon > _LARGEST:
            continue
        bound = np.exp(epsilon)
        steep, flat = 1 - delta - bound * alpha, (1 - delta - alpha) / bound
        curve = np.maximum(curve, np.maximum(steep, flat))
    return curve


def gaussian_trade_off(noise_multiplier: float, false_positives: ArrayLike) -> NDArray[np.float64]:
    """The exact curve of one Gaussian mechanism."""
    from scipy.special import ndtr, ndtri

    alpha = np.asarray(false_positives, dtype=np.float64)
    return np.asarray(ndtr(ndtri(1 - alpha) - 1 / noise_multiplier))
