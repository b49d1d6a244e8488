"""What the measures accept: attributions of one output, shape (rows, features)."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from voile.core.errors import InvalidInput

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


def top(values: Attributions, k: int) -> NDArray[np.bool_]:
    """Which k features are largest in absolute value, for each row; ties go to the earlier one."""
    if isinstance(k, bool) or not 1 <= k <= values.shape[1]:
        raise InvalidInput(f"k must lie between 1 and {values.shape[1]} features, found {k}")
    order = np.argsort(-np.abs(values), axis=1, kind="stable")[:, :k]
    chosen = np.zeros(values.shape, dtype=np.bool_)
    np.put_along_axis(chosen, order, True, axis=1)
    return chosen
