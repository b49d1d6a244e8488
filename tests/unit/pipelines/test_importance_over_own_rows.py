"""What one record can move: changes are clipped, and so is each row's importance."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.pipelines.trusted_parties import OPEN, RECORDS, nodes_of, planned, trained
from voile.core.errors import Refused
from voile.core.guarantee import Relation
from voile.federation import Arrays
from voile.pipelines.tables import NetworkModel, TableRecords
from voile.pipelines.trusted_averaging import (
    STAGE,
    ComparisonRows,
    ImportanceDesign,
    OverOwnRows,
    TrustedPlan,
)
from voile.pipelines.trusted_averaging.importance import clipped_lengths
from voile.pipelines.trusted_averaging.tasks import LocalTraining, clipped
from voile.privacy.events import Composed, Gaussian
from voile.privacy.mechanisms import GaussianMechanism
from voile.privacy.sensitivity import mean_absolute_shapley
from voile.privacy.sensitivity.shapley import shapley_norm


@given(st.integers(0, 2**32 - 1), st.floats(1e-3, 1e3), st.floats(1e-6, 1e3))
def test_a_change_is_never_longer_than_agreed_and_keeps_its_direction(
    seed: int, longest: float, size: float
) -> None:
    draw = np.random.default_rng(seed)
    change = {
        n: draw.normal(0, size, s).astype(np.float32) for n, s in (("a", (3, 4)), ("b", (4,)))
    }
    found = clipped(change, longest)
    flat = [
        np.concatenate([each[n].ravel() for n in ("a", "b")]).astype(float)
        for each in (change, found)
    ]
    assert np.linalg.norm(flat[1]) <= longest * (1 + 1e-5)
    if np.linalg.norm(flat[0]) <= longest:
        np.testing.assert_array_equal(flat[0], flat[1])
    assert flat[0] @ flat[1] >= 0.999 * np.linalg.norm(flat[0]) * np.linalg.norm(flat[1])


def test_what_a_client_keeps_is_clipped() -> None:
    plan = planned(rounds=1)
    plan.local.__dict__.pop("_known", None)
    object.__setattr__(plan.local, "longest", 1e-3)
    nodes = nodes_of(plan)
    trained(plan, nodes)
    for node in nodes:
        kept = node.client._latest[STAGE].arrays
        flat = np.concatenate([a.ravel() for n, a in kept.items() if n.startswith("change/")])
        assert 0 < np.linalg.norm(flat) <= 1e-3 * (1 + 1e-5)


@settings(deadline=None, max_examples=200)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(2, 12), st.floats(0.01, 10))
def test_no_record_moves_the_mean_further_than_its_sensitivity(
    seed: int, rows: int, features: int, size: float
) -> None:
    """A search for counter-examples: any vectors, one of them blanked or replaced."""
    draw = np.random.default_rng(seed)
    vectors = np.abs(draw.standard_t(2, (rows, features))) * size
    length = shapley_norm(features=features, output_width=1.0)

    def mean(found: np.ndarray) -> np.ndarray:
        return np.asarray(clipped_lengths(found, length).sum(axis=0) / rows)

    blanked, replaced = vectors.copy(), vectors.copy()
    blanked[0] = 0
    replaced[0] = 0
    replaced[0, draw.integers(features)] = 1e6
    for other, relation in ((blanked, Relation.BLANK_ONE), (replaced, Relation.REPLACE_ONE)):
        bound = mean_absolute_shapley(
            features=features, rows=rows, output_width=1.0, relation=relation
        ).value
        assert np.linalg.norm(mean(vectors) - mean(other)) <= bound * (1 + 1e-9)


def test_the_bound_is_attained_by_rows_that_look_at_different_features() -> None:
    length = shapley_norm(features=2, output_width=1.0)
    both = clipped_lengths(np.array([[9.0, 0.0], [0.0, 9.0]]), length)
    assert np.linalg.norm(both[0] - both[1]) == pytest.approx(math.sqrt(2) * length)


def alternating(rows: int) -> np.ndarray:
    """Two rows in turns that differ in one feature, from one end of its range to the other."""
    low, high = OPEN.rows[0].copy(), OPEN.rows[0].copy()
    low[0], high[0] = OPEN.rows[:, 0].min(), OPEN.rows[:, 0].max()
    return np.asarray(np.where(np.arange(rows)[:, np.newaxis] % 2 == 0, high, low))


def released(
    plan: TrustedPlan, arrays: Arrays, null: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> tuple[np.ndarray, float]:
    """What would be noised, of a party whose rows and public rows are alternating."""
    monkeypatch.setattr(GaussianMechanism, "randomise", lambda _, exact: np.asarray(exact))
    rows, schema = alternating(len(null)), plan.facts.schema
    records = TableRecords(schema, rows, np.zeros(len(null)), null)
    given = ComparisonRows(alternating(64), np.zeros(64)).given
    model = NetworkModel.from_arrays(schema, plan.output_head, arrays)
    strengths, accuracy = plan.local._looked_at(model, given, records, len(null))
    return np.asarray(strengths), accuracy


def looking_at(plan: TrustedPlan, weight: float) -> dict[str, np.ndarray]:
    """A model that looks at the first feature alone."""
    arrays = {name: np.array(array) for name, array in plan.start(STAGE).items()}
    arrays["0.weight"][-1, 0] = weight
    return arrays


@pytest.mark.parametrize("blanked", [0, 16, 98])
def test_a_blanked_record_leaves_the_vectors_of_all_others_alone(
    blanked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows and public rows alternate: a shift by one place would change every vector."""
    plan, null = planned(4.0, rounds=1, over_own_rows=True), np.zeros(100, dtype=bool)
    arrays = looking_at(plan, 50.0)
    before, right = released(plan, arrays, null, monkeypatch)
    null[blanked] = True
    after, right_after = released(plan, arrays, null, monkeypatch)
    bound = mean_absolute_shapley(
        features=len(before), rows=100, output_width=1.0, relation=Relation.BLANK_ONE
    ).value
    assert 0 < np.linalg.norm(before - after) <= bound
    assert abs(right - right_after) <= 1 / 100


