"""What mechanisms check before anything is drawn, and what they warn about."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from voile.core import randomness
from voile.core.errors import InvalidInput
from voile.privacy.accounting.conversion import check_target
from voile.privacy.sensitivity import Norm, Sensitivity

# --- What a release will be like, said before anything is spent ----------------------------------


@dataclass(frozen=True)
class NoisePreview:
    """How much noise each value will carry.

    Args:
        standard_deviation: of the noise on one value.
        half_width: the noise stays within ± this with 95 %.
        gap: two values that lie this far apart keep their order with 95 %.

    >>> from voile.privacy.mechanisms import GaussianMechanism
    >>> from voile.privacy.sensitivity import count
    >>> each = GaussianMechanism(sigma=2.0, sensitivity=count(relation="blank one"), shape=(3,))
    >>> print(each.preview())
    noise of standard deviation 2 on each value (within ±3.92 with 95 %);
    two values must lie 4.652 apart to keep their order with 95 %
    """

    standard_deviation: float
    half_width: float
    gap: float

    def __str__(self) -> str:
        return (
            f"noise of standard deviation {self.standard_deviation:.4g} on each value "
            f"(within ±{self.half_width:.4g} with 95 %); two values must lie {self.gap:.4g} apart "
            "to keep their order with 95 %"
        )


@dataclass(frozen=True)
class ChoicePreview:
    """How reliable a private choice will be.

    Args:
        truth: the probability that the true answer is named; for a set, the share of true items
            that is named on average; for a choice by scores, the worst case (all scores equal).
        gap: two scores that lie this far apart are told apart with 95 %; None where there are no
            scores.

    >>> print(ChoicePreview(truth=0.75, gap=None))
    the true answer is named with probability at least 0.750
    """

    truth: float
    gap: float | None

    def __str__(self) -> str:
        apart = (
            "" if self.gap is None else f"; scores {self.gap:.4g} apart are told apart with 95 %"
        )
        return f"the true answer is named with probability at least {self.truth:.3f}{apart}"


# --------------------------------------------------------------------------------------------------


# -------------------------------------------------------------------------------------------------
# Promises that are kept and worth little: said wherever one is made, never inferred from data.


LARGEST_EPSILON: Final = 10.0
LARGEST_DELTA: Final = 1e-3


def weaknesses(epsilon: float, delta: float) -> tuple[str, ...]:
    """Why a promise means little; nothing for one in the usual range."""
    found = []
    if epsilon > LARGEST_EPSILON:
        found.append(
            f"epsilon = {epsilon:g}: somebody who sees the release may become e^{epsilon:g} times "
            "surer of one record; above 10 the formal promise is close to none"
        )
    if delta > LARGEST_DELTA:
        found.append(
            f"delta = {delta:g}: such a promise allows publishing each record with probability "
            "delta; choose delta well below one over the number of records"
        )
    return tuple(found)


# --------------------------------------------------------------------------------------------------


_NUMBERS: Final = (int, float, np.integer, np.floating)
_LEAST_RATIO: Final = 2.0**-300
_MOST_VALUES: Final = 2**31
_EXACT: Final = 2**53

# What floating point may have lost while computing the values, relative to their sensitivity.
MARGIN: Final = 1e-9


class WeakPrivacyWarning(UserWarning):
    """The parameters are valid, but promise little: epsilon above 10, or delta above 0.001.

    >>> from voile.privacy.mechanisms import LaplaceMechanism
    >>> from voile.privacy.sensitivity import count
    >>> one_row = count(relation="blank one")
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     weak = LaplaceMechanism(scale=0.05, sensitivity=one_row, shape=(1,))
    >>> caught[0].category.__name__
    'WeakPrivacyWarning'
    """


def checked_target(epsilon: float, delta: float, *, pure: bool) -> tuple[float, float]:
    """Refuse what is no target; warn about one that promises little. Public facts only."""
    target = number("epsilon", epsilon), number("delta", delta)
    floored = check_target(*target, pure=pure)
    warn_if_weak(*target)
    return target[0], floored


def warn_if_weak(epsilon: float, delta: float) -> None:
    """Say so at the caller's line, outside of voile."""
    for weakness in weaknesses(epsilon, delta):
        warnings.warn(weakness, WeakPrivacyWarning, stacklevel=_callers() + 1)


