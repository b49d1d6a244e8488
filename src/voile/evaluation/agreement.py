"""How alike two sets of explanations of the same rows are, and the answers of two models.

Attributions are those of one output, shape (rows, features). A row whose measure is undefined gets
the figure stated in the docstring, never NaN.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from voile.core.errors import InvalidInput

# --- How far one party's explanations lie from the common ones (FedXChain's NSDS) ----------------


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


# --------------------------------------------------------------------------------------------------


Attributions: TypeAlias = NDArray[np.float64]
"""Shape (rows, features)."""


PerRow: TypeAlias = NDArray[np.float64]
"""Shape (rows,): one figure for each explained row."""


def attributions(name: str, given: ArrayLike) -> Attributions:
    """Finite attributions with at least one row and one feature."""
    array = np.asarray(given, dtype=np.float64)
    if array.ndim != 2 or not array.size or not np.isfinite(array).all():
        raise InvalidInput(f"{name} must be finite, of shape (rows, features), found {array.shape}")
    return array


def pair(first: ArrayLike, second: ArrayLike) -> tuple[Attributions, Attributions]:
    """Two sets of attributions of the same rows and features."""
    one, two = attributions("first", first), attributions("second", second)
    if one.shape != two.shape:
        raise InvalidInput(f"both must have the same shape, found {one.shape} and {two.shape}")
    return one, two


def cosine_similarity(first: ArrayLike, second: ArrayLike) -> PerRow:
    """Cosine of the angle between them; 1 if both vanish, 0 if one does."""
    one, two = pair(first, second)
    lengths = np.linalg.norm(one, axis=1), np.linalg.norm(two, axis=1)
    product = lengths[0] * lengths[1]
    cosine = np.einsum("rf,rf->r", one, two) / np.where(product > 0, product, 1)
    both_vanish = (lengths[0] == 0) & (lengths[1] == 0)
    return np.asarray(np.where(both_vanish, 1.0, np.clip(cosine, -1, 1)))


def r_squared(truth: ArrayLike, estimate: ArrayLike) -> float:
    """Share of the variance of all true attributions that the estimates explain."""
    one, two = pair(truth, estimate)
    spread = float(np.square(one - one.mean()).sum())
    missed = float(np.square(one - two).sum())
    return 1 - missed / spread if spread else float(missed == 0)


def fidelity(first: ArrayLike, second: ArrayLike) -> float:
    """Share of rows to which two models give the same class: how well a surrogate imitates."""
    one, two = np.asarray(first), np.asarray(second)
    if one.ndim != 1 or one.shape != two.shape or not one.size:
        raise InvalidInput(f"expected two lists of classes, found {one.shape} and {two.shape}")
    return float((one == two).mean())