def test_a_model_that_overflows_at_a_record_tells_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    plan, null = planned(4.0, rounds=1, over_own_rows=True), np.zeros(10, dtype=bool)
    arrays = looking_at(plan, 3e38)
    arrays["0.weight"][:, :2] = 3e38
    strengths, _ = released(plan, arrays, null, monkeypatch)
    assert np.isfinite(strengths).all()


def test_the_event_is_that_of_both_releases() -> None:
    assert OverOwnRows(3.0, 4.0).event == Composed((Gaussian(3.0), Gaussian(4.0)))


@pytest.mark.parametrize("size", [1, 40, 1_000])
def test_a_participation_is_charged_training_and_figures_over_own_rows(size: int) -> None:
    """The stage's task charges what the client's task charges; a node's account pays that."""
    plan = planned(4.0, rounds=2, over_own_rows=True)
    own, training = plan.own_rows, plan.local.network.cost(size)
    assert own is not None
    assert training is not None
    both = Composed((training, Composed((Gaussian(own.importance), Gaussian(own.accuracy)))))
    (stage,) = plan.stages
    assert plan.local.cost(size) == both
    assert stage.task.cost(size) == both
    assert plan.tasks[STAGE].cost(size) == both  # type: ignore[union-attr]
    assert plan.participation_events == (plan.local.cost(1),) * 2


def test_a_client_sends_nothing_if_figures_over_own_rows_are_not_charged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = planned(4.0, rounds=1, over_own_rows=True)
    monkeypatch.setattr(LocalTraining, "cost", lambda self, size: self.network.cost(size))
    with pytest.raises(Refused, match=r"no client contributed .* nothing was sent"):
        trained(plan)


def test_noise_is_as_large_as_it_says() -> None:
    """300 draws of 12 features and of one accuracy: every window is six standard errors or more."""
    plan = planned(4.0, rounds=1)
    records = next(iter(RECORDS.values()))
    model = NetworkModel.from_arrays(plan.facts.schema, plan.output_head, plan.start(STAGE))
    few = records.only(np.arange(25))
    design = ImportanceDesign(plan.facts.schema, few.rows, OPEN.rows[:4], orders=1)
    size, z = 50, 20.0
    own = OverOwnRows(z, z)
    values = design.values(model)
    assert values.shape == (25, len(plan.facts.schema.features), 2)
    drawn = [
        own.noised(design, model, np.ones(25, bool), np.zeros(25, bool), size, Relation.BLANK_ONE)
        for _ in range(300)
    ]
    width = len(plan.facts.schema.features)
    sigma = z * shapley_norm(features=width, output_width=1.0) / size
    positive = np.array([strengths for strengths, _ in drawn])
    # The start is a constant model: all values are 0, so half of the noise is cut off.
    above = positive[positive > 0]
    assert len(above) / positive.size == pytest.approx(0.5, abs=0.05)
    assert np.sqrt(np.mean(above**2)) == pytest.approx(sigma, rel=0.12)
    accuracies = np.array([accuracy for _, accuracy in drawn])
    inside = accuracies[(accuracies > 0) & (accuracies < 1)]
    assert 0.6 < len(inside) / len(accuracies) < 0.95, "sd 0.4 around 0.5: 79 % lie inside"
