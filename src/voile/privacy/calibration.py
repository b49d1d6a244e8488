"""The smallest noise for a target, measured by whatever will be charged.

Calibrating against one measure and charging another wastes budget or overdraws it: noise that a
privacy-loss distribution calibrates to (2, 1e-5) reads about 2.4 with four Rényi orders. So every
function here takes the account: a filter that is open, or a total for a fixed plan.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from voile.core.errors import InvalidInput
from voile.core.guarantee import Relation
from voile.privacy.accounting import privacy_loss
from voile.privacy.accounting.accountants import PrivacyLoss
from voile.privacy.accounting.conversion import branches, check_target, gaussian_noise_multiplier
from voile.privacy.events import Composed, Gaussian, PoissonSampled, PrivacyEvent, Repeated

__all__ = [
    "NoisyStage",
    "dp_sgd_noise",
    "gaussian_noise_multiplier",
    "smallest_noise_of",
]

EventOf = Callable[[float], PrivacyEvent]
"""What is released, as a function of the noise multiplier; more noise must cost less."""

Reading = Callable[[PrivacyEvent], float]
"""The epsilon that an account reads an event as."""

LEAST, MOST = 1e-2, 1e6
PRECISION = 1e-4


@dataclass(frozen=True)
class NoisyStage:
    """One run of DP-SGD.

    Args:
        sampling_rate: the probability with which each record is in a step.
        steps: how many steps one record can be part of, over all its participations.
        noise_share: this stage's noise multiplier over the common one; a stage with 2 is charged
            less and learns less.

    >>> NoisyStage(sampling_rate=0.01, steps=500).event(1.1, Relation.BLANK_ONE).times
    500
    """

    sampling_rate: float
    steps: int
    noise_share: float = 1.0

    def event(self, noise_multiplier: float, relation: Relation) -> PrivacyEvent:
        noise = Gaussian(noise_multiplier * self.noise_share)
        return Repeated(PoissonSampled(noise, self.sampling_rate, relation), self.steps)


def dp_sgd_noise(
    stages: Sequence[NoisyStage], *, epsilon: float, delta: float, relation: Relation
) -> float:
    """The common noise multiplier at which all stages together cost at most (epsilon, delta).

    Measured as a fixed plan, by composing privacy-loss distributions: within 0.01 % of the smallest
    noise that this measure allows, never below it. No stage gets a noise multiplier below 0.01,
    even where less would do.

    >>> stages = [NoisyStage(sampling_rate=0.02, steps=200)]
    >>> noise = dp_sgd_noise(stages, epsilon=1.0, delta=1e-5, relation=Relation.BLANK_ONE)
    >>> event = stages[0].event(noise, Relation.BLANK_ONE)
    >>> 0.99 < PrivacyLoss().compose(event).epsilon(1e-5) <= 1.0
    True
    """
    check_target(epsilon, delta)
    if not stages:
        raise InvalidInput("at least one stage is needed")
    (leaves,) = branches(Composed(tuple(stage.event(1.0, relation) for stage in stages)))
    least = 2 * privacy_loss.rounding(leaves)
    if delta <= least:
        raise InvalidInput(
            f"{sum(leaves.values())} steps are composed numerically, for which {least:.2g} is the "
            f"smallest delta, found {delta:g}"
        )
    return _dp_sgd_noise(tuple(stages), epsilon, delta, Relation(relation))


@lru_cache(maxsize=512)
def _dp_sgd_noise(
    stages: tuple[NoisyStage, ...], epsilon: float, delta: float, relation: Relation
) -> float:
    def excess(log_noise: float) -> float:
        noise = math.exp(log_noise)
        event = Composed(tuple(stage.event(noise, relation) for stage in stages))
        return math.log(max(PrivacyLoss().compose(event).epsilon(delta), 1e-12) / epsilon)

    least = math.log(LEAST / min(stage.noise_share for stage in stages))
    return _root_on_the_safe_side(excess, _first_guess(stages, epsilon, delta), least)


def smallest_noise_of(
    event_of: EventOf, *, epsilon: float, delta: float, read: Reading | None = None
) -> float:
    """The smallest noise multiplier whose event costs at most (epsilon, delta).

    Assumes that more noise costs less. Promises that the answer meets the target; it is never
    below 0.01.

    Args:
        read: the epsilon that an account reads an event as at this delta; that of a fixed plan if
            not given.

    >>> noise = smallest_noise_of(lambda z: Repeated(Gaussian(z), 10), epsilon=1.0, delta=1e-6)
    >>> noise > gaussian_noise_multiplier(1.0, 1e-6)
    True
    """
    check_target(epsilon, delta)

    def as_a_plan(event: PrivacyEvent) -> float:
        return PrivacyLoss().compose(event).epsilon(delta)

    def excess(log_noise: float) -> float:
        spent = (read or as_a_plan)(event_of(math.exp(log_noise)))
        return math.log(max(spent, 1e-12) / epsilon)

    if excess(math.log(MOST)) > 0:
        raise InvalidInput("what does not depend on the noise costs more than this target already")
    return _root_on_the_safe_side(excess, 0.0, math.log(LEAST))


def _first_guess(stages: Sequence[NoisyStage], epsilon: float, delta: float) -> float:
    """By the central limit theorem many sampled steps look like one Gaussian release."""
    from scipy.optimize import brentq

    wanted = 1 / gaussian_noise_multiplier(epsilon, delta)

    def excess(log_noise: float) -> float:
        total = sum(
            stage.steps
            * stage.sampling_rate**2
            * math.expm1(min(100.0, (math.exp(log_noise) * stage.noise_share) ** -2))
            for stage in stages
        )
        return 0.5 * math.log(total) - math.log(wanted)

    low, high = math.log(LEAST), math.log(MOST)
    return float(brentq(excess, low, high)) if excess(low) > 0 > excess(high) else 0.0


def _root_on_the_safe_side(excess: Callable[[float], float], guess: float, least: float) -> float:
    """Where `excess` falls to zero, by secants from a guess; the answer has excess ≤ 0."""
    (x0, y0), (x1, y1) = _bracket(excess, guess, least)
    while x1 - x0 > PRECISION:
        secant = x0 - y0 * (x1 - x0) / (y1 - y0) if math.isfinite(y0) else (x0 + x1) / 2
        # Aim a little to the safe side, so that the bracket closes from both ends.
        middle = min(max(secant + PRECISION / 4, x0 + PRECISION / 2), x1 - PRECISION / 2)
        value = excess(middle)
        if value > 0:
            x0, y0 = middle, value
        else:
            x1, y1 = middle, value
            if -value < PRECISION / 2:
                break
    return math.exp(x1)


def _bracket(
    excess: Callable[[float], float], guess: float, least: float
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Two points between which `excess` falls to zero; twice the least one if it is enough."""
    step = 0.05
    point = (max(guess, least), excess(max(guess, least)))
    while True:
        if point[1] <= 0 and point[0] <= least:
            return point, point
        beyond = max(point[0] + (step if point[1] > 0 else -step), least)
        if beyond > 16:
            raise InvalidInput("no noise multiplier up to 1e7 meets this target")
        other = (beyond, excess(beyond))
        if (other[1] > 0) != (point[1] > 0):
            return (point, other) if point[1] > 0 else (other, point)
        point, step = other, 2 * step
