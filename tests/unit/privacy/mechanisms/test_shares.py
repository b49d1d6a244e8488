"""Noise in shares: what a sum of them costs, by exact convolution, and that each share is there."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from voile.core.errors import InvalidInput
from voile.core.guarantee import ProtectedUnit, Relation
from voile.core.randomness import Seeded, StreamCipher
from voile.privacy.mechanisms import DiscreteGaussian, shares
from voile.privacy.mechanisms.shares import LEAST_VARIANCE, SharedGaussian, excess_of_sum
from voile.privacy.sensitivity import Norm, Sensitivity

WIDE = 400
ORDERS = (1.01, 1.5, 2.0, 4.0, 16.0, 64.0)


def sensitivity(value: float, norm: Norm = Norm.L2) -> Sensitivity:
    return Sensitivity(value=value, norm=norm, unit=ProtectedUnit.ROW, relation=Relation.BLANK_ONE)


def noise(*sigmas: float, parties: int = 4, moved: float = 0.5, size: int = 2000) -> SharedGaussian:
    shapes = tuple((size,) for _ in sigmas)
    return SharedGaussian(
        sigmas=sigmas, shapes=shapes, sensitivity=sensitivity(moved), shares=parties
    )


def discrete_law(sigma: float) -> Any:
    steps = np.arange(-WIDE, WIDE + 1, dtype=np.longdouble)
    masses = np.exp(-(steps**2) / (2 * np.longdouble(sigma) ** 2))
    return masses / masses.sum()


def law_of_sum(count: int, sigma: float) -> Any:
    """Of `count` discrete Gaussians, by convolution; cut off where nothing is left."""
    law = one = discrete_law(sigma)
    for _ in range(count - 1):
        middle = np.convolve(law, one)
        law = middle[WIDE:-WIDE]
    return law / law.sum()


def divergence(law: Any, shift: int, order: float) -> float:
    """Rényi, between the law and the law moved by `shift`, where both have mass."""
    one, two = law[:-shift], law[shift:]
    kept = (one > 1e-300) & (two > 1e-300)
    logs = order * np.log(one[kept]) + (1 - order) * np.log(two[kept])
    peak = logs.max()
    return float((peak + np.log(np.exp(logs - peak).sum())) / (order - 1))


@pytest.mark.parametrize("sigma", [0.35, 0.5, 0.7, 1.0, 3.2])
@pytest.mark.parametrize("count", [2, 3, 5, 8])
def test_a_sum_is_nowhere_further_from_the_discrete_gaussian_than_stated(
    count: int, sigma: float
) -> None:
    """Half the excess bounds the logarithm of the ratio at every number, small shares included."""
    law, one = law_of_sum(count, sigma), discrete_law(math.sqrt(count) * sigma)
    near = slice(WIDE - 12, WIDE + 13)
    apart = np.abs(np.log(law[near]) - np.log(one[near])).max()
    assert apart <= excess_of_sum(count, sigma) / 2 + 1e-15


@pytest.mark.parametrize("sigma", [0.35, 0.5, 0.7, 1.0, 3.2])
@pytest.mark.parametrize("count", [2, 4, 7])
@pytest.mark.parametrize("shift", [1, 2, 5])
def test_the_cost_of_a_sum_holds_at_every_order(count: int, sigma: float, shift: int) -> None:
    law = law_of_sum(count, sigma)
    for order in ORDERS:
        bound = order * shift**2 / (2 * count * sigma**2) + excess_of_sum(count, sigma)
        assert divergence(law, shift, order) <= bound + 1e-12


def test_below_the_least_variance_a_sum_costs_more_than_its_variance_says() -> None:
    """Why the excess is there: shares of a small variance are far from a discrete Gaussian."""
    count, sigma = 7, 0.3
    cost = divergence(law_of_sum(count, sigma), 1, 2.0)
    assert cost > 1.01 * 2.0 / (2 * count * sigma**2)
    assert cost <= 2.0 / (2 * count * sigma**2) + excess_of_sum(count, sigma)


def test_the_event_is_that_of_the_sum_at_all_shares_and_of_fewer_in_proportion() -> None:
    shared = noise(3.0, 70.0, parties=6)
    assert shared.event().rho == pytest.approx(0.125, rel=1e-8)
    assert shared.event().rho >= 0.125
    for honest in (1, 2, 5, 9):
        assert shared.event(honest).rho == pytest.approx(0.125 * 6 / honest, rel=1e-8)


def test_the_event_agrees_with_a_convolution_of_what_is_drawn() -> None:
    """Planted fault: shares sized for all ten parties, of whom five are honest and survive."""
    honest, everybody, moved = 5, 10, 0.6
    shared = noise(1.0, parties=honest, moved=moved, size=1)
    (part,) = shared._parts
    shift = round(moved * shared.factor)  # a whole step, not smaller than what is stated
    law = law_of_sum(honest, part.sigma)
    claimed = (shift / shared.factor / moved) ** 2 * shared.event().rho
    assert divergence(law, shift, 2.0) / 2.0 <= claimed
    short = law_of_sum(honest, part.sigma * math.sqrt(honest / everybody))
    assert divergence(short, shift, 2.0) / 2.0 > 1.9 * claimed


@pytest.mark.parametrize("parties", [2, 4, 50])
@pytest.mark.parametrize("sigma", [0.4, 1.0, 30.0])
def test_every_share_has_the_least_variance_and_no_larger_factor_than_it_needs(
    parties: int, sigma: float
) -> None:
    shared = noise(sigma, 3 * sigma, parties=parties)
    variances = [part.sigma**2 for part in shared._parts]
    assert min(variances) >= LEAST_VARIANCE
    smaller = (shared.factor - 1) ** 2 * sigma**2 / parties
    assert shared.factor == 1 or smaller < LEAST_VARIANCE
    assert excess_of_sum(parties, math.sqrt(LEAST_VARIANCE)) < 1e-40


def test_the_noise_of_all_shares_is_the_noise_that_was_asked_for() -> None:
    """With 2,000 values a deviation is 7 of its errors away from true once in 10^11."""
    shared = noise(1.5, 40.0, parties=5)
    values = [np.full(2000, 11), np.full(2000, -3)]
    empty = [np.zeros(2000, dtype=np.int64)] * 2  # a party without rows sends noise as well
    parties = [shared.randomise(each) for each in (values, empty, values, empty, empty)]
    totals = [np.sum([blocks[place] for blocks in parties], axis=0) for place in (0, 1)]
    for sigma, total, exact in zip(shared.sigmas, totals, (22, -6), strict=True):
        off = total / shared.factor - exact
        assert off.std() == pytest.approx(sigma, rel=7 / math.sqrt(4000))
    alone = [block.std() for block in parties[1]]
    assert alone == pytest.approx([p.sigma for p in shared._parts], rel=7 / math.sqrt(4000))
    restored = shared.restored(totals, 0.5)
    assert [block.dtype for block in restored] == [np.int64] * 2
    assert abs(restored[1].mean() + 3) < 7 * 20 / math.sqrt(2000)


def test_one_share_is_the_whole_noise_on_the_numbers_as_they_are() -> None:
    alone = noise(0.4, parties=1)
    assert alone.factor == 1
    assert alone.event() == alone.event(1)
    (part,) = alone._parts
    assert part == DiscreteGaussian(sigma=0.4, sensitivity=sensitivity(0.2), shape=(2000,))


def test_noise_is_exact_unless_it_is_seeded_in_a_test() -> None:
    shared, zeros = noise(9.0), [np.zeros(2000, dtype=np.int64)]
    seeded = [shared.randomise(zeros, Seeded(7))[0] for _ in range(2)]
    fresh = [shared.randomise(zeros, StreamCipher())[0] for _ in range(2)]
    assert (seeded[0] == seeded[1]).all()
    assert (fresh[0] != fresh[1]).any()
    assert seeded[0].std() == pytest.approx(shared._parts[0].sigma, rel=7 / math.sqrt(4000))


def test_exact_noise_never_comes_from_a_generator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares, "_reproducible", None)
    noise(9.0, size=3).randomise([np.zeros(3, dtype=np.int64)], StreamCipher())


def test_wrong_calls_are_refused() -> None:
    with pytest.raises(InvalidInput, match="one deviation for each block"):
        SharedGaussian(sigmas=(1.0,), shapes=(), sensitivity=sensitivity(1.0), shares=2)
    with pytest.raises(InvalidInput, match="l2"):
        SharedGaussian(sigmas=(1.0,), shapes=((2,),), sensitivity=sensitivity(1.0, Norm.L1))
    for count in (0, True, 1.5):
        with pytest.raises(InvalidInput, match="number of parties"):
            noise(1.0, parties=count)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="expected 1 blocks"):
        noise(1.0).randomise([])
    with pytest.raises(InvalidInput, match="whole numbers"):
        noise(1.0).randomise([np.zeros(2000)])
