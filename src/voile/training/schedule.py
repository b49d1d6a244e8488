"""The one-cycle learning rate."""

from __future__ import annotations

import math
from typing import Final

WARM_UP: Final = 0.2
START: Final = 1 / 25
END: Final = 1e-4


def one_cycle(step: int, steps: int, peak: float) -> float:
    """The rate of a step, counted from 0: up to the peak along a cosine, then down to almost 0.

    A high rate in the middle finds a good region, the long way down averages the noise of the
    batches out. Both are needed: targets here are noisy by design.
    """
    turn = WARM_UP * steps
    if step < turn:
        return _between(START * peak, peak, step / turn)
    return _between(peak, END * peak, (step - turn) / max(steps - 1 - turn, 1))


def _between(start: float, end: float, share: float) -> float:
    return end + (start - end) * (1 + math.cos(math.pi * min(share, 1.0))) / 2
