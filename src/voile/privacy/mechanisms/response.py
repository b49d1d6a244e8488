"""Saying a category, or a set of items, with a grain of salt.

Guarantees
    1. Both are exactly (epsilon, 0)-differentially private for *any* two inputs: nothing about the
       record has to be bounded, so they suit the unit "explained row".
    2. All randomness is the operating system's, through exact samplers.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from voile.core.errors import InvalidInput
from voile.core.guarantee import ProtectedUnit, Relation
from voile.privacy import events
from voile.privacy.mechanisms.parameters import checked_target
from voile.privacy.mechanisms.preview import ChoicePreview
from voile.privacy.sensitivity.bound import positive


@dataclass(frozen=True, kw_only=True)
class RandomisedResponse:
    """Says the true one of c categories with probability e^ε/(e^ε + c − 1), else any other."""

    epsilon: float
    categories: int
    unit: ProtectedUnit
    relation: Relation

    def __post_init__(self) -> None:
        checked_target(self.epsilon, 0.0, pure=True)
        if positive("categories", self.categories) < 2:
            raise InvalidInput("randomised response needs at least two categories")

    @property
    def truth(self) -> float:
        """The probability of the true category, rounded down by a hair."""
        others = (self.categories - 1) * math.exp(-self.epsilon)
        return (1 - 1e-12) / (1 + others)

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
    """

    epsilon: float
    items: int
    k: int
    unit: ProtectedUnit
    relation: Relation

    def __post_init__(self) -> None:
        checked_target(self.epsilon, 0.0, pure=True)
        if not 1 <= positive("k", self.k) < positive("items", self.items):
            raise InvalidInput(f"a set of {self.k} out of {self.items} items tells nothing")

    @property
    def threshold(self) -> int:
        return max(range(1, self.k + 1), key=self.expected_overlap)

    def expected_overlap(self, threshold: int) -> float:
        """How many items the answer shares with the truth on average, at a threshold."""
        near = self._near(threshold)
        counts = self._counts()
        inside = sum(j * counts[j] for j in range(threshold, self.k + 1))
        outside = sum(j * counts[j] for j in range(threshold))
        far = sum(counts[:threshold])
        near_mean = inside / sum(counts[threshold:])
        return near * near_mean + (1 - near) * (outside / far if far else 0.0)

    def event(self) -> events.PureDp:
        return events.PureDp(self.epsilon)

    def randomise(self, truth: Collection[int]) -> frozenset[int]:
        chosen = frozenset(truth)
        if len(chosen) != self.k or not all(item in range(self.items) for item in chosen):
            raise InvalidInput(f"expected {self.k} different items out of {self.items}")
        threshold, counts = self.threshold, self._counts()
        near = bool(_coin(self._near(threshold))(True))
        overlaps = range(threshold, self.k + 1) if near else range(threshold)
        overlap = _weighted({j: counts[j] for j in overlaps if counts[j]})
        others = sorted(set(range(self.items)) - chosen)
        return frozenset(_sample(sorted(chosen), overlap) + _sample(others, self.k - overlap))

    def preview(self) -> ChoicePreview:
        return ChoicePreview(self.expected_overlap(self.threshold) / self.k, None)

    def _counts(self) -> list[int]:
        """How many sets share exactly j items with the truth."""
        return [
            math.comb(self.k, j) * math.comb(self.items - self.k, self.k - j)
            for j in range(self.k + 1)
        ]

    def _near(self, threshold: int) -> float:
        """The probability of a set at or above the threshold, rounded down by a hair."""
        counts = self._counts()
        near, far = sum(counts[threshold:]), sum(counts[:threshold])
        if not far:
            return 1.0
        return (1 - 1e-12) / (1 + far / near * math.exp(-self.epsilon))


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


@lru_cache(maxsize=256)
def _coin(probability: float) -> Any:
    """True with this probability, when asked with True."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    if probability < 0.5:  # OpenDP's coin says the truth more often than not
        honest = dp.m.make_randomized_response_bool(1 - probability)
        return lambda answer: not honest(answer)
    return dp.m.make_randomized_response_bool(probability)


def _weighted(weights: dict[int, int]) -> int:
    """A key with probability proportional to its whole-numbered weight, exactly."""
    left = secrets.randbelow(sum(weights.values()))
    for key, weight in weights.items():
        left -= weight
        if left < 0:
            return key
    raise AssertionError("the weights add up to more than was drawn")


def _sample(items: list[int], size: int) -> list[int]:
    return secrets.SystemRandom().sample(items, size)
