"""An importance over parties that share the noise: sums of whole numbers, nearly as one party's."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.pipelines import importance_parties as parties
from tests.unit.pipelines.importance_parties import DELTA, NAMES, ROWS, SIZES, planned
from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import Adversary, Relation
from voile.core.randomness import StreamCipher
from voile.federation import Client, CountingGuard, Instruction, PlainRound
from voile.pipelines.importance import STAGE, ImportancePlan
from voile.pipelines.shared_importance import FINENESS, SUMS, ShareImportance, in_steps
from voile.privacy.accounting.accountants import tightest_epsilon
from voile.privacy.mechanisms.shares import LEAST_VARIANCE, SharedGaussian

RELATIONS = [Relation.BLANK_ONE, Relation.REPLACE_ONE]


def task_of(plan: ImportancePlan) -> ShareImportance:
    assert isinstance(plan.task, ShareImportance)
    return plan.task


def exact_mean(plan: ImportancePlan, names: Any = NAMES) -> Any:
    rows = np.concatenate([ROWS[name] for name in names])
    explainer: Any = plan.release.importance.explainer  # type: ignore[union-attr]
    return np.abs(explainer(rows).values).mean(axis=0)


def mean_of(plan: ImportancePlan, found: Any) -> Any:
    there = tuple(sorted(row.client for row in found[STAGE].rows if row.outcome.counts))
    return there, plan.aggregate(there, found[STAGE].arrays).explanation()


def told(plan: ImportancePlan) -> Instruction:
    return Instruction(STAGE, 1, plan.start(STAGE), {}, parties.AGREED)


@pytest.mark.parametrize("falling", [(), ("beech",)])
def test_without_noise_it_is_the_mean_over_all_rows_that_are_there(
    falling: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SharedGaussian, "randomise", lambda _, blocks, __=None: tuple(blocks))
    plan = planned()
    there, mean = mean_of(plan, parties.results(plan, falling))
    assert set(there) == set(NAMES) - set(falling)
    off = np.abs(mean.values[0] - exact_mean(plan, there)).max()
    assert off <= task_of(plan).step / 2 * len(there) / sum(SIZES[name] for name in there) + 1e-15


@pytest.mark.parametrize("falling", [(), ("beech",)])
def test_its_error_is_stated(falling: tuple[str, ...]) -> None:
    plan = planned()
    off = []
    for _ in range(4):
        there, mean = mean_of(plan, parties.results(plan, falling))
        off.append((mean.values[0] - exact_mean(plan, there)) / mean.standard_errors[0])
        rows = sum(SIZES[name] for name in there)
        survivors = math.sqrt(len(there)) * task_of(plan).deviation / rows
        assert mean.standard_errors == pytest.approx(np.full((1, 3, 1), survivors))
        assert any("added up in secret" in str(note) for note in mean.notes)
    assert 0.3 < np.std(off) < 2


def test_too_few_make_no_sum() -> None:
    plan = planned()
    with pytest.raises(Refused, match="no client contributed"):
        parties.results(plan, ("ash", "beech"))


def test_error_is_at_most_a_tenth_above_that_of_a_trusted_server() -> None:
    """One table of all rows, with the noise of one Gaussian release at the same rho."""
    task = task_of(planned())
    central = task.moved.value / math.sqrt(2 * task.rho)
    nothing = [np.zeros(task.shape, dtype=np.int64)]
    for survivors in (4, 5):
        draws = [
            sum(task.noise.randomise(nothing)[0] for _ in range(survivors)) for _ in range(600)
        ]
        error = task.step * math.sqrt(np.mean(np.square(np.stack(draws).astype(float))))
        assert 0.9 < error / (math.sqrt(survivors / 3) * central) <= 1.1


def test_noise_of_each_party_is_larger() -> None:
    shared, local = planned(), planned(1)
    zero = shared.aggregate(NAMES, shared.start(STAGE)).explanation().standard_errors
    own = local.aggregate(NAMES, local.start(STAGE)).explanation().standard_errors
    assert zero is not None
    assert own is not None
    assert zero.max() < 0.75 * own.max()


def test_a_party_without_rows_sends_noise() -> None:
    plan = planned()
    task = task_of(plan)
    sent = [
        task.fit(told(plan), np.zeros((0, 3)), 40, StreamCipher()).change[SUMS] for _ in range(200)
    ]
    found = np.std(np.stack(sent)) * task.step
    assert found == pytest.approx(task.deviation, rel=6 / math.sqrt(2 * 600))


def test_more_rows_than_declared_are_refused() -> None:
    plan = planned()
    with pytest.raises(InvalidInput, match="3 rows are declared, and there are 4"):
        task_of(plan).fit(told(plan), np.full((4, 3), 0.5), 3, StreamCipher())


@pytest.mark.parametrize("relation", RELATIONS)
def test_every_party_is_charged_the_whole_sum(relation: Relation) -> None:
    plan = planned(relation=relation)
    (event,) = plan.participation_events
    assert {plan.task.cost(size) for size in SIZES.values()} == {event}
    assert 2.99 < tightest_epsilon(event, DELTA) <= 3.0
    promise = plan.guarantee()
    assert promise.epsilon == pytest.approx(tightest_epsilon(event, DELTA))
    assert promise.computational
    assert Adversary.SERVER_SEEING_SUMS in promise.against
    assert Adversary.SERVER_SEEING_UPDATES not in promise.against
    said = " ".join(promise.assumptions)
    assert "at least 3 honest parties add their share" in said
    assert "from a party's own share alone" in said
    assert "in shares" in promise.mechanism


def test_shares_are_wide_on_the_grid_and_rounding_costs_next_to_nothing() -> None:
    for epsilon in (0.1, 3.0, 9.0):
        task = task_of(planned(epsilon=epsilon))
        wide = task.noise.factor * task.noise.sigmas[0] / math.sqrt(3)
        assert wide**2 >= LEAST_VARIANCE
        whole = task.sensitivity.value * task.step
        assert task.moved.value < whole <= task.moved.value * (1 + 2 * FINENESS)


def test_shared_noise_needs_a_secure_sum() -> None:
    plan = planned()
    with pytest.raises(Refused, match="in a secure sum only"):
        ImportancePlan(replace(plan.facts, protocol=PlainRound()), plan.release, 2)


def test_a_repeat_after_a_restart_sends_what_was_stored(tmp_path: Path) -> None:
    """New noise would average out; and it is charged once."""
    plan, rows, guard = planned(), ROWS["ash"], CountingGuard(1)

    def client() -> Client:
        return Client("ash", 40, rows, plan.tasks, guard, folder=tmp_path, agreement=parties.AGREED)

    first, again = client().answer(told(plan)), client().answer(told(plan))
    np.testing.assert_array_equal(again.arrays[SUMS], first.arrays[SUMS])
    assert again.resent
    fresh = task_of(plan).fit(told(plan), rows, 40, StreamCipher())
    assert (fresh.change[SUMS] != first.arrays[SUMS]).any()


# --- searches for counter-examples ----------------------------------------------------------------


def test_rounding_moves_neighbours_apart_by_a_step_for_each_number_at_most() -> None:
    """On a grid as coarse as the sensitivity: rounded sums are no further apart than is proved, and
    hardly any closer, so that nothing smaller would do."""
    draw, worst = np.random.default_rng(2), 0.0
    for size, moved, step in product((1, 2, 5), (0.1, 1.0, 3.0), (0.25, 1.0)):
        towards = np.abs(draw.normal(size=(20_000, size))) + 1e-3
        towards[:100] = 1.0
        towards *= moved / np.linalg.norm(towards, axis=1, keepdims=True)
        start = draw.integers(0, 50, (20_000, size)) * step + step / 2 - 1e-9 * draw.random((1, 1))
        apart = np.linalg.norm(in_steps(start + towards, step) - in_steps(start, step), axis=1)
        bound = moved / step + math.sqrt(size)
        assert apart.max() <= bound
        worst = max(worst, float(apart.max()) / bound)
    assert worst > 0.85


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("itself", [False, True])
def test_no_row_moves_the_whole_numbers_by_more_than_the_sensitivity(
    relation: Relation, itself: bool
) -> None:
    """With rows at the edges of the schema, and more or fewer of them than declared at most."""
    task = task_of(planned(relation=relation, itself=itself))
    draw, closest = np.random.default_rng(4), 0.0
    edges = [np.array(each, dtype=float) for each in product((0.0, 1.0), repeat=3)]
    blank = np.full(3, np.nan)
    for size in (1, 2, 7, 40):
        rest = draw.integers(0, 2, (size - 1, 3)).astype(float)
        for one, other in product(edges, edges if relation is Relation.REPLACE_ONE else [blank]):
            sums = [task.exact(np.vstack([row, rest])) for row in (one, other)]
            apart = float(np.linalg.norm(sums[0] - sums[1]))
            assert apart <= task.sensitivity.value
            closest = max(closest, apart / task.sensitivity.value)
    assert closest > 0.2


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("itself", [False, True])
def test_parties_with_fewer_rows_are_covered(relation: Relation, itself: bool) -> None:
    released = parties.release(relation, itself=itself)
    moved = [rows * released.sensitivity(rows).value for rows in range(1, 200)]
    assert all(one <= more * (1 + 1e-15) for one, more in pairwise(moved))
