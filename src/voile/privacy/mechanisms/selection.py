"""Choosing among candidates by their scores, and answering at random.

Guarantees
    1. The exponential mechanism names candidate i with probability proportional to
       exp(epsilon·score_i/(2Δ)). Epsilon is 1e-9 smaller than declared, for what floating point
       lost in the scores.
    2. `SubsetSelection` is (epsilon, 0)-differentially private for *any* two inputs: nothing about
       the record has to be bounded, so it suits the unit "explained row". Nothing but the named set
       leaves: not even the order in which Python would list it.
    3. All randomness is the operating system's, through exact samplers.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from voile.core.errors import InvalidInput
from voile.core.guarantee import ProtectedUnit, Relation, check_neighbours
from voile.privacy import events
from voile.privacy.mechanisms.parameters import (
    MARGIN,
    ChoicePreview,
    checked_noise,
    checked_target,
    checked_values,
    measured_in,
)
from voile.privacy.sensitivity import Norm, Sensitivity
from voile.privacy.sensitivity.bound import positive

_ANY_NORM = (Norm.LINF, Norm.L2, Norm.L1)  # the largest coordinate is never above the other norms


@dataclass(frozen=True, kw_only=True)
class ExponentialMechanism:
    """Names the candidate with the (nearly) highest score.

    Args:
        epsilon: of one choice; the privacy loss lies in an interval of this length.
        sensitivity: of each score by itself.
        candidates: how many there are.

    >>> from voile.privacy.sensitivity import count
    >>> one = ExponentialMechanism(epsilon=1.0, sensitivity=count(relation="blank one"),
    ...                            candidates=3)
    >>> one.event(), one.randomise([5.0, 90.0, 7.0])
    (BoundedRange(epsilon=1.0), 1)
    """

    epsilon: float
    sensitivity: Sensitivity
    candidates: int

    def __post_init__(self) -> None:
        epsilon, _ = checked_target(self.epsilon, 0.0, pure=True)
        object.__setattr__(self, "epsilon", epsilon)
        checked_noise(_scale(measured_in(self.sensitivity, *_ANY_NORM), epsilon), self.sensitivity)
        positive("candidates", self.candidates)

    @property
    def scale(self) -> float:
        """Of the Gumbel noise that makes the largest noisy score the right choice."""
        return _scale(self.sensitivity, self.epsilon)

    def event(self) -> events.BoundedRange:
        return events.BoundedRange(self.epsilon)

    def randomise(self, scores: ArrayLike) -> int:
        checked = checked_values(scores, (self.candidates,), None)
        return int(_selector(self.scale)(checked.tolist())[0]) if self.candidates > 1 else 0

    def preview(self) -> ChoicePreview:
        # The difference of two Gumbel variables is logistic, and exceeds scale·ln 19 with 5 %.
        return ChoicePreview(1 / self.candidates, self.scale * math.log(19))


def _scale(sensitivity: Sensitivity, epsilon: float) -> float:
    # Twice: one score may rise by Δ while all others fall by Δ.
    return 2 * sensitivity.value / epsilon * (1 + MARGIN)


@lru_cache(maxsize=256)
def _selector(scale: float) -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False))
    # With this measure OpenDP's choice has the law of the largest score with Gumbel noise: the
    # exponential mechanism (by rejection, in rational numbers).
    measure = dp.zero_concentrated_divergence()
    return dp.m.make_noisy_top_k(domain, dp.linf_distance(T=float), measure, k=1, scale=scale)


# --- A category or a set toward a third party -----------------------------------------------------


# How far below e^epsilon the odds of the truth are kept: a thousand times what floating point can
# lose in them, and a thousandth of the smallest epsilon, so that neither the truth is too likely
# nor anything else.
_HAIR: Final = 1e-12
_LEAST_EPSILON: Final = 1e-9
_MOST_ITEMS: Final = 2**16
_MOST_NAMED: Final = 256


@dataclass(frozen=True, kw_only=True)
class SubsetSelection:
    """Says a set of k items out of `items` that overlaps the true one.

    Sets that share at least `threshold` items with the truth are e^ε times as likely as the others,
    each kind uniformly. There are equally many of them whatever the truth is, so the ratio of any
    two inputs is at most e^ε. The threshold that shares the most items on average is chosen from
    public facts; at threshold k this is randomised response over all sets, and for k = 1 over all
    items.

    >>> one = SubsetSelection(epsilon=2.0, items=12, k=3, unit="explained row",
    ...                       relation="replace one")
    >>> one.event(), len(one.randomise({0, 4, 7}))
    (PureDp(epsilon=2.0), 3)
    """

    epsilon: float
    items: int
    k: int
    unit: ProtectedUnit
    relation: Relation

    def __post_init__(self) -> None:
        _check_common(self)
        if not 1 <= positive("k", self.k) < positive("items", self.items):
            raise InvalidInput(f"a set of {self.k} out of {self.items} items tells nothing")
        if self.items > _MOST_ITEMS or self.k > _MOST_NAMED:
            raise InvalidInput(
                f"at most {_MOST_NAMED} out of {_MOST_ITEMS} items are named, "
                f"found {self.k} out of {self.items}"
            )

    @property
    def threshold(self) -> int:
        return _plan(self.epsilon, self.items, self.k)[0]

    def expected_overlap(self, threshold: int) -> float:
        """How many items the answer shares with the truth on average, at a threshold."""
        weights = _weights(self.epsilon, self.items, self.k, threshold)
        return float(Fraction(sum(j * w for j, w in enumerate(weights)), sum(weights)))

    def event(self) -> events.PureDp:
        return events.PureDp(self.epsilon)

    def randomise(self, truth: Collection[int]) -> frozenset[int]:
        chosen = _check_set(truth, self.k, self.items)
        _, weights = _plan(self.epsilon, self.items, self.k)
        # First how many true items are named, then which: sets of equal overlap are equally likely.
        overlap = _weighted(weights)
        others = sorted(set(range(self.items)) - chosen)
        named = _sample(sorted(chosen), overlap) + _sample(others, self.k - overlap)
        # Python lists numbers that share a slot of the hash table in the order of their insertion:
        # true items first, if they were not sorted here.
        return frozenset(sorted(named))

    def preview(self) -> ChoicePreview:
        return ChoicePreview(self.expected_overlap(self.threshold) / self.k, None)


@lru_cache(maxsize=256)
def _plan(epsilon: float, items: int, k: int) -> tuple[int, tuple[int, ...]]:
    """The threshold that shares the most items on average, and the weight of each overlap."""

    def mean_overlap(threshold: int) -> Fraction:
        weights = _weights(epsilon, items, k, threshold)
        return Fraction(sum(j * w for j, w in enumerate(weights)), sum(weights))

    threshold = max(range(1, k + 1), key=mean_overlap)
    return threshold, _weights(epsilon, items, k, threshold)


def _weights(epsilon: float, items: int, k: int, threshold: int) -> tuple[int, ...]:
    """How often an overlap of 0, 1, ..., k is said: how many sets have it, times their odds.

    Whole numbers, so that the odds of two sets are exactly `_odds` or 1, in every direction.
    """
    odds = _odds(epsilon)
    return tuple(
        count * (odds.numerator if j >= threshold else odds.denominator)
        for j, count in enumerate(_counts(items, k))
    )


@lru_cache(maxsize=256)
def _counts(items: int, k: int) -> tuple[int, ...]:
    """How many sets share exactly j items with the truth."""
    return tuple(math.comb(k, j) * math.comb(items - k, k - j) for j in range(k + 1))


def _odds(epsilon: float) -> Fraction:
    """e^epsilon, rounded down by a hair; 1 at least."""
    return Fraction(math.exp(min(epsilon, 700.0))) * (1 - Fraction(_HAIR))


def _check_common(mechanism: SubsetSelection) -> None:
    epsilon, _ = checked_target(mechanism.epsilon, 0.0, pure=True)
    if epsilon < _LEAST_EPSILON:
        raise InvalidInput(f"epsilon = {epsilon:g} is below the accuracy of the sampler")
    object.__setattr__(mechanism, "epsilon", epsilon)
    try:
        object.__setattr__(mechanism, "unit", ProtectedUnit(mechanism.unit))
        object.__setattr__(mechanism, "relation", Relation(mechanism.relation))
    except ValueError as error:
        raise InvalidInput(f"a unit and a relation must be stated: {error}") from None
    check_neighbours(mechanism.unit, mechanism.relation)


def _check_set(truth: Collection[int], k: int, items: int) -> frozenset[int]:
    wanted = f"expected {k} different items out of 0 to {items - 1}"
    try:
        named = list(truth)
    except TypeError:
        raise InvalidInput(f"{wanted}, found {type(truth).__name__}") from None
    if any(isinstance(item, bool) or not isinstance(item, (int, np.integer)) for item in named):
        raise InvalidInput(f"{wanted}, found something other than whole numbers")
    chosen = frozenset(int(item) for item in named)
    if not len(named) == len(chosen) == k or not all(0 <= item < items for item in chosen):
        raise InvalidInput(wanted)
    return chosen


def _weighted(weights: tuple[int, ...]) -> int:
    """A position with probability proportional to its whole-numbered weight, exactly."""
    # Whole numbers, so nothing is rounded: the odds are exactly those that epsilon pays for.
    left = secrets.randbelow(sum(weights))
    for position, weight in enumerate(weights):
        left -= weight
        if left < 0:
            return position
    raise AssertionError("the weights add up to more than was drawn")


def _sample(items: list[int], size: int) -> list[int]:
    return secrets.SystemRandom().sample(items, size)
