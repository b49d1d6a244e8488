"""Levels of protection that are declared in public, and what a choice between them promises.

A level that anybody can look up (this party 0.2, that one 2) is promised as it stands. A level that
was chosen by a contribution rate is not: which one it is tells something of the rows. It carries
the guarantee of the *weakest* level that could have been chosen, jointly with the release that the
choice was made by, and never its own epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from itertools import pairwise
from typing import Any

from voile.core.errors import InvalidInput, Refused
from voile.pipelines.shapley_guided_noise.contribution import ContributionRate
from voile.privacy.accounting import PrivacyLoss
from voile.privacy.events import (
    BoundedRange,
    Composed,
    Gaussian,
    Laplace,
    PrivacyEvent,
    PureDp,
    Zcdp,
)

EventOfEpsilon = Callable[[float], PrivacyEvent]
"""What training to a level costs."""


@dataclass(frozen=True)
class ChosenLevel:
    """What a rate has chosen.

    Args:
        epsilon: that training is calibrated to; *not* what is promised. None: private columns are
            left out of training.
        event: what choice and training are charged with together, whatever was chosen.
    """

    epsilon: float | None
    event: PrivacyEvent

    def promised(self, delta: float) -> float:
        """Epsilon of rate and training together, at the weakest level."""
        return PrivacyLoss().compose(self.event).epsilon(delta)


@dataclass(frozen=True)
class DeclaredLevels:
    """Levels between which a contribution rate may choose.

    Args:
        epsilons: by the smallest rate that they are chosen from; rates ascend from 0. The more
            private columns contribute, the less may be promised away: epsilons descend.
        leave_out_below: below this rate private columns are left out, which costs nothing.
    """

    epsilons: Mapping[float, float]
    leave_out_below: float = 0.0

    def __post_init__(self) -> None:
        rates, epsilons = list(self.epsilons), list(self.epsilons.values())
        if not rates or rates[0] != 0 or any(b <= a for a, b in pairwise(rates)):
            raise InvalidInput(f"levels begin at the rate 0 and ascend, found rates {rates}")
        if not all(0 < each < math.inf for each in epsilons):
            raise InvalidInput(f"levels must be finite and above 0, found {epsilons}")
        if any(later > earlier for earlier, later in pairwise(epsilons)):
            raise InvalidInput(f"a higher rate must not have a weaker level, found {epsilons}")

    @property
    def weakest(self) -> float:
        return max(self.epsilons.values())

    def at(self, rate: float) -> float | None:
        """The level that a rate chooses; None: leave private columns out."""
        if rate < self.leave_out_below:
            return None
        return [epsilon for start, epsilon in self.epsilons.items() if start <= rate][-1]

    def by_charged_rate(self, rate: ContributionRate, training: EventOfEpsilon) -> ChosenLevel:
        """By a rate of protected rows: charged with the rate and with the weakest level.

        Args:
            rate: of a `ChargedRate`, paid for.
            training: from a level to what training to it costs. Levels differ in noise alone: two
                runs with other steps or samples may have the same epsilon at one delta, and each
                the larger one at another; then neither stands for both.
        """
        weakest = training(self.weakest)
        if not all(_covers(weakest, training(each)) for each in self.epsilons.values()):
            raise Refused(
                "all levels must train in the same way, with more noise the stricter they are; "
                "otherwise the weakest one says nothing about the others at another delta"
            )
        assert rate.event is not None
        return ChosenLevel(self.at(rate.value), Composed((rate.event, weakest)))


def _covers(weaker: Any, stricter: Any) -> bool:
    """Whether an event is another one with as much noise or more: never easier to tell apart."""
    if type(weaker) is not type(stricter):
        return False
    if isinstance(weaker, tuple):
        return len(weaker) == len(stricter) and all(map(_covers, weaker, stricter))
    if isinstance(weaker, Gaussian | Laplace):
        return bool(stricter.noise_multiplier >= weaker.noise_multiplier)
    if isinstance(weaker, PureDp | Zcdp | BoundedRange):
        return all(getattr(stricter, f.name) <= getattr(weaker, f.name) for f in fields(weaker))
    if is_dataclass(weaker):
        parts = [(getattr(weaker, f.name), getattr(stricter, f.name)) for f in fields(weaker)]
        return all(_covers(*part) for part in parts)
    return bool(weaker == stricter)
