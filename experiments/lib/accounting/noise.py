"""The noise that still fits an open filter."""

from __future__ import annotations

import math
from collections.abc import Sequence

from experiments.lib.accounting.filters import Filter
from voile.core.errors import BudgetExceeded
from voile.core.guarantee import Relation
from voile.privacy.accounting.conversion import check_target
from voile.privacy.calibration import LEAST, MOST, PRECISION, EventOf, NoisyStage
from voile.privacy.events import Composed


def laplace_noise_multiplier(epsilon: float) -> float:
    """The smallest Laplace noise multiplier for a pure epsilon."""
    check_target(epsilon, 0.0, pure=True)
    return 1 / epsilon


def dp_sgd_noise_in(account: Filter, stages: Sequence[NoisyStage], *, relation: Relation) -> float:
    """The same against an open filter: all stages fit what is left of it, and barely."""
    return smallest_noise_in(
        account,
        lambda noise: Composed(tuple(stage.event(noise, relation) for stage in stages)),
    )


def smallest_noise_in(account: Filter, event_of: EventOf) -> float:
    """The smallest noise multiplier whose event still fits an open filter."""
    if not account.fits(event_of(MOST)):
        raise BudgetExceeded(
            "nothing fits what is left of this budget, however large the noise",
            remaining=account.remaining(),
            requested=math.nan,
        )
    low, high = math.log(LEAST), math.log(MOST)
    while high - low > PRECISION:
        middle = (low + high) / 2
        low, high = (low, middle) if account.fits(event_of(math.exp(middle))) else (middle, high)
    return math.exp(high)
