"""Noise in shares: the sum of those who are honest and survive, against what it claims.

One number that a row moves by 1, as in the calibration table; the sum carries h shares, which is
the fewest that are promised. Shares sized for more parties than that are refuted.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.statistical import bounds
from voile.core.guarantee import ProtectedUnit, Relation
from voile.privacy.accounting.conversion import zcdp_to_epsilon
from voile.privacy.mechanisms.shares import SharedGaussian
from voile.privacy.sensitivity import Norm, Sensitivity

RUNS, DELTA, HONEST = 100_000, 0.01, 3
SIGMA = 1.0


def shared(shares: int) -> SharedGaussian:
    one = Sensitivity(
        value=1 / SIGMA, norm=Norm.L2, unit=ProtectedUnit.ROW, relation=Relation.BLANK_ONE
    )
    return SharedGaussian(sigmas=(SIGMA,), shapes=((RUNS,),), sensitivity=one, shares=shares)


def sums(noise: SharedGaussian, row: int) -> Any:
    """Of as many parties as are honest, one of which has the row."""
    zeros = np.zeros(RUNS, dtype=np.int64)
    found = [noise.randomise([zeros + row * (party == 0)])[0] for party in range(HONEST)]
    return sum(found).astype(np.float64)  # type: ignore[union-attr]


def refuted(noise: SharedGaussian) -> float:
    """The largest delta that is proved at the epsilon that h shares promise."""
    epsilon = zcdp_to_epsilon(shared(HONEST).event().rho, DELTA)
    inside, outside = sums(noise, 1), sums(noise, 0)
    return max(
        bounds.delta_at_least(inside, outside, epsilon),
        bounds.delta_at_least(-outside, -inside, epsilon),
    )


def test_a_sum_of_honest_shares_keeps_its_claim() -> None:
    assert refuted(shared(HONEST)) <= DELTA


@pytest.mark.parametrize("everybody", [9])
def test_shares_sized_for_all_parties_are_refuted(everybody: int) -> None:
    """Planted fault: nine parties are asked, six of them collude or fall out."""
    assert refuted(shared(everybody)) > 3 * DELTA
