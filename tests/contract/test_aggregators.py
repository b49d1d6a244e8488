"""One suite for every aggregator, and what each of them promises besides."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voile.core.errors import InvalidInput
from voile.federation import (
    Aggregator,
    Contribution,
    CoordinateMedian,
    FedAvg,
    Krum,
    Needs,
    TrimmedMean,
)

AGGREGATORS: dict[str, Aggregator] = {
    "average": FedAvg(),
    "median": CoordinateMedian(),
    "trimmed": TrimmedMean(0.2),
    "krum": Krum(1),
}
ROBUST = {name: found for name, found in AGGREGATORS.items() if name != "average"}


def contributions(seed: int, count: int = 7, spread: float = 1.0) -> list[Contribution]:
    draw = np.random.default_rng(seed)
    return [
        Contribution(
            f"client {i}",
            int(draw.integers(1, 500)),
            {
                "weight": draw.normal(0, spread, (4, 3)).astype(np.float32),
                "bias": draw.normal(0, spread, 4).astype(np.float32),
            },
        )
        for i in range(count)
    ]


def same(first: Any, second: Any) -> bool:
    return set(first) == set(second) and all(
        np.array_equal(first[name], second[name]) for name in first
    )


@pytest.fixture(params=AGGREGATORS)
def aggregator(request: pytest.FixtureRequest) -> Aggregator:
    return AGGREGATORS[request.param]


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_shapes_types_and_range_are_kept(seed: int) -> None:
    given_parts = contributions(seed)
    for aggregator in AGGREGATORS.values():
        found = aggregator.combine(given_parts)
        for name in ("weight", "bias"):
            stack = np.stack([part.change[name] for part in given_parts])
            assert found[name].dtype == np.float32
            assert found[name].shape == stack.shape[1:]
            # Nothing leaves the range that the clients span, but for one rounding.
            assert (found[name] <= stack.max(axis=0) + 1e-6).all()
            assert (found[name] >= stack.min(axis=0) - 1e-6).all()


def test_equal_updates_come_out_unchanged(aggregator: Aggregator) -> None:
    one = contributions(3)[0].change
    parts = [Contribution(f"client {i}", 10 + i, one) for i in range(7)]
    for name, array in aggregator.combine(parts).items():
        np.testing.assert_allclose(array, one[name], rtol=1e-6)


def test_inputs_are_left_alone_and_not_shared(aggregator: Aggregator) -> None:
    parts, untouched = contributions(5), contributions(5)
    found = aggregator.combine(parts)
    for array in found.values():
        array += 1
    for part, before in zip(parts, untouched, strict=True):
        assert same(part.change, before.change)


def test_repetition_gives_the_same_bits(aggregator: Aggregator) -> None:
    assert same(aggregator.combine(contributions(8)), aggregator.combine(contributions(8)))


def test_what_each_needs_is_declared() -> None:
    needs = {name: found.needs for name, found in AGGREGATORS.items()}
    assert needs.pop("average") is Needs.WEIGHTED_SUM
    assert set(needs.values()) == {Needs.SINGLE_UPDATES}
    assert [found.fewest for found in AGGREGATORS.values()] == [1, 1, 1, 5]


# --- federated averaging --------------------------------------------------------------------------


def test_the_average_is_weighted_by_declared_sizes() -> None:
    parts = [
        Contribution("a", 1, {"x": np.array([1.0, 0.0], dtype=np.float32)}),
        Contribution("b", 3, {"x": np.array([5.0, 8.0], dtype=np.float32)}),
    ]
    np.testing.assert_array_equal(FedAvg().combine(parts)["x"], [4.0, 6.0])


def test_the_average_follows_from_the_sum_alone() -> None:
    parts = contributions(11)
    weights = [FedAvg().weight(part.size) for part in parts]
    total: Any = {
        name: sum(
            w * p.change[name].astype(np.float64) for w, p in zip(weights, parts, strict=True)
        )
        for name in ("weight", "bias")
    }
    assert same(FedAvg().from_sum(total, sum(weights)), FedAvg().combine(parts))


# --- robustness -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ROBUST)
@pytest.mark.parametrize("value", [1e6, -1e6])
def test_one_client_cannot_move_a_robust_aggregate_far(name: str, value: float) -> None:
    parts = contributions(2, spread=0.1)
    bad = {key: np.full_like(array, value) for key, array in parts[0].change.items()}
    found = ROBUST[name].combine([Contribution("client 0", 500, bad), *parts[1:]])
    assert max(float(np.abs(array).max()) for array in found.values()) < 1


def test_the_average_can_be_moved() -> None:
    parts = contributions(2, spread=0.1)
    bad = {key: np.full_like(array, 1e6) for key, array in parts[0].change.items()}
    found = FedAvg().combine([Contribution("client 0", 500, bad), *parts[1:]])
    assert float(np.abs(found["bias"]).max()) > 1_000


def test_the_trimmed_mean_cuts_a_share_at_each_end_and_never_everything() -> None:
    def of(values: list[float], share: float) -> float:
        parts = [
            Contribution(f"{i:02}", 1, {"x": np.array([value], dtype=np.float32)})
            for i, value in enumerate(values)
        ]
        return float(TrimmedMean(share).combine(parts)["x"][0])

    assert of([0, 1, 2, 3, 100], 0.2) == 2.0
    assert of([0, 1, 2, 3, 5, 100], 0.2) == 2.5  # 1.2 clients: two at each end
    assert of([4.0], 0.4) == 4.0
    assert of([4.0, 6.0], 0.4) == 5.0


def test_krum_takes_the_update_whose_neighbours_are_closest() -> None:
    """Against a plain double loop over all pairs."""
    for seed in range(20):
        parts = contributions(seed, count=9)
        flat = [np.concatenate([p.change["bias"], p.change["weight"].ravel()]) for p in parts]
        scores = []
        for mine in flat:
            others = sorted(float(((mine - other) ** 2).sum()) for other in flat)[1:]
            scores.append(sum(others[: 9 - 2 - 2]))
        best = parts[int(np.argmin(scores))]
        assert same(Krum(2).combine(parts), best.change)


def test_krum_ties_go_to_the_first_name() -> None:
    one = contributions(1)[0].change
    parts = [Contribution(f"client {i}", 1, one) for i in range(5)]
    assert same(Krum(1).combine(parts), one)


@pytest.mark.parametrize("build", [lambda: TrimmedMean(0.0), lambda: TrimmedMean(0.5)])
def test_a_trimmed_mean_needs_a_share_below_one_half(build: Any) -> None:
    with pytest.raises(InvalidInput, match="between 0 and 1/2"):
        build()


def test_krum_needs_a_number_of_faulty_clients() -> None:
    with pytest.raises(InvalidInput, match="at least 0"):
        Krum(-1)


def test_median_of_every_coordinate() -> None:
    values = list(itertools.permutations([1.0, 5.0, 9.0]))
    parts = [
        Contribution(f"{i}", 1, {"x": np.array(row, dtype=np.float32)})
        for i, row in enumerate(values)
    ]
    np.testing.assert_array_equal(CoordinateMedian().combine(parts)["x"], [5.0, 5.0, 5.0])
