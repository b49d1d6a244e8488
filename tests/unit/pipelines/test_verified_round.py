"""Trust that is measured: nothing that a party says counts, and no update counts for much."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from tests.unit.pipelines.trusted_parties import (
    OPEN,
    RECORDS,
    in_secret,
    nodes_of,
    planned,
    trained,
)
from voile.core.errors import InvalidInput
from voile.federation import Fitted, Outcome
from voile.pipelines.trusted_averaging import STAGE, OverOwnRows

NAMES = sorted(RECORDS)


@dataclass(frozen=True)
class Otherwise:
    """A party that sends something else than it trained."""

    task: Any
    factor: float

    @property
    def shapes(self) -> Any:
        return self.task.shapes

    def cost(self, size: int) -> Any:
        return self.task.cost(size)

    def fit(self, *arguments: Any) -> Fitted:
        found: Fitted = self.task.fit(*arguments)
        change = {n: (self.factor * a).astype(np.float32) for n, a in found.change.items()}
        return replace(found, change=change)


def run(factors: dict[str, float] | None = None, **changes: Any) -> Any:
    plan = planned(verified=True, **changes)
    odd: dict[str, Any] = {
        name.replace(" ", "_"): {STAGE: Otherwise(plan.tasks[STAGE], factor)}
        for name, factor in (factors or {}).items()
    }
    return trained(plan, nodes_of(plan, **odd))


def test_the_model_learns_and_weights_add_up() -> None:
    found = run()
    assert found.results[STAGE].figures[-1]["accuracy"] > np.mean(OPEN.labels == 0) - 0.05
    for number in (0, 1, 2):
        rows = [scores[number] for scores in found.history.scores.values()]
        assert sum(row.weight for row in rows) == pytest.approx(1)
        assert sum(row.reward for row in rows) == pytest.approx(1)
    assert {row.outcome for row in found.results[STAGE].rows} == {Outcome.ANSWERED}


def test_who_points_the_other_way_has_no_weight_and_earns_nothing() -> None:
    found = run({NAMES[0]: -1.0})
    first, *_ = found.history.scores[NAMES[0]]
    assert (first.weight, first.reward) == (0, 0)
    sound = run()
    last = [f.results[STAGE].figures[-1]["accuracy"] for f in (found, sound)]
    assert last[0] > last[1] - 0.05


def test_a_long_update_counts_as_much_as_one_of_median_length() -> None:
    long, longer = (run({NAMES[0]: factor}, rounds=1) for factor in (20.0, 60.0))
    for name, array in long.results[STAGE].arrays.items():
        np.testing.assert_allclose(longer.results[STAGE].arrays[name], array, atol=1e-5)


def test_if_nobody_is_left_the_arrays_stay_and_so_does_everybody_s_record() -> None:
    found = run(dict.fromkeys(NAMES, -1.0), rounds=1)
    start = found.plan.start(STAGE)
    for name, array in found.results[STAGE].arrays.items():
        np.testing.assert_array_equal(array, start[name])
    assert found.history.scores == {}


def test_it_costs_what_training_costs_and_is_charged_once_a_round() -> None:
    plan = planned(4.0, verified=True, rounds=2)
    assert plan.participation_events == planned(4.0, rounds=2).participation_events
    nodes = nodes_of(plan)
    trained(plan, nodes)
    guard: Any = nodes[0].client.guard
    assert len(guard.participations) == 2 * len(NAMES)


def test_the_same_run_gives_the_same_bits() -> None:
    first, second = run(), run()
    assert first.history == second.history
    for name, array in first.results[STAGE].arrays.items():
        np.testing.assert_array_equal(second.results[STAGE].arrays[name], array)


def test_a_server_cannot_measure_what_it_does_not_see() -> None:
    with pytest.raises(InvalidInput, match="neither in a secure sum"):
        in_secret(planned(verified=True))
    with pytest.raises(InvalidInput, match="neither in a secure sum"):
        planned(4.0, verified=True, own_rows=OverOwnRows(1.0, 1.0))
