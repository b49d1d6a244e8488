"""The one door to dp-accounting's privacy-loss distributions (pessimistic: never too small).

`self_compose` of the distribution is used rather than the library's accountant, whose count is
ignored for randomised response in version 0.6.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from voile.core.errors import Refused
from voile.core.guarantee import Relation
from voile.privacy.events import (
    ApproximateDp,
    BoundedRange,
    Gaussian,
    Laplace,
    Leaf,
    PoissonSampled,
    PureDp,
    Zcdp,
)


def epsilon(leaves: dict[Leaf, int], delta: float) -> float:
    """The epsilon of the composition at delta; infinite if no epsilon reaches it."""
    if not leaves:
        return 0.0
    # What rounding may have hidden is taken off delta first, so that the epsilon is not too small.
    left = delta - rounding(leaves)
    if left <= 0:
        return math.inf
    return float(_composed(frozenset(leaves.items())).get_epsilon_for_delta(left))


def delta(leaves: dict[Leaf, int], epsilon: float) -> float:
    """The delta of the composition at epsilon."""
    if not leaves:
        return 0.0
    composed = _composed(frozenset(leaves.items()))
    return min(1.0, float(composed.get_delta_for_epsilon(epsilon)) + rounding(leaves))


def rounding(leaves: dict[Leaf, int]) -> float:
    """How much of delta the rounding of Fourier transforms may be: counted as delta, to be safe.

    It grows with the number of events. Against transforms in extended precision up to 2·10⁻¹⁶ for
    each event were found; this is eight times as much.
    """
    return (sum(leaves.values()) + len(leaves)) * 2.0**-49


@lru_cache(maxsize=64)
def _composed(leaves: frozenset[tuple[Leaf, int]]) -> Any:
    ordered = sorted(leaves, key=repr)  # so that rounding does not depend on the order of arrival
    interval = _interval(ordered)
    parts = [_distribution(leaf, interval).self_compose(times) for leaf, times in ordered]
    composed = parts[0]
    for part in parts[1:]:
        composed = composed.compose(part)
    return composed


def _interval(leaves: list[tuple[Leaf, int]]) -> float:
    """A grid five hundred times finer than the spread of the composed loss, as a power of two.

    Rounding adds up over many steps, so their number refines it further. Rare but large losses
    (noise that is small, seldom sampled) would make such a grid too long: a single event gets at
    most 2¹⁴ points. The grid depends on the events alone, so calibration and check read
    the same figure.
    """
    spread = math.sqrt(sum(times * _variance(leaf) for leaf, times in leaves))
    steps = sum(times for _, times in leaves)
    longest = max(_largest(leaf) for leaf, _ in leaves)
    finest = max(spread / 500 / max(1, math.sqrt(steps / 500)), longest / 2**14, 2.0**-17)
    return float(2.0 ** math.ceil(math.log2(min(finest, max(2.0**-8, longest / 2**14)))))


def _variance(leaf: Leaf) -> float:
    """About the variance of the privacy loss; it only sets the grid."""
    match leaf:
        case Gaussian(multiplier):
            return 1 / multiplier**2
        case Laplace(multiplier):
            return min(1 / multiplier, 1 / multiplier**2)
        case PureDp(value) | BoundedRange(value) | ApproximateDp(value, _):
            return value**2
        case PoissonSampled(Gaussian(multiplier), probability):
            return probability**2 * math.expm1(min(50.0, 1 / multiplier**2))
        case Zcdp():
            raise Refused(
                "Zcdp names no noise law, so it has no privacy-loss distribution; account for it "
                "with ZeroConcentrated or Renyi"
            )


def _largest(leaf: Leaf) -> float:
    """About the largest privacy loss that has any weight; it only sets the grid."""
    match leaf:
        case Gaussian(multiplier):
            return 8 / multiplier
        case PoissonSampled(Gaussian(multiplier), probability):
            exponent = (16 * multiplier + 1) / (2 * multiplier**2)
            return math.log1p(probability * math.expm1(min(exponent, 700.0)))
        case Laplace(multiplier):
            return 1 / multiplier
        case PureDp(value) | BoundedRange(value) | ApproximateDp(value, _):
            return value
        case Zcdp():
            raise AssertionError("refused when the spread was measured")


@lru_cache(maxsize=256)
def _distribution(leaf: Leaf, interval: float) -> Any:
    from dp_accounting import NeighboringRelation
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    match leaf:
        case Gaussian(multiplier):
            return pld.from_gaussian_mechanism(multiplier, value_discretization_interval=interval)
        case Laplace(multiplier):
            return pld.from_laplace_mechanism(multiplier, value_discretization_interval=interval)
        case PoissonSampled(Gaussian(multiplier), probability, relation):
            replaced = relation is Relation.REPLACE_ONE
            neighbours = NeighboringRelation
            return pld.from_gaussian_mechanism(
                multiplier,
                sampling_prob=probability,
                value_discretization_interval=interval,
                neighboring_relation=(
                    neighbours.REPLACE_ONE if replaced else neighbours.ADD_OR_REMOVE_ONE
                ),
            )
        case PureDp(value) | BoundedRange(value):
            parameters = common.DifferentialPrivacyParameters(value, 0.0)
        case ApproximateDp(value, failure):
            parameters = common.DifferentialPrivacyParameters(value, failure)
        case Zcdp():
            raise AssertionError("refused when the grid was chosen")
    return pld.from_privacy_parameters(parameters, value_discretization_interval=interval)
