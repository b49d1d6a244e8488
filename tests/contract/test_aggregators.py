"""One suite for every aggregator, and what each of them promises besides."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voile.core.errors import InvalidInput
from voile.federation import (
    Aggregator,
    CentredClipping,
    Contribution,
    CoordinateMedian,
    FedAdam,
    FedAvg,
    FedYogi,
    Krum,
    LevelAvg,
    SumAggregator,
    TrimmedMean,
    Update,
    UpdateAggregator,
)
from voile.federation.arrays import shapes_of
from voile.federation.messages import Instruction
from voile.federation.round_protocol import AgreedTerms, PlainRound, RoundCall, RoundResult
from voile.federation.transport import NodeReply

AGGREGATORS: dict[str, Aggregator] = {
    "average": FedAvg(),
    "levels": LevelAvg(tuple((f"client {i}", 1.0 + i) for i in range(12))),
    "adam": FedAdam(),
    "yogi": FedYogi(),
    "median": CoordinateMedian(),
    "trimmed": TrimmedMean(0.2),
    "krum": Krum(1),
    "centred": CentredClipping(),
}
MEANS = {n: found for n, found in AGGREGATORS.items() if n not in ("adam", "yogi", "centred")}
"""Their change is one of the updates, or a mean of them."""
ROBUST = {
    n: found for n, found in AGGREGATORS.items() if n not in ("average", "levels", "adam", "yogi")
}


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


def one_round(aggregator: Aggregator, parts: Sequence[Contribution], memory: Any) -> RoundResult:
    """What a plain round makes of these updates, in the order given."""
    shapes = shapes_of(parts[0].change)
    start = {name: np.zeros(shape, dtype=np.float32) for name, shape in shapes.items()}
    clients = {part.client: AgreedTerms(part.size, "") for part in parts}
    call = RoundCall(Instruction("s", 1, start), clients, 1e7, memory, lambda _: None)
    updates = [
        NodeReply(p.client, Update(p.client, "s", 1, p.change, ""), None, 0.0) for p in parts
    ]
    return PlainRound(aggregator).run(call, lambda _: iter(updates))


def combine(aggregator: Aggregator, parts: Sequence[Contribution]) -> Any:
    memory = aggregator.remembered(shapes_of(parts[0].change))
    return one_round(aggregator, parts, memory).change


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
    for aggregator in MEANS.values():
        found = combine(aggregator, given_parts)
        for name in ("weight", "bias"):
            stack = np.stack([part.change[name] for part in given_parts])
            assert found[name].dtype == np.float32
            assert found[name].shape == stack.shape[1:]
            # Nothing leaves the range that the clients span, but for one rounding.
            assert (found[name] <= stack.max(axis=0) + 1e-6).all()
            assert (found[name] >= stack.min(axis=0) - 1e-6).all()


@pytest.mark.parametrize("name", [*MEANS, "centred"])
def test_equal_updates_come_out_unchanged(name: str) -> None:
    aggregator = AGGREGATORS[name]
    one = contributions(3)[0].change
    parts = [Contribution(f"client {i}", 10 + i, one) for i in range(7)]
    for each, array in combine(aggregator, parts).items():
        np.testing.assert_allclose(array, one[each], rtol=1e-6)


def test_inputs_are_left_alone_and_not_shared(aggregator: Aggregator) -> None:
    parts, untouched = contributions(5), contributions(5)
    found = combine(aggregator, parts)
    for array in found.values():
        array += 1
    for part, before in zip(parts, untouched, strict=True):
        assert same(part.change, before.change)


def test_repetition_gives_the_same_bits(aggregator: Aggregator) -> None:
    assert same(combine(aggregator, contributions(8)), combine(aggregator, contributions(8)))


def test_noise_of_their_own_weighs_updates_by_its_variance() -> None:
    parts = [
        Contribution("client 0", 10, {"x": np.array([4.0], dtype=np.float32)}),
        Contribution("client 1", 40, {"x": np.array([-1.0], dtype=np.float32)}),
    ]
    found = combine(LevelAvg((("client 0", 0.5), ("client 1", 2.0))), parts)
    np.testing.assert_allclose(found["x"], [(40 * 4 - 10) / 50])
    with pytest.raises(InvalidInput, match="above 0"):
        LevelAvg((("client 0", 0.0),))


def test_what_each_has_to_see_is_its_type() -> None:
    sums = {name for name, found in AGGREGATORS.items() if isinstance(found, SumAggregator)}
    assert sums == {"average", "levels", "adam", "yogi"}
    rest = [found for name, found in AGGREGATORS.items() if name not in sums]
    assert all(isinstance(found, UpdateAggregator) for found in rest)
    assert {found.fewest for found in AGGREGATORS.values()} == {1, 3, 5}
    assert Krum(1).fewest == 5


def test_the_order_of_arrival_does_not_matter(aggregator: Aggregator) -> None:
    parts = contributions(12, count=9)
    assert same(combine(aggregator, parts), combine(aggregator, parts[::-1]))


def test_what_is_remembered_is_arrays_of_the_same_names_in_every_round(
    aggregator: Aggregator,
) -> None:
    parts = contributions(13)
    memory = aggregator.remembered(shapes_of(parts[0].change))
    before = {name: array.copy() for name, array in memory.items()}
    after = one_round(aggregator, parts, memory).memory
    assert same(memory, before)
    assert {n: a.shape for n, a in after.items()} == {n: a.shape for n, a in memory.items()}
    assert all(np.isfinite(array).all() for array in after.values())


# --- federated averaging --------------------------------------------------------------------------


def test_the_average_is_weighted_by_declared_sizes() -> None:
    parts = [
        Contribution("a", 1, {"x": np.array([1.0, 0.0], dtype=np.float32)}),
        Contribution("b", 3, {"x": np.array([5.0, 8.0], dtype=np.float32)}),
    ]
    np.testing.assert_array_equal(combine(FedAvg(), parts)["x"], [4.0, 6.0])


def test_the_average_follows_from_the_sum_alone() -> None:
    parts = contributions(11)
    weights = [FedAvg().weight(part.client, part.size) for part in parts]
    total: Any = {
        name: sum(
            w * p.change[name].astype(np.float64) for w, p in zip(weights, parts, strict=True)
        )
        for name in ("weight", "bias")
    }
    assert same(FedAvg().from_sum(total, sum(weights), {}).change, combine(FedAvg(), parts))


# --- servers that remember ------------------------------------------------------------------------


def moments(rounds: int, aggregator: FedAdam) -> tuple[float, float, float]:
    """Change and both moments of one value after some rounds of the same mean, 0.5."""
    parts = [Contribution(n, 10, {"x": np.array([v], np.float32)}) for n, v in (("a", 0), ("b", 1))]
    memory = aggregator.remembered({"x": (1,)})
    for _ in range(rounds):
        found = one_round(aggregator, parts, memory)
        memory = found.memory
    assert found.change is not None
    return float(found.change["x"][0]), float(memory["first/x"][0]), float(memory["second/x"][0])


def test_adam_follows_the_published_recursion() -> None:
    """Reddi and others, 2021, Algorithm 2: m and v by hand, without bias correction."""
    change, first, second = moments(2, FedAdam(rate=0.1, first=0.9, second=0.99, caution=1e-3))
    m = 0.9 * (0.1 * 0.5) + 0.1 * 0.5
    v = 0.99 * (0.99 * 1e-6 + 0.01 * 0.25) + 0.01 * 0.25
    assert (first, second) == pytest.approx((m, v), rel=1e-12)
    assert change == pytest.approx(0.1 * m / (v**0.5 + 1e-3), rel=1e-6)


def test_yogi_moves_its_second_moment_by_the_sign() -> None:
    _, _, second = moments(2, FedYogi(second=0.99, caution=1e-3))
    assert second == pytest.approx(1e-6 + 0.01 * 0.25 + 0.01 * 0.25, rel=1e-12)
    _, _, falling = moments(1, FedYogi(second=0.99, caution=1.0))
    assert falling == pytest.approx(1 - 0.01 * 0.25, rel=1e-12)


@pytest.mark.parametrize(
    "settings", [{"rate": 0}, {"caution": -1}, {"first": 1}, {"second": 1.5}, {"rate": np.nan}]
)
def test_unsound_settings_of_a_server_are_refused(settings: Any) -> None:
    with pytest.raises(InvalidInput, match="must be above 0"):
        FedAdam(**settings)


# --- robustness -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ROBUST)
@pytest.mark.parametrize("value", [1e6, -1e6])
def test_one_client_cannot_move_a_robust_aggregate_far(name: str, value: float) -> None:
    parts = contributions(2, spread=0.1)
    bad = {key: np.full_like(array, value) for key, array in parts[0].change.items()}
    found = combine(ROBUST[name], [Contribution("client 0", 500, bad), *parts[1:]])
    assert max(float(np.abs(array).max()) for array in found.values()) < 1


def test_the_average_can_be_moved() -> None:
    parts = contributions(2, spread=0.1)
    bad = {key: np.full_like(array, 1e6) for key, array in parts[0].change.items()}
    found = combine(FedAvg(), [Contribution("client 0", 500, bad), *parts[1:]])
    assert float(np.abs(found["bias"]).max()) > 1_000


def test_the_trimmed_mean_cuts_a_share_at_each_end_and_never_everything() -> None:
    def of(values: list[float], share: float) -> float:
        parts = [
            Contribution(f"{i:02}", 1, {"x": np.array([value], dtype=np.float32)})
            for i, value in enumerate(values)
        ]
        return float(combine(TrimmedMean(share), parts)["x"][0])

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
        assert same(combine(Krum(2), parts), best.change)


def test_krum_ties_go_to_the_first_name() -> None:
    one = contributions(1)[0].change
    parts = [Contribution(f"client {i}", 1, one) for i in range(5)]
    assert same(combine(Krum(1), parts), one)


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
    np.testing.assert_array_equal(combine(CoordinateMedian(), parts)["x"], [5.0, 5.0, 5.0])


def test_nobody_pulls_the_centre_further_than_a_share_of_the_radius() -> None:
    """However large its update is: fewer than half cannot move the median distance far."""
    parts = contributions(4, count=9, spread=0.1)
    sound = combine(CentredClipping(times=1), parts)
    for value in (1e2, 1e6):
        bad = {key: np.full_like(array, value) for key, array in parts[0].change.items()}
        found = combine(CentredClipping(times=1), [Contribution("client 0", 1, bad), *parts[1:]])
        moved = np.concatenate([(found[n] - sound[n]).ravel() for n in sound])
        lengths = [
            np.linalg.norm(np.concatenate([a.ravel() for a in p.change.values()])) for p in parts
        ]
        assert float(np.linalg.norm(moved)) <= 2.1 * max(lengths) / 9


def test_what_lies_within_the_radius_counts_in_full_and_the_last_change_is_remembered() -> None:
    parts = contributions(6, count=5)
    wide = CentredClipping(reach=1e6, times=1)
    memory = wide.remembered(shapes_of(parts[0].change))
    found = one_round(wide, parts, memory)
    assert found.change is not None
    for name, array in found.change.items():
        mean = np.mean([part.change[name].astype(np.float64) for part in parts], axis=0)
        np.testing.assert_allclose(array, mean, rtol=1e-5)
        np.testing.assert_allclose(found.memory[f"centre/{name}"], mean, rtol=1e-12)


@pytest.mark.parametrize(
    "settings", [{"reach": 0}, {"reach": np.inf}, {"times": 0}, {"times": True}]
)
def test_unsound_settings_of_centred_clipping_are_refused(settings: Any) -> None:
    with pytest.raises(InvalidInput, match="reach must be above 0"):
        CentredClipping(**settings)
