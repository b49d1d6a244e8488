"""What several releases with the same Gaussian noise promise together."""

from __future__ import annotations

import math
from typing import Final

from voile.privacy.accounting.conversion import gaussian_epsilon, zcdp_to_epsilon
from voile.privacy.events import PrivacyEvent, Repeated
from voile.privacy.mechanisms import GaussianMechanism
from voile.privacy.mechanisms.noise import GRID_DISTANCE
from voile.privacy.mechanisms.parameters import MARGIN
from voile.privacy.sensitivity.bound import positive

_LARGEST_EXACT: Final = 20.0


def event_of_repeated(noise: GaussianMechanism, times: int) -> PrivacyEvent:
    """What `times` releases with this noise cost."""
    event = noise.event()
    return event if positive("times", times) == 1 else Repeated(event, times)


def epsilon_of_repeated(
    noise: GaussianMechanism, epsilon: float, delta: float, times: int
) -> float:
    """The epsilon of `times` releases at the same delta.

    Gaussian releases on the same records are one Gaussian release of a vector that moves √times as
    far, so composing them loses nothing. `epsilon` is what the noise was calibrated to. The sampler
    draws on a grid: up to an epsilon of 20 that adds at most `slack` to delta, which is taken off
    beforehand. Beyond, or where delta is too small for it, concentrated privacy is read, which
    holds on the grid as it is.
    """
    if positive("times", times) == 1:
        return epsilon
    multiplier = noise.event().noise_multiplier * (1 - 2 * MARGIN)
    values = times * math.prod(noise.shape)
    slack = values * (1 + math.exp(_LARGEST_EXACT)) * GRID_DISTANCE
    if slack < delta / 2:
        exact = gaussian_epsilon(multiplier / math.sqrt(times), delta - slack)
        if exact <= _LARGEST_EXACT:
            return exact
    return zcdp_to_epsilon(times / (2 * multiplier**2), delta)
