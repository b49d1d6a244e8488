"""A sum with noise in shares, audited: that of the fewest honest parties that are promised in it.

One of them has the canaries, the others have nothing, and add their noise all the same. How many
there are follows from what was agreed on about the secure sum, and from nothing in the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from voile.assess.betting import Floats
from voile.assess.release_canary import ReleaseCanary
from voile.federation import RoundProtocol, SecureSum
from voile.privacy.mechanisms.shares import SharedGaussian


def honest_of(protocol: RoundProtocol, parties: int, shares: int) -> int:
    """How many honest parties are in every sum; 1 where each adds all of the noise."""
    if shares == 1 or not isinstance(protocol, SecureSum):
        return 1
    return protocol.model.threshold_of(parties) - protocol.model.colluders


def canary_in_sum(
    name: str, noise: SharedGaussian, inside: Sequence[Any], outside: Sequence[Any], honest: int
) -> ReleaseCanary:
    """What one party adds with the canaries, against what it adds without.

    Args:
        name: of the arrangement.
        noise: of the plan, whatever was charged for it.
        inside, outside: exact whole numbers of one party, by block.
        honest: how many parties add noise.
    """
    return ReleaseCanary(
        name, _drawing(noise, inside, honest - 1), _drawing(noise, outside, honest - 1)
    )


def _drawing(noise: SharedGaussian, exact: Sequence[Any], others: int) -> Callable[[int], Floats]:
    nothing = [np.zeros(shape, dtype=np.int64) for shape in noise.shapes]
    parties = [exact, *[nothing] * others]
    return lambda draws: np.stack([_sum_of(noise, parties) for _ in range(draws)])


def _sum_of(noise: SharedGaussian, parties: Sequence[Any]) -> Floats:
    sent = [np.concatenate([b.ravel() for b in noise.randomise(each)]) for each in parties]
    found: Floats = np.stack(sent).sum(axis=0).astype(np.float64)
    return found
