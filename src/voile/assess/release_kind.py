"""How a kind of release is audited: what is invented, what half of its noise is, who is tried."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from voile.assess.betting import Floats
from voile.assess.invented import InventedGame
from voile.assess.release_canary import AT_ONCE, ReleaseCanary
from voile.assess.trial import Arrangement
from voile.core.guarantee import Relation
from voile.core.schema import Rows
from voile.privacy.accounting.conversion import gaussian_epsilon, zcdp_to_epsilon
from voile.privacy.events import Gaussian, Laplace, Parallel, Zcdp
from voile.release.charged import ChargedRelease

Build = Callable[[Any, int], tuple[Arrangement, ...]]
"""From a release, and how many records are tried together, to ways to lay out canaries."""


def at_half_noise(release: Any) -> Any:
    """The same release with half of its noise, or at twice its epsilon where there is none."""
    event = release.cost(1)
    match event.events[0] if isinstance(event, Parallel) else event:
        case Gaussian(multiplier):
            return replace(release, epsilon=gaussian_epsilon(multiplier / 2, release.delta))
        case Laplace(multiplier):
            return replace(release, epsilon=2 / multiplier)
        case Zcdp(rho):
            return replace(release, epsilon=zcdp_to_epsilon(4 * rho, release.delta))
    return replace(release, epsilon=2 * release.epsilon)


@dataclass(frozen=True)
class ReleaseKind:
    """One kind of release.

    Args:
        release: its type.
        build: see `Build`.
        most_together: how many records are tried together at most; 1 where a record is released by
            itself.
        halved: the same with half of the noise.
    """

    release: type[ChargedRelease]
    build: Build
    most_together: int
    halved: Callable[[Any], Any] = at_half_noise


def pair(
    name: str,
    side: Callable[[Rows, int], Floats],
    game: InventedGame,
    relation: Relation,
    *,
    runs: int = AT_ONCE,
) -> ReleaseCanary:
    """The canary's row, and what stands in its place."""
    inside, outside = (partial(side, row) for row in (game.canary, otherwise(game, relation)))
    return ReleaseCanary(name, inside, outside, runs)


def otherwise(game: InventedGame, relation: Relation) -> Rows:
    """What stands in the canary's place: nothing can be read in a null record."""
    return game.against if relation is Relation.REPLACE_ONE else np.full_like(game.against, np.nan)
