"""Proposals for a planned number of questions: equal noise, and Algorithm 2 as published."""

from __future__ import annotations

import math

import pytest

from voile.core.errors import InvalidInput
from voile.privacy.accounting import ZeroConcentratedFilter
from voile.privacy.allocation import PublishedAllocation, Query, equal_noise
from voile.privacy.events import Gaussian, Repeated

ACCOUNT = ZeroConcentratedFilter(1.0, 1e-5)


@pytest.mark.parametrize("count", [1, 7, 100])
def test_equal_noise_uses_all_of_it_and_no_more(count: int) -> None:
    found = equal_noise(ACCOUNT.fits, count)
    assert found is not None
    assert ACCOUNT.fits(Repeated(found, count))
    assert not ACCOUNT.fits(Repeated(Gaussian(found.noise_multiplier * (1 - 1e-6)), count))
    assert found.noise_multiplier == pytest.approx(math.sqrt(count / (2 * ACCOUNT.budget)))


def test_where_nothing_fits_nothing_is_proposed() -> None:
    assert equal_noise(lambda _: False, 3) is None


def test_algorithm_2_gives_most_to_the_first_question() -> None:
    """0.8 of everything; then 24.9 % of what is left after one question, by its own prediction."""
    paper, queries = PublishedAllocation(1.0, 1e-5), [Query(3600.0 * n) for n in range(3)]
    given = [paper.allocate(query, queries[:n]) for n, query in enumerate(queries)]
    assert given[0] == pytest.approx(0.8)
    weight = (2 * (1 + math.log(11) / math.log(10))) ** 2
    assert given[1] == pytest.approx(weight / (weight + 5 * 2.5) * 0.2 * 0.8)
    assert given[2] == pytest.approx(weight / (weight + 10 * 2.5) * (0.2 - given[1]) * 0.8)


def test_what_is_no_question() -> None:
    for wrong in ({"time": math.nan}, {"time": 0.0, "features": 0}):
        with pytest.raises(InvalidInput, match="finite time"):
            Query(**wrong)  # type: ignore[arg-type]
