"""How far one party's explanations lie from the common ones (FedXChain's NSDS)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from voile.core.errors import InvalidInput

SMOOTHING = 1e-10
"""Added to every share, as published, so that a feature without importance has a logarithm."""


def importance_shares(values: ArrayLike) -> NDArray[np.float64]:
    """Attributions (rows, features) as shares of the total mean absolute value; equal if none."""
    strength = np.abs(np.atleast_2d(np.asarray(values, dtype=np.float64))).mean(axis=0)
    if not strength.size or not np.isfinite(strength).all():
        raise InvalidInput("expected finite attributions")
    total = strength.sum()
    return np.asarray(strength / total if total > 0 else np.full(strength.size, 1 / strength.size))


def divergence_score(local: ArrayLike, common: ArrayLike) -> float:
    """NSDS: Kullback–Leibler divergence of the local from the common shares; unbounded."""
    p, q = _smoothed(local), _smoothed(common)
    _check_same(p, q)
    return float((p * np.log(p / q)).sum())


def jensen_shannon(local: ArrayLike, common: ArrayLike) -> float:
    """The symmetric, bounded relative of NSDS: at most ln 2, also if shares vanish."""
    p, q = _smoothed(local), _smoothed(common)
    _check_same(p, q)
    middle = (p + q) / 2
    return float(((p * np.log(p / middle)).sum() + (q * np.log(q / middle)).sum()) / 2)


def _smoothed(shares: ArrayLike) -> NDArray[np.float64]:
    p = np.asarray(shares, dtype=np.float64)
    if p.ndim != 1 or not p.size or (p < 0).any() or not np.isclose(p.sum(), 1, atol=1e-6):
        raise InvalidInput("expected shares: at least 0, adding up to 1")
    p = p + SMOOTHING
    return np.asarray(p / p.sum())


def _check_same(p: NDArray[np.float64], q: NDArray[np.float64]) -> None:
    if p.shape != q.shape:
        raise InvalidInput(f"both need the same features, found {p.size} and {q.size}")