def _callers() -> int:
    """How many frames above the caller of this function the first one outside of voile is."""
    frame, depth = sys._getframe(1), 0
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("voile."):
        frame, depth = frame.f_back, depth + 1
    return depth


def number(name: str, value: float) -> float:
    """A finite number; neither a truth value nor text that looks like one."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, _NUMBERS):
        raise InvalidInput(f"{name} must be a number, found {value!r}")
    try:
        figure = float(value)
    except OverflowError:
        figure = math.inf
    if not math.isfinite(figure):
        raise InvalidInput(f"{name} must be finite, found {figure}")
    return figure


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
    """The scale of noise, in the range in which the sampler's grid and its sums are floats."""
    figure = number("the scale of noise", scale)
    if not randomness.SMALLEST_SCALE <= figure <= randomness.LARGEST_SCALE:
        raise InvalidInput(
            "the scale of noise must be above 0, and between 2^-1000 and 2^1000, found "
            f"{figure}; measure the values in another unit"
        )
    return figure


def checked_noise(scale: float, sensitivity: Sensitivity) -> float:
    """A scale whose ratio to the sensitivity can be accounted for."""
    figure = checked_scale(scale)
    if not _LEAST_RATIO <= figure / sensitivity.value <= 1 / _LEAST_RATIO:
        raise InvalidInput(
            f"noise of scale {figure:g} for a sensitivity of {sensitivity.value:g} is outside of "
            "what can be accounted for"
        )
    return figure


def checked_shape(shape: Sequence[int]) -> tuple[int, ...]:
    try:
        sizes = tuple(shape)
    except TypeError:
        raise InvalidInput(f"a shape is a tuple of whole numbers, found {shape!r}") from None
    if any(isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1 for n in sizes):
        raise InvalidInput(f"a shape consists of whole numbers of at least 1, found {shape!r}")
    whole = tuple(int(n) for n in sizes)
    if math.prod(whole) > _MOST_VALUES:
        raise InvalidInput(f"at most {_MOST_VALUES} values are released at once, found {shape!r}")
    return whole


def checked_bounds(bounds: tuple[float, float] | None) -> tuple[float, float] | None:
    """Two finite numbers in order: a bound that is not a number would let everything through."""
    if bounds is None:
        return None
    if not isinstance(bounds, (tuple, list)) or len(bounds) != 2:
        raise InvalidInput(f"bounds are a lower and an upper number, found {bounds!r}")
    lower, upper = number("the lower bound", bounds[0]), number("the upper bound", bounds[1])
    if lower >= upper:
        raise InvalidInput(f"bounds must be in order, found {bounds!r}")
    return lower, upper


def as_array(values: ArrayLike) -> NDArray[Any]:
    try:
        return np.asarray(values)
    except (TypeError, ValueError, RuntimeError):
        raise InvalidInput("expected an array of numbers, found something else") from None


def checked_values(
    values: ArrayLike, shape: tuple[int, ...], bounds: tuple[float, float] | None
) -> NDArray[np.float64]:
    """Finite numbers of the declared shape, inside the declared bounds.

    These errors are for wrong calls. A release clamps protected values first: an
    error that depends on a protected value is a leak.
    """
    array = as_array(values)
    if array.dtype.kind not in "fiu" or array.dtype.itemsize > 8 or array.shape != shape:
        raise InvalidInput(f"expected numbers of shape {shape}, found {array.dtype} {array.shape}")
    if array.dtype.kind != "f" and (array.min() < -_EXACT or array.max() > _EXACT):
        # Rounding them would move two neighbours apart by more than their sensitivity.
        raise InvalidInput("whole numbers beyond ±2^53 are not floats; use a discrete mechanism")
    numbers = array.astype(np.float64)
    if not np.isfinite(numbers).all():
        raise InvalidInput("expected finite values, found NaN or infinity")
    if bounds is not None and (numbers.min() < bounds[0] or numbers.max() > bounds[1]):
        raise InvalidInput(f"expected values inside the declared bounds {bounds}; clamp them first")
    return numbers
