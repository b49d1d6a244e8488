"""What mechanisms check before anything is drawn, and what they warn about."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from voile.core.errors import InvalidInput
from voile.privacy.accounting.conversion import check_target
from voile.privacy.sensitivity import Norm, Sensitivity


class WeakPrivacyWarning(UserWarning):
    """The parameters are valid, but promise little."""


def checked_target(epsilon: float, delta: float, *, pure: bool) -> None:
    """Refuse what is no target; warn about one that promises little. Public facts only."""
    check_target(epsilon, delta, pure=pure)
    if epsilon > 10:
        warnings.warn(
            f"epsilon = {epsilon:g}: somebody who sees the release may become e^{epsilon:g} times "
            "surer of one record; above 10 the formal promise is close to none",
            WeakPrivacyWarning,
            stacklevel=3,
        )
    if delta > 1e-3:
        warnings.warn(
            f"delta = {delta:g}: such a promise allows publishing each record with probability "
            "delta; choose delta well below one over the number of records",
            WeakPrivacyWarning,
            stacklevel=3,
        )


def measured_in(sensitivity: Sensitivity, *allowed: Norm) -> Sensitivity:
    """A sensitivity in a norm that the mechanism can use."""
    if not isinstance(sensitivity, Sensitivity):
        raise InvalidInput(
            f"a mechanism needs a Sensitivity with norm, unit and relation, found {sensitivity!r}; "
            "derive one with voile.privacy.sensitivity"
        )
    if sensitivity.norm not in allowed:
        raise InvalidInput(
            f"this mechanism needs a sensitivity in {' or '.join(allowed)}, "
            f"found {sensitivity.norm}"
        )
    return sensitivity


def checked_scale(scale: float) -> float:
    if isinstance(scale, bool) or not math.isfinite(scale) or scale <= 0:
        raise InvalidInput(f"the scale of noise must be finite and above 0, found {scale}")
    return float(scale)


def checked_shape(shape: Sequence[int]) -> tuple[int, ...]:
    sizes = tuple(shape)
    if any(isinstance(n, bool) or not isinstance(n, int) or n < 1 for n in sizes):
        raise InvalidInput(f"a shape consists of whole numbers of at least 1, found {shape!r}")
    return sizes


def checked_values(
    values: ArrayLike, shape: tuple[int, ...], bounds: tuple[float, float] | None
) -> NDArray[np.float64]:
    """Finite numbers of the declared shape, inside the declared bounds.

    These errors are for wrong calls. Whoever releases protected values clamps them beforehand: an
    error that depends on a protected value is a leak.
    """
    array = np.asarray(values)
    if array.dtype.kind not in "fiub" or array.shape != shape:
        raise InvalidInput(f"expected numbers of shape {shape}, found {array.dtype} {array.shape}")
    numbers = array.astype(np.float64)
    if not np.isfinite(numbers).all():
        raise InvalidInput("expected finite values, found NaN or infinity")
    if bounds is not None and (numbers.min() < bounds[0] or numbers.max() > bounds[1]):
        raise InvalidInput(f"expected values inside the declared bounds {bounds}; clamp them first")
    return numbers
