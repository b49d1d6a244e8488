"""What several releases with the same Gaussian noise promise together."""

from __future__ import annotations

import math

from voile.privacy.accounting.conversion import gaussian_epsilon, zcdp_to_epsilon
from voile.privacy.mechanisms import Gaussian
from voile.privacy.mechanisms.parameters import MARGIN
from voile.privacy.sensitivity.bound import positive

# Up to here, what the sampler's grid adds to delta is below a millionth of any delta in use.
_LARGEST_EXACT = 20.0
_BESIDE = 1 - 2.0**-20


def epsilon_of_repeated(noise: Gaussian, epsilon: float, delta: float, times: int) -> float:
    """The epsilon of `times` releases at the same delta.

    Gaussian releases on the same records are one Gaussian release of a vector that moves √times as
    far, so composing them loses nothing. `epsilon` is what the noise was calibrated to.
    """
    if positive("times", times) == 1:
        return epsilon
    multiplier = noise.event().noise_multiplier * (1 - 2 * MARGIN)
    exact = gaussian_epsilon(multiplier / math.sqrt(times), delta * _BESIDE)
    if exact <= _LARGEST_EXACT:
        return exact
    return zcdp_to_epsilon(times / (2 * multiplier**2), delta)
