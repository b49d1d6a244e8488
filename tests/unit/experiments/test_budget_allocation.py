"""Allocation policies: Algorithm 2 by hand, and ours against what it promises."""

from __future__ import annotations

import math

import pytest
from experiments.budget_allocation.policies import (
    DAY,
    DynamicAllocation,
    EqualVariance,
    FixedEvent,
    Situation,
    UniformOverHorizon,
    expected_queries,
)

from voile.core.errors import InvalidInput
from voile.privacy.accounting import ZeroConcentratedFilter
from voile.privacy.accounting.conversion import gaussian_noise_multiplier
from voile.privacy.allocation import (
    HOUR,
    Query,
    QueryType,
    cost_weight,
    predicted_load,
    seasonal_factor,
)
from voile.privacy.events import Gaussian

ACCOUNT = ZeroConcentratedFilter(1.0, 1e-5)


def hourly(count: int, every: float = HOUR) -> list[Query]:
    return [Query(number * every) for number in range(count)]


class TestAlgorithm2:
    def test_the_first_query_gets_four_fifths_and_the_rest_decays(self) -> None:
        policy = DynamicAllocation(1.0, 1e-5)
        history: list[Query] = []
        given: list[float] = []
        for query in hourly(30):
            given.append(policy.allocate(query, history))
            history.append(query)
        assert given[0] == pytest.approx(0.8)
        weight = cost_weight(hourly(1)[0]) ** 2
        assert given[1] == pytest.approx(weight / (weight + 5 * 2.5) * 0.2 * 0.8)
        assert sum(given) + policy.left == pytest.approx(1.0)
        assert min(given) > 0

    def test_cost_weights(self) -> None:
        assert cost_weight(Query(0, QueryType.INDIVIDUAL, 9)) == pytest.approx(4.0)
        assert cost_weight(Query(0, QueryType.BATCH, 99)) == pytest.approx(4.5)
        assert cost_weight(Query(0, QueryType.AGGREGATE, 9)) == pytest.approx(2.0)

    def test_load(self) -> None:
        assert predicted_load(Query(0), []) == 0
        assert predicted_load(Query(0), hourly(9)) == 45
        ten = hourly(10)
        assert predicted_load(Query(10 * HOUR), ten) == pytest.approx(10 / 9)
        rush = hourly(50, every=1.0)
        assert seasonal_factor(Query(49.0), rush) == 24
        assert predicted_load(Query(49.0), rush) == 100
        assert seasonal_factor(Query(5 * HOUR), rush) == 0.1

    def test_few_answers_are_useful(self) -> None:
        policy, useful = DynamicAllocation(1.0, 1e-5), 0
        history: list[Query] = []
        tau = gaussian_noise_multiplier(0.1, 1e-5)
        for query in hourly(500, every=600.0):
            event = policy.propose(Situation(query, history, ACCOUNT))
            useful += isinstance(event, Gaussian) and event.noise_multiplier <= tau
            history.append(query)
        assert useful <= 3


def spend(policy: object, queries: list[Query]) -> list[float]:
    account = ACCOUNT
    history: list[Query] = []
    given: list[float] = []
    for query in queries:
        event = policy.propose(Situation(query, history, account))  # type: ignore[attr-defined]
        history.append(query)
        if isinstance(event, Gaussian) and account.fits(event):
            account = account.spend(event)
            given.append(event.noise_multiplier)
    return given


class TestOurs:
    def test_as_many_useful_answers_as_the_filter_allows(self) -> None:
        tau = gaussian_noise_multiplier(0.1, 1e-5)
        given = spend(EqualVariance(tau), hourly(200))
        assert given == [tau] * ACCOUNT.how_many(Gaussian(tau))
        assert len(given) >= 55

    def test_never_more_noise_than_the_target(self) -> None:
        tau = gaussian_noise_multiplier(0.05, 1e-5)
        given = spend(EqualVariance(tau, until=20 * DAY), hourly(480))
        assert max(given) <= tau * (1 + 1e-9)

    def test_a_quiet_house_gets_less_noise(self) -> None:
        tau = gaussian_noise_multiplier(0.01, 1e-5)
        quiet = spend(EqualVariance(tau, until=10 * DAY), hourly(20, every=DAY / 2))
        assert len(quiet) == 20
        assert max(quiet[2:]) < tau / 2

    def test_expected_queries(self) -> None:
        day = hourly(48)
        assert expected_queries(2 * DAY, 2 * DAY, day) == 0
        ahead = expected_queries(2 * DAY, 3 * DAY, day)
        assert 24 <= ahead <= 24 + 2 * math.sqrt(24) + 1
        night = [Query(n * DAY + h * HOUR) for n in range(7) for h in range(12)]
        busy = expected_queries(7 * DAY, 7 * DAY + 6 * HOUR, night)
        calm = expected_queries(7 * DAY + 12 * HOUR, 7 * DAY + 18 * HOUR, night)
        assert busy > 1.5 * calm


def test_fixed_and_uniform() -> None:
    assert spend(FixedEvent(Gaussian(30.0)), hourly(500)) == [30.0] * ACCOUNT.how_many(
        Gaussian(30.0)
    )
    given = spend(UniformOverHorizon(40), hourly(60))
    assert len(given) == 40
    assert len(set(given)) == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: UniformOverHorizon(0),
        lambda: EqualVariance(0.0),
        lambda: EqualVariance(1.0, reserve=1.0),
        lambda: DynamicAllocation(-1.0, 1e-5),
        lambda: Query(math.nan),
        lambda: Query(0.0, features=0),
    ],
)
def test_bad_settings(make: object) -> None:
    with pytest.raises(InvalidInput):
        make()  # type: ignore[operator]
