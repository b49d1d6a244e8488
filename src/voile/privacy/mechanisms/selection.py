"""Choosing among candidates by their scores.

Guarantees
    1. The exponential mechanism names candidate i with probability proportional to
       exp(epsilon·score_i/(2Δ)); peeling repeats it without the candidates already named. Epsilon
       is 1e-9 smaller than declared, for what floating point lost in the scores.
    2. All randomness is the operating system's, through exact samplers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

from numpy.typing import ArrayLike

from voile.core.errors import InvalidInput
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
