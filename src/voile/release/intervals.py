"""Intervals that join privacy noise and sampling error, from public facts alone.

Nothing here looks at the data: a standard error that did would have to be paid for. Proofs in
docs/guarantees/background.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

LEVEL: Final = 0.95


@dataclass(frozen=True)
class SamplingError:
    """The error of a mean of n independent, unbiased, bounded draws.

    Args:
        deviation: its standard deviation is at most this.
        reach: no single draw moves the mean by more than this from its expectation.
    """

    deviation: float
    reach: float

    def half_width(self, risk: float) -> float:
        """It stays within ± this, except with probability `risk` (Bernstein)."""
        doubt = math.log(2 / risk)
        third = self.reach * doubt / 3
        return third + math.sqrt(third**2 + 2 * self.deviation**2 * doubt)


NO_SAMPLING: Final = SamplingError(0.0, 0.0)


def sampling_error(
    *, harmonic: float, players: int, pairs: int, background_rows: int, width: float
) -> SamplingError:
    """Of `coalition_designs`, for one value, whatever the game.

    One draw counts a_T·(v(T) − v(T̄))/2 with |v(T) − v(T̄)| ≤ R. For one player the square of a_T is
    H² on average and (d − 1)·H² at most.
    """
    draws = pairs * background_rows
    return SamplingError(
        deviation=harmonic * width / 2 / math.sqrt(draws),
        reach=harmonic * math.sqrt(players - 1) * width / draws,
    )


def standard_error(noise: float, sampling: SamplingError) -> float:
    """Of noise of this standard deviation and the sampling error, which are independent."""
    return math.hypot(noise, sampling.deviation)


def half_width(noise: float, sampling: SamplingError) -> float:
    """A released value lies within ± this of the true one, except with probability 1 − `LEVEL`.

    Without sampling it is that of the normal law. Otherwise the better of two bounds: the risk is
    shared out between noise and sampling, or both are bounded together by their moments.
    """
    risk = 1 - LEVEL
    if sampling == NO_SAMPLING:
        return _normal(noise, risk)
    apart = (
        _normal(noise, risk * (1 - share)) + sampling.half_width(risk * share)
        for share in (0.5, 0.2, 0.05, 0.01, 0.001)
    )
    doubt = math.log(2 / risk)
    spread = math.hypot(noise, sampling.deviation)
    together = math.sqrt(2 * doubt) * spread + sampling.reach / 3 * doubt
    return min(together, *apart)


def _normal(deviation: float, risk: float) -> float:
    from scipy.special import ndtri

    return float(-ndtri(risk / 2)) * deviation
