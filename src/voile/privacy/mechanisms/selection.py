"""Choosing among candidates by their scores, and answering at random.

Guarantees
    1. The exponential mechanism names candidate i with probability proportional to
       exp(epsilon·score_i/(2Δ)); peeling repeats it without the candidates already named. Epsilon
       is 1e-9 smaller than declared, for what floating point lost in the scores.
    2. `RandomisedResponse` and `SubsetSelection` are (epsilon, 0)-differentially private for *any*
       two inputs: nothing about the record has to be bounded, so they suit the unit "explained
       row". Nothing but the named set leaves: not even the order in which Python would list it.
    3. All randomness is the operating system's, through exact samplers.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, Self

import numpy as np
from numpy.typing import ArrayLike

from voile.core.errors import InvalidInput
from voile.core.guarantee import ProtectedUnit, Relation, check_neighbours
from voile.privacy import events
from voile.privacy.mechanisms.parameters import (
    MARGIN,
    ChoicePreview,
    checked_noise,
    checked_scale,
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
        return _peel(checked.tolist(), 1, self.scale)[0]

    def preview(self) -> ChoicePreview:
        # The difference of two Gumbel variables is logistic, and exceeds scale·ln 19 with 5 %.
        return ChoicePreview(1 / self.candidates, self.scale * math.log(19))


@dataclass(frozen=True, kw_only=True)
class PeelingTopK:
    """Names the k candidates with the (nearly) highest scores, best first.

    Args:
        k: how many are named.
        epsilon_each: of one choice.
        sensitivity: of each score by itself.
        candidates: how many there are.

    >>> from voile.privacy.sensitivity import count
    >>> two = PeelingTopK(k=2, epsilon_each=1.0, sensitivity=count(relation="blank one"),
    ...                   candidates=3)
    >>> two.randomise([900.0, 0.0, 500.0])
    (0, 2)
    """

    k: int
    epsilon_each: float
    sensitivity: Sensitivity
    candidates: int

    def __post_init__(self) -> None:
        epsilon, _ = checked_target(self.epsilon_each, 0.0, pure=True)
        object.__setattr__(self, "epsilon_each", epsilon)
        checked_noise(_scale(measured_in(self.sensitivity, *_ANY_NORM), epsilon), self.sensitivity)
        if not 1 <= positive("k", self.k) <= positive("candidates", self.candidates):
            raise InvalidInput(f"of {self.candidates} candidates {self.k} cannot be named")

    @classmethod
    def within_rho(cls, *, rho: float, k: int, sensitivity: Sensitivity, candidates: int) -> Self:
        """All k choices together cost `rho` and no more: epsilon²/8 each."""
        # The loss of a choice lies in an interval of length epsilon. By Hoeffding's lemma its rho
        # is epsilon²/8, a quarter of that of a pure epsilon.
        each = math.sqrt(8 * checked_scale(rho) / positive("k", k)) * (1 - 1e-15)
        return cls(k=k, epsilon_each=each, sensitivity=sensitivity, candidates=candidates)

    @property
    def scale(self) -> float:
        return _scale(self.sensitivity, self.epsilon_each)

    def event(self) -> events.PrivacyEvent:
        return events.Repeated(events.BoundedRange(self.epsilon_each), self.k)

    def randomise(self, scores: ArrayLike) -> tuple[int, ...]:
        checked = checked_values(scores, (self.candidates,), None)
        return tuple(_peel(checked.tolist(), self.k, self.scale))

    def preview(self) -> ChoicePreview:
        return ChoicePreview(self.k / self.candidates, self.scale * math.log(19))


def _scale(sensitivity: Sensitivity, epsilon: float) -> float:
    # Twice: one score may rise by Δ while all others fall by Δ.
    return 2 * sensitivity.value / epsilon * (1 + MARGIN)


def _peel(scores: list[float], k: int, scale: float) -> list[int]:
    return list(_selector(k, scale)(scores)) if len(scores) > k else _all(scores, k, scale)


def _all(scores: list[float], k: int, scale: float) -> list[int]:
    """Naming all of k candidates still tells their order; the last one needs no choice."""
    if k == 1:
        return [0]
    first = list(_selector(k - 1, scale)(scores))
    return first + [i for i in range(k) if i not in first]


@lru_cache(maxsize=256)
def _selector(k: int, scale: float) -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False))
    # With this measure OpenDP's choice has the law of the largest score with Gumbel noise: the
    # exponential mechanism (by rejection, in rational numbers), peeled k times.
    measure = dp.zero_concentrated_divergence()
    return dp.m.make_noisy_top_k(domain, dp.linf_distance(T=float), measure, k=k, scale=scale)


# --- A category or a set toward a third party -----------------------------------------------------


# How far below e^epsilon the odds of the truth are kept: a thousand times what floating point can
# lose in them, and a thousandth of the smallest epsilon, so that neither the truth is too likely
# nor anything else.
_HAIR: Final = 1e-12
_LEAST_EPSILON: Final = 1e-9
_MOST_CATEGORIES: Final = 2**16
_MOST_ITEMS: Final = 2**16
_MOST_NAMED: Final = 256


@dataclass(frozen=True, kw_only=True)
class RandomisedResponse:
    """Says the true one of c categories with probability e^ε/(e^ε + c − 1), else any other.

    Assumes nothing about the record: any two are protected from each other at epsilon.

    >>> one = RandomisedResponse(epsilon=1.0, categories=4, unit="explained row",
    ...                          relation="replace one")
    >>> one.event(), round(one.truth, 3), one.randomise(2) in range(4)
    (PureDp(epsilon=1.0), 0.475, True)
    """

    epsilon: float
    categories: int
    unit: ProtectedUnit
    relation: Relation

    def __post_init__(self) -> None:
        _check_common(self)
        if not 2 <= positive("categories", self.categories) <= _MOST_CATEGORIES:
            raise InvalidInput(
                f"randomised response needs 2 to {_MOST_CATEGORIES} categories, "
                f"found {self.categories}"
            )

    @property
    def truth(self) -> float:
        """The probability of the true category, rounded down by a hair."""
        others = (self.categories - 1) * math.exp(-self.epsilon)
        # Divided by e^epsilon beforehand: e^epsilon itself overflows from about 710 on.
        return (1 - _HAIR) / (1 + others)

    def event(self) -> events.PureDp:
        return events.PureDp(self.epsilon)

    def randomise(self, category: int) -> int:
        _check_category(category, self.categories)
        return int(_response(self.categories, self.truth)(int(category)))

    def preview(self) -> ChoicePreview:
        return ChoicePreview(self.truth, None)


@dataclass(frozen=True, kw_only=True)
class SubsetSelection:
    """Says a set of k items out of `items` that overlaps the true one.

    Sets that share at least `threshold` items with the truth are e^ε times as likely as the others,
    each kind uniformly. There are equally many of them whatever the truth is, so the ratio of any
    two inputs is at most e^ε. The threshold that shares the most items on average is chosen from
    public facts; at threshold k this is randomised response over all sets.

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


def _check_common(mechanism: RandomisedResponse | SubsetSelection) -> None:
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


def _check_category(category: int, categories: int) -> None:
    if isinstance(category, bool) or not isinstance(category, (int, np.integer)):
        raise InvalidInput(f"a category is a whole number, found {category!r}")
    if not 0 <= category < categories:
        raise InvalidInput(f"expected a category in 0 to {categories - 1}, found {category}")


@lru_cache(maxsize=256)
def _response(categories: int, truth: float) -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    return dp.m.make_randomized_response(list(range(categories)), truth)


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
