"""A network of one table: what is charged, what one row can do, what calibration makes of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.protecting import row_of
from tests.unit.pipelines.table_networks import DELTA, network, plan, records, scores
from tests.unit.release.statistics.examples import SCHEMA
from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import Protected, ProtectedUnit, Relation
from voile.core.randomness import Seeded
from voile.core.schema import Categories, Label, Numbers
from voile.evaluation import log_losses
from voile.federation.messages import Instruction
from voile.pipelines.objectives import BLACK_BOX
from voile.pipelines.score_table import BINS, ScoreBins, ScoreCalibration
from voile.pipelines.table_network import TableNetworkPlan, joint_guarantee
from voile.pipelines.tables import TableRecords
from voile.privacy.accounting import PrivacyLoss
from voile.privacy.accounting.conversion import rho, zcdp_to_epsilon
from voile.training.private.loop import PerceptronSum


@pytest.mark.parametrize("relation", [Relation.BLANK_ONE, Relation.REPLACE_ONE])
def test_all_events_together_cost_what_was_granted(relation: Relation) -> None:
    given = plan(1000, relation=relation)
    spent = sum(rho(event) for event in given.events)
    assert spent == pytest.approx(given.rho, rel=1e-6)
    assert spent <= given.rho
    promised = joint_guarantee(given, delta=DELTA).epsilon
    assert promised == pytest.approx(zcdp_to_epsilon(given.rho, DELTA))
    exact = PrivacyLoss().compose(given.event).epsilon(DELTA)
    assert 0.6 * promised < exact <= given.epsilon(DELTA) < promised


def test_replaced_rows_need_twice_the_noise() -> None:
    blank, other = plan(1000), plan(1000, relation=Relation.REPLACE_ONE)
    assert other.noise_multiplier == pytest.approx(2 * blank.noise_multiplier)
    assert other.event == blank.event


@pytest.mark.parametrize("other", ["null", "another row"])
def test_one_row_moves_a_step_by_what_the_event_says(other: str) -> None:
    """With its clipped gradient, however large that is: searched over rows at the corners."""
    relation = Relation.BLANK_ONE if other == "null" else Relation.REPLACE_ONE
    given = plan(40, relation=relation)
    found = records(40)
    norm = norm_of(given)
    most = 0.0
    for place in range(8):
        corner = np.where(np.arange(5) == place % 5, SCHEMA.clamp(np.full((1, 5), 1e9))[0], 0.0)
        one = changed(found, SCHEMA.clamp(corner[np.newaxis])[0], float(place % 2))
        two = blanked(found) if other == "null" else changed(found, found.rows[1], 1 - place % 2)
        most = max(most, float(np.linalg.norm(step(given, one) - step(given, two))))
    assert norm * given.reach / 4 < most <= norm * given.reach * (1 + 1e-3)


def changed(found: TableRecords, row: Any, label: float) -> TableRecords:
    rows, labels = found.rows.copy(), found.labels.copy()
    rows[0], labels[0] = row, label
    return replace(found, rows=rows, labels=labels)


def blanked(found: TableRecords) -> TableRecords:
    null = found.null.copy()
    null[0] = True
    return replace(found, null=null)


def step(given: TableNetworkPlan, found: TableRecords) -> Any:
    """The sum of clipped gradients, before noise, at a network that is not quite new."""
    batches = given.objective.batches(found, {}, np.random.default_rng(0))
    kept = ~np.isnan(batches.records[0]).any(axis=1)
    start = given.model(given.task.start(0)).network
    start.values[:] += np.random.default_rng(1).normal(size=start.values.shape).astype(np.float32)
    sums = PerceptronSum(start, batches.loss)
    sums.add_up(tuple(part[kept] for part in batches.records), norm_of(given))
    return sums.total.astype(np.float64).copy()


def norm_of(given: TableNetworkPlan) -> float:
    assert isinstance(given.training.clipping_norm, float)
    return given.training.clipping_norm


def test_it_takes_the_steps_that_it_is_charged_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """All rows in each, with secure noise."""
    seen: list[Any] = []
    given, found = plan(30), records(30)
    task = given.task
    usual = task.fit

    def fit(self: Any, asked: Instruction, rows: Any, size: int, source: Any) -> Any:
        steps = self.steps(size)
        seen.append((steps.noise_multiplier, steps.sampling_rate, steps.steps, type(source)))
        return usual(asked, rows, size, Seeded(0))

    monkeypatch.setattr(type(task), "fit", fit)
    network(found, given).draw()
    assert len(seen) == given.rounds
    assert {each[:3] for each in seen} == {(given.noise_multiplier, 1.0, given.steps // 10)}
    assert {each[3].__name__ for each in seen} == {"StreamCipher"}


def test_two_draws_differ_and_neither_is_that_of_a_seed() -> None:
    release = network(records(50))
    assert release.draw().digest != release.draw().digest


def test_null_rows_and_rows_without_a_label_teach_nothing_and_never_raise() -> None:
    found = records(60)
    null, labels = found.null.copy(), found.labels.copy()
    null[:10], labels[10:20] = True, np.nan
    broken = replace(found, null=null, labels=labels)
    release = scores(broken)
    assert release.bins.counts(broken).sum() == 40
    assert np.isfinite(release.draw().counts).all()
    sums = step(plan(60), broken), step(plan(60), broken.only(np.arange(20, 60)))
    np.testing.assert_allclose(*sums, atol=1e-5)


@pytest.mark.parametrize("label", [Numbers(0.0, 5.0), Categories(("a", "b", "c"))])
def test_only_two_classes_have_a_score_table(label: Any) -> None:
    schema = replace(SCHEMA, label=Label("ill", label))
    given = TableNetworkPlan(schema, 40, row_of("people 1", Relation.BLANK_ONE), 0.1)
    assert len(given.events) == 1
    assert given.network_rho == given.rho
    found = replace(records(40), schema=schema)
    made = network(found, given).draw()
    with pytest.raises((InvalidInput, Refused)):
        scores(found, given)
    said = given.model(made.arrays).predict(found.rows)
    assert said.shape == (40, given.objective.answers)


def test_who_takes_part_is_checked() -> None:
    with pytest.raises(InvalidInput, match="the plan is for 41 rows, found 40: null rows count"):
        network(records(40), plan(41))
    with pytest.raises(Refused, match="zero-out"):
        plan(40, relation=Relation.ADD_OR_REMOVE_ONE)
    with pytest.raises(Refused, match="what each row adds"):
        TableNetworkPlan(
            SCHEMA, 40, Protected(ProtectedUnit.USER, Relation.BLANK_ONE, "people 1"), 0.1
        )
    unpaid = replace(scores(records(40)).network)
    with pytest.raises(Refused, match="nobody was charged"):
        replace(scores(records(40)), network=unpaid)


# --- calibration ----------------------------------------------------------------------------------


def test_edges_depend_on_the_network_alone() -> None:
    given = plan(40)
    arrays = given.task.start(0)
    one, other = (ScoreBins(given.model(arrays)) for _ in range(2))
    assert one.edges.tolist() == other.edges.tolist()
    assert len(one.edges) == BINS - 1
    assert (np.diff(one.edges) > 0).all()


def test_a_network_that_is_too_sure_is_brought_down() -> None:
    """True chances are known: slope and intercept come out, at any noise that leaves signal."""
    given = plan(20_000, rho=0.5)
    draw = np.random.default_rng(0)
    bins = ScoreBins(given.model(given.task.start(0)))
    object.__setattr__(bins, "edges", np.linspace(-6, 6, BINS - 1))
    true = 1 / (1 + np.exp(-(0.3 * bins.middles - 0.8)))
    rows = draw.multinomial(20_000, np.full(BINS, 1 / BINS))
    ones = draw.binomial(rows, true)
    exact = np.column_stack([rows - ones, ones])
    noise = draw.normal(size=exact.shape) * 3
    found = ScoreCalibration(given, bins, np.rint(exact + noise).astype(np.int64))
    assert found.slope == pytest.approx(0.3, abs=0.03)
    assert found.chances == pytest.approx(true, abs=0.03)


def test_pure_noise_gives_the_prior_and_never_fails() -> None:
    given = plan(50, rho=1e-3)
    bins = ScoreBins(given.model(given.task.start(0)))
    draw = np.random.default_rng(0)
    for counts in (np.zeros((BINS, 2)), draw.normal(size=(BINS, 2)) * 500, np.full((BINS, 2), -50)):
        found = ScoreCalibration(given, bins, counts.astype(np.int64))
        assert np.isfinite(found.chances).all()
        assert found.slope > 0


def test_calibrated_probabilities_are_better(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("voile.pipelines.table_network.StreamCipher", lambda: Seeded(3))
    found, fresh = records(3000), records(1000, seed=1)
    given = plan(3000, rho=0.1)
    release = scores(found, given)
    calibration = ScoreCalibration(given, release.bins, release.bins.counts(found)).calibration
    raw = given.model(release.network.arrays)
    losses = [
        log_losses(model.predict(fresh.rows), fresh.labels.astype(int)).mean()
        for model in (raw, calibration.apply(raw))
    ]
    assert losses[1] < losses[0] - 0.01
    rate = fresh.labels.mean()
    assert losses[1] < -(rate * np.log(rate) + (1 - rate) * np.log(1 - rate)) - 0.05


def test_the_stage_is_the_black_box_of_a_federation() -> None:
    given = plan(1000)
    assert given.stage.name == BLACK_BOX
    assert given.stage.participations == given.rounds
