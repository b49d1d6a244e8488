"""Post-processing that costs nothing: making released figures agree with each other."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from voile.core.errors import InvalidInput


def consistent_with_total(
    attributions: ArrayLike, sigma: float, *, total: float, total_sigma: float = 0.0
) -> NDArray[np.float64]:
    """Attributions moved to agree with what they should add up to: prediction minus base value.

    Free of charge only if `total` is public or was itself released, with noise of standard
    deviation `total_sigma`: the *exact* difference of prediction and base is data like any other.
    This is the least-squares estimate; with an exact total it removes the share 1/d of the noise's
    variance, and never adds any.

    Args:
        attributions: released values of one output, shape (features,).
        sigma: standard deviation of the noise on each of them.
        total: what they should add up to.
        total_sigma: standard deviation of the noise on `total`; 0 if it is public.
    """
    values = np.asarray(attributions, dtype=np.float64)
    figures = (sigma, total, total_sigma)
    if values.ndim != 1 or not values.size or not np.isfinite(values).all():
        raise InvalidInput(f"expected finite values of shape (features,), found {values.shape}")
    if not all(math.isfinite(figure) for figure in figures) or sigma <= 0 or total_sigma < 0:
        raise InvalidInput("expected a finite total, sigma above 0 and total_sigma of at least 0")
    missing = total - values.sum()
    return np.asarray(values + missing * sigma**2 / (values.size * sigma**2 + total_sigma**2))
