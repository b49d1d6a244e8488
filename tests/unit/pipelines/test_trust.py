"""Trust, weights, rewards, drift and outliers: pure mathematics."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from voile.core.errors import InvalidInput
from voile.pipelines.trusted_averaging.figures import drifts, outliers
from voile.pipelines.trusted_averaging.history import Score, TrustHistory
from voile.pipelines.trusted_averaging.trust import (
    DivergenceMeasure,
    TrustRule,
    consistency_of,
    rewards_of,
    weights_of,
)

SHARE = st.floats(0, 1)
FAR = st.floats(0, 30)
PARTIES = st.dictionaries(st.sampled_from("abcdefgh"), st.tuples(SHARE, FAR), min_size=1)
SHARES = st.lists(st.floats(0, 1), min_size=2, max_size=8).filter(lambda v: sum(v) > 1e-3)


@given(st.lists(SHARE, min_size=1, max_size=9), FAR)
def test_trust_lies_between_0_and_1_and_falls_with_divergence(
    past: list[float], far: float
) -> None:
    rule = TrustRule()
    found = rule.trust(past, far)
    assert 0 <= found <= 1
    assert rule.trust(past, far + 0.1) <= found
    assert rule.trust([*past[:-1], 1.0], far) >= rule.trust([*past[:-1], past[-1]], far) - 0.2


def test_trust_is_as_published() -> None:
    assert TrustRule().trust([0.9], 0.5) == pytest.approx(0.45 + 0.3 * math.exp(-0.5) + 0.2)
    swinging = [0.8, 1.0, 0.8, 1.0, 0.8]  # standard deviation 0.098
    spread = float(np.std(swinging))
    assert consistency_of(swinging) == pytest.approx(1 - spread / 0.1)
    assert consistency_of([0.1, *[0.9] * 5]) == 1, "only the last five count"
    assert consistency_of([0.0, 1.0]) == 0


@given(PARTIES, st.floats(0, 3))
def test_weights_add_up_to_one_and_nobody_has_more_than_the_largest_share(
    parties: dict[str, tuple[float, float]], tau: float
) -> None:
    rule = TrustRule(tau=tau)
    trusts = {name: trust for name, (trust, _) in parties.items()}
    found = weights_of(rule, trusts, {name: far for name, (_, far) in parties.items()})
    assert math.fsum(found.shares.values()) == pytest.approx(1)
    assert all(share >= 0 for share in found.shares.values())
    assert max(found.shares.values()) <= max(0.5, 1 / len(parties)) + 1e-12
    if found.equal:
        assert len(set(found.shares.values())) == 1


def test_weights_follow_the_rule_and_fall_back_to_equal_ones() -> None:
    rule = TrustRule(tau=0.5)
    trusts = {"a": 0.8, "b": 0.6, "c": 0.5, "d": 0.4}
    found = weights_of(rule, trusts, {"a": 0.5, "b": 1.0, "c": 5.0, "d": 0.0})
    raw = {"a": 0.8 * 0.75, "b": 0.6 * 0.5, "c": 0.0, "d": 0.4}
    assert not found.equal
    assert found.shares == pytest.approx({name: value / 1.3 for name, value in raw.items()})
    far = weights_of(rule, trusts, dict.fromkeys(trusts, 2.0))
    assert far.equal
    assert far.shares == pytest.approx(dict.fromkeys(trusts, 1 / 4))


def test_a_weight_that_would_show_one_update_is_not_given() -> None:
    """λ = (1, 0, 0) would turn the secure sum into one party's update."""
    found = weights_of(
        TrustRule(tau=1.0), dict.fromkeys("abc", 0.7), {"a": 0.0, "b": 1.0, "c": 1.0}
    )
    assert found.equal


@given(PARTIES, st.floats(0, 1000))
def test_rewards_share_the_pot_by_trust(
    parties: dict[str, tuple[float, float]], pot: float
) -> None:
    trusts = {name: trust for name, (trust, _) in parties.items()}
    found = rewards_of(trusts, pot)
    assert math.fsum(found.values()) == pytest.approx(pot)
    for one in trusts:
        for other in trusts:
            if trusts[one] > trusts[other]:
                assert found[one] >= found[other]


@given(SHARES, SHARES)
def test_divergences(first: list[float], second: list[float]) -> None:
    size = min(len(first), len(second))
    p, q = (np.array(v[:size]) + 1e-6 for v in (first, second))
    p, q = p / p.sum(), q / q.sum()
    for each in DivergenceMeasure:
        assert each.between(p, q) >= 0
        assert each.between(p, p) == pytest.approx(0, abs=1e-9)
    assert DivergenceMeasure.JENSEN_SHANNON.between(p, q) <= math.log(2) + 1e-12
    assert DivergenceMeasure.KULLBACK_LEIBLER.between(p, q) == pytest.approx(
        float((p * np.log(p / q)).sum()), rel=1e-3, abs=1e-6
    )


@pytest.mark.parametrize(
    "settings",
    [
        {"accuracy": 0.9},
        {"tau": -1.0},
        {"tau": math.nan},
        {"largest_share": 0.0},
        {"alignment": math.nan},
    ],
)
def test_unsound_rules_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(InvalidInput):
        TrustRule(**settings)  # type: ignore[arg-type]


# --- what is remembered ---------------------------------------------------------------------------


def played(rounds: dict[int, dict[str, float]]) -> TrustHistory:
    """Divergences by round and party."""
    found = TrustHistory()
    for number, parties in rounds.items():
        scores = {n: Score(number, 0.9, d, 0.8, 1 / len(parties), 0.1) for n, d in parties.items()}
        found = found.after(scores, [0.5, 0.5], equal=number % 2 == 0)
    return found


def test_a_history_comes_back_from_arrays() -> None:
    found = played({1: {"a": 0.1, "b": 0.2}, 2: {"a": 0.3}, 3: {"a": 0.1, "b": 0.2, "c d/e": 0.4}})
    assert TrustHistory.from_memory(found.as_memory()) == found
    assert TrustHistory.from_memory({}) == TrustHistory()
    assert found.equal == (2,)
    assert [score.round for score in found.scores["b"]] == [1, 3]
    assert set(found.last()) == {"a", "b", "c d/e"}


def test_who_comes_back_is_trusted_as_before_and_who_is_new_like_the_least_trusted() -> None:
    first = TrustHistory().after(
        {"a": Score(1, 0.9, 0.1, 0.9, 0.5, 0.5), "b": Score(1, 0.5, 0.1, 0.4, 0.5, 0.5)},
        [1.0],
        equal=False,
    )
    later = first.after({"a": Score(2, 0.9, 0.1, 0.95, 1.0, 1.0)}, [1.0], equal=False)
    assert later.trusts(["a", "b", "new"]) == {"a": 0.95, "b": 0.4, "new": 0.4}
    assert TrustHistory().trusts(["a", "b"]) == {"a": 1.0, "b": 1.0}


def test_accuracies_reach_back_as_far_as_consistency_looks() -> None:
    history = TrustHistory()
    for number in range(1, 9):
        history = history.after({"a": Score(number, number / 10, 0, 0, 1, 1)}, [1.0], equal=False)
    assert history.accuracies("a") == (0.5, 0.6, 0.7, 0.8)
    assert history.accuracies("nobody") == ()


# --- who stands out -------------------------------------------------------------------------------


def test_an_outlier_is_named_in_its_round() -> None:
    usual = {f"p{i}": 0.1 + 0.01 * i for i in range(8)}
    history = played({1: usual, 2: usual | {"p3": 2.0}, 3: usual})
    assert [(odd.round, odd.party) for odd in outliers(history)] == [(2, "p3")]
    assert "p3 in round 2: divergence 2.000" in str(outliers(history)[0])
    assert not outliers(played({1: dict.fromkeys("abc", 0.1) | {"d": 0.11}}))


def test_a_drift_is_named_once_when_it_has_lasted_two_rounds() -> None:
    rounds = {n: {"a": 0.1 + 0.001 * (n % 3), "b": 0.1 if n < 6 else 0.5} for n in range(1, 11)}
    assert [(odd.round, odd.party) for odd in drifts(played(rounds))] == [(7, "b")]
    spike = {n: {"a": 0.5 if n == 6 else 0.1} for n in range(1, 11)}
    assert not drifts(played(spike))
    falling = {n: {"a": 1 / n} for n in range(1, 11)}
    assert not drifts(played(falling))


@given(st.lists(st.floats(0.05, 0.06), min_size=1, max_size=12))
def test_small_differences_are_nothing_to_look_at(values: list[float]) -> None:
    history = played({n: {"a": v} for n, v in enumerate(values, start=1)})
    assert not drifts(history)
    assert not outliers(history)
