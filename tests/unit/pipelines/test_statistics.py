"""Private statistics across parties: what is sent, what is added up, and what comes of it."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.federation.secret_toys import Falling
from tests.unit.pipelines import statistics_parties as parties
from tests.unit.pipelines.statistics_parties import (
    AGREED,
    FEATURES,
    NAMES,
    SCHEMA,
    SIZES,
    node_of,
    nodes_of,
    planned,
    rounds_of,
    together,
    unseeded,
)
from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import Adversary
from voile.core.randomness import Seeded
from voile.core.row_note import KnownNote
from voile.core.schema import Categories, Feature, Label, Numbers, Schema
from voile.federation import Instruction, Outcome, SeededSources
from voile.federation.pipeline import under
from voile.federation.secure_aggregation import ActiveServer
from voile.pipelines import statistics
from voile.pipelines.statistics import (
    NUMBERS,
    STAGES,
    SURVIVORS,
    FederatedStatistics,
    StatisticsPlan,
    train_statistics,
)
from voile.pipelines.tables import TableRecords
from voile.privacy.accounting.conversion import zcdp_to_epsilon
from voile.release.statistics.budget import CALIBRATION, MOMENTS, TABLES
from voile.release.statistics.sums import LabelledRecords

PLAN = planned()


def trained(plan: StatisticsPlan, nodes: Any = None, **settings: Any) -> FederatedStatistics:
    return train_statistics(plan, rounds_of(plan, nodes or nodes_of(plan), **settings))


@pytest.fixture(scope="module")
def found() -> FederatedStatistics:
    return trained(PLAN)


def arrays_of(found: FederatedStatistics) -> dict[str, Any]:
    return {name: each.arrays for name, each in found.results.items()}


def flat(blocks: Any) -> Any:
    return np.concatenate([block.ravel() for block in blocks])


# --- what is added up ----------------------------------------------------------------------------


def test_the_sums_are_those_of_one_table_with_all_rows_and_the_noise_of_all(
    found: FederatedStatistics,
) -> None:
    """Exactly, with test randomness: nothing is rounded, weighted or left out."""
    arrays = arrays_of(found)
    sums = PLAN.after(arrays)
    rows = LabelledRecords.read(together(), SCHEMA)
    for stage in STAGES:
        noise = sums.noise(stage)
        assert noise.factor > 1
        exact = noise.factor * flat(sums.release(stage, rows).exact(rows.present))
        zeros = [np.zeros(shape, dtype=np.int64) for shape in noise.shapes]
        drawn = [
            flat(noise.randomise(zeros, SeededSources(1).source(name, stage, 1))) for name in NAMES
        ]
        expected = exact + sum(drawn)
        numbers = arrays[stage][NUMBERS]
        assert (numbers[: len(expected)] == expected).all()
        assert not numbers[len(expected) :].any()  # padding: noise on real entries only
        assert arrays[stage][SURVIVORS].tolist() == [len(NAMES), sum(SIZES.values())]


WARDS = Categories(("a", "b", "c", "d"))
OTHER_LABELS = {
    "several classes": Schema("patients", FEATURES[:3], Label("ward", WARDS)),
    "a number": Schema("patients", FEATURES[1:], Label("age", Numbers(0, 100))),
    "no fine tables": Schema(
        "patients",
        (
            Feature("age", Numbers(0, 100), cuts=(30.0, 50.0, 70.0)),
            Feature("dose", Numbers(0, 10), cuts=(2.0,)),
        ),
        Label("ill", Categories(("no", "yes"))),
    ),
}


@pytest.mark.parametrize("name", OTHER_LABELS)
def test_sums_of_other_labels_are_those_of_one_table_too(name: str) -> None:
    schema = OTHER_LABELS[name]
    plan = planned(schema=schema)
    assert (TABLES in plan.tasks) == (name != "no fine tables")
    found = trained(plan)
    sums, rows = plan.after(arrays_of(found)), LabelledRecords.read(together(), schema)
    for stage, result in found.results.items():
        noise = sums.noise(stage)
        assert noise.event().rho <= plan.rhos[stage]
        exact = flat(sums.release(stage, rows).exact(rows.present))
        off = result.arrays[NUMBERS][: len(exact)] / noise.factor - exact
        sigmas = [np.full(math.prod(s), w) for w, s in zip(noise.sigmas, noise.shapes, strict=True)]
        assert np.abs(off / np.concatenate(sigmas)).max() < 8
        assert not result.arrays[NUMBERS][len(exact) :].any()
    assert np.isfinite(found.model.predict(together())).all()
    assert unseeded(found).explain(together()).guarantees == (plan.guarantee(),)


def test_in_the_clear_and_in_secret_local_noise_makes_the_same_model() -> None:
    plain, secret = (trained(planned(shared=False, secret=each)) for each in (False, True))
    assert (plain.model.scores == secret.model.scores).all()


def test_the_error_is_that_of_the_shares_that_survive(found: FederatedStatistics) -> None:
    """At most 1.1·√(survivors/h) times a central Gaussian's, over all numbers of a sum."""
    sums = PLAN.after(arrays_of(found))
    rows = LabelledRecords.read(together(), SCHEMA)
    for stage, made in ((TABLES, sums.tables), (MOMENTS, sums.moments)):
        noise = sums.noise(stage)
        exact = sums.release(stage, rows).exact(rows.present)
        off = [
            (block - true).ravel() / sigma
            for block, true, sigma in zip(made.blocks, exact, noise.sigmas, strict=True)
        ]
        error = np.concatenate(off).std()
        assert error <= 1.1 * math.sqrt(len(NAMES) / PLAN.shares)
        assert error >= 0.8 * math.sqrt(len(NAMES) / PLAN.shares)


def test_what_comes_of_it_is_a_useful_model_that_explains_for_free(
    found: FederatedStatistics,
) -> None:
    rows = together()
    chances, ill = found.model.predict(rows)[:, 1], np.array(rows["ill"]) == "yes"
    order = chances.argsort()
    ranks = np.empty(len(order))
    ranks[order] = np.arange(len(order))
    auc = (ranks[ill].mean() - (ill.sum() - 1) / 2) / (~ill).sum()
    assert auc > 0.8
    made = unseeded(found)
    explained = made.explain({name: values[:3] for name, values in rows.items()})
    assert explained.guarantees == (PLAN.guarantee(),)
    assert found.explain(rows).notes[-1] == KnownNote.SEEDED_NOISE
    assert not found.model.guarantees


# --- who falls out -------------------------------------------------------------------------------


def test_a_party_that_is_gone_between_rounds_is_left_out_and_the_rest_is_scaled() -> None:
    """It falls out when it is asked to begin the second round."""
    nodes = nodes_of(PLAN)
    nodes[2] = Falling(nodes[2], 6)
    found = trained(PLAN, nodes)
    outcomes = {(row.stage, row.client): row.outcome for row in found.results[MOMENTS].rows}
    assert not outcomes[MOMENTS, NAMES[2]].counts
    left = sum(SIZES.values()) - SIZES[NAMES[2]]
    assert found.results[TABLES].arrays[SURVIVORS].tolist() == [5, sum(SIZES.values())]
    assert found.results[MOMENTS].arrays[SURVIVORS].tolist() == [4, left]
    variances = found.statistics.budget.variances
    assert variances is not None
    grown = 4 / PLAN.shares * (sum(SIZES.values()) / left) ** 2
    assert variances == pytest.approx((5 / PLAN.shares, grown, grown))
    assert found.statistics.budget.rows == sum(SIZES.values())


def test_three_of_ten_may_fall_out() -> None:
    names = [f"party {place}" for place in range(10)]
    plan = planned(sizes=dict.fromkeys(names, 150), model=ActiveServer(2, 7))
    assert plan.shares == 5
    nodes: list[Any] = [node_of(plan, name, records=parties.table_of(name, 150)) for name in names]
    nodes[:3] = [Falling(each, 3) for each in nodes[:3]]
    found = trained(plan, nodes)
    assert found.results[CALIBRATION].arrays[SURVIVORS].tolist() == [7, 1050]
    assert found.model.predict(parties.table_of("new", 5)).shape == (5, 2)


def test_with_too_few_parties_nothing_more_is_asked_or_charged() -> None:
    nodes = nodes_of(PLAN)
    nodes[:2] = [Falling(each, 1) for each in nodes[:2]]
    with pytest.raises(Refused, match="no client contributed to the stage 'fine tables'"):
        trained(PLAN, nodes)
    for node in nodes[2:]:
        assert {each.stage for each in node.client.guard.participations} == {TABLES}


def test_stored_bytes_are_masked_again_and_a_finished_round_is_never_added_up_twice(
    tmp_path: Path,
) -> None:
    nodes = nodes_of(PLAN, folder=tmp_path, seed=None)
    first = trained(PLAN, nodes)
    assert first.promise().notes == (KnownNote.NOT_CHARGED,)
    again = nodes[0].client.answer(Instruction(TABLES, 1, PLAN.start(TABLES), agreement=AGREED))
    assert again.resent
    with pytest.raises(Refused, match="no client contributed"):
        trained(PLAN, nodes)


# --- what a party sends --------------------------------------------------------------------------


def fitted(
    records: Any, plan: StatisticsPlan = PLAN, stage: str = TABLES, given: Any = None
) -> Any:
    instruction = Instruction(stage, 1, plan.start(stage), given or {})
    return plan.tasks[stage].fit(instruction, records, SIZES["ash"], Seeded(4))


def test_a_party_without_rows_sends_noise_as_others_do() -> None:
    """Planted fault: no noise from an empty party, whose share the others count on."""
    nobody: dict[str, list[Any]] = {name: [] for name in together()}
    unlabelled = {**parties.TABLES["ash"], "ill": ["?"] * SIZES["ash"]}
    for records in (nobody, unlabelled):
        sent = fitted(records).change[NUMBERS]
        sigma = PLAN.after({}).noise(TABLES)._parts[0].sigma
        assert sent.std() == pytest.approx(sigma, rel=0.25)
        assert np.count_nonzero(sent) > 0.8 * len(sent)


def test_every_participation_is_the_whole_cost_whatever_a_party_brings() -> None:
    events = PLAN.participation_events
    for stage, event in zip(STAGES, events, strict=True):
        assert {PLAN.tasks[stage].cost(size) for size in (1, 50, 10**6)} == {event}
        noise = PLAN.after({}).noise(TABLES)
        assert noise.event().rho <= PLAN.rhos[TABLES]
    total = zcdp_to_epsilon(sum(event.rho for event in events), 1e-5)
    assert total == pytest.approx(PLAN.guarantee().epsilon)


def test_noise_costs_its_share_in_every_round(found: FederatedStatistics) -> None:
    """Planted fault: shares sized for all parties, where only t - c are honest and survive."""
    sums = PLAN.after(arrays_of(found))
    for stage in STAGES:
        noise = sums.noise(stage)
        assert noise.shares == PLAN.shares == 3
        assert 0.999 * PLAN.rhos[stage] < noise.event().rho <= PLAN.rhos[stage]
        everybody = replace(noise, shares=len(NAMES))
        assert everybody.event(PLAN.shares).rho > 1.6 * PLAN.rhos[stage]


@pytest.mark.parametrize("cell", [math.nan, math.inf, -1e300, None, "garbage", ""])
def test_garbage_in_a_table_raises_nothing(cell: Any) -> None:
    table = {name: [cell] * SIZES["ash"] for name in together()}
    assert fitted(table).change[NUMBERS].shape == PLAN.tasks[TABLES].shapes[NUMBERS]
    records = TableRecords.read(SCHEMA, table)
    assert fitted(records).change[SURVIVORS].tolist() == [1, SIZES["ash"]]


def test_more_rows_than_declared_are_refused() -> None:
    more = {name: [*values, *values] for name, values in parties.TABLES["ash"].items()}
    with pytest.raises(InvalidInput, match="are declared"):
        fitted(more)


@pytest.mark.parametrize("number", [0, -(2**62), 2**40, 2**62])
def test_whatever_sums_a_server_hands_out_the_cost_and_the_shapes_stay(number: int) -> None:
    """A server may send any numbers; a party's noise is never below its share."""
    draw = np.random.default_rng(abs(number) + 1)
    given: dict[str, Any] = {}
    for stage in (TABLES, MOMENTS, CALIBRATION):
        if given:
            found = fitted(parties.TABLES["ash"], stage=stage, given=given)
            assert found.change[NUMBERS].shape == PLAN.tasks[stage].shapes[NUMBERS]
            before = STAGES[: STAGES.index(stage)]
            sums = PLAN.after({name: under(name, given) for name in before})
            assert sums.noise(stage).event().rho <= PLAN.rhos[stage]
        length = PLAN.tasks[stage].length
        given[f"{stage}/{NUMBERS}"] = number + draw.integers(-1000, 1000, length)
        given[f"{stage}/{SURVIVORS}"] = np.array([number, number])


def test_no_number_of_a_party_is_larger_than_sums_are_sized_for(
    found: FederatedStatistics,
) -> None:
    given: dict[str, Any] = {}
    for stage in STAGES:
        for name in NAMES:
            instruction = Instruction(stage, 1, PLAN.start(stage), given)
            sent = PLAN.tasks[stage].fit(instruction, parties.TABLES[name], SIZES[name], Seeded(1))
            assert np.abs(sent.change[NUMBERS]).max() < PLAN.tasks[stage].largest
        given |= {f"{stage}/{n}": array for n, array in found.results[stage].arrays.items()}


# --- what is promised ----------------------------------------------------------------------------


def test_shared_noise_holds_against_sums_and_says_what_holds_against_more() -> None:
    promise = PLAN.guarantee()
    assert promise.computational
    assert Adversary.SERVER_SEEING_SUMS in promise.against
    assert Adversary.SERVER_SEEING_UPDATES not in promise.against
    alone = PLAN.epsilon(1e-5, honest=1)
    assert alone == pytest.approx(zcdp_to_epsilon(3 * PLAN.budget.rho, 1e-5), rel=1e-6)
    assert any(f"epsilon = {alone:.4g}" in each for each in promise.assumptions)
    assert any("at least 3 honest" in each for each in promise.assumptions)
    assert not any("whoever adds up the rows" in each for each in promise.assumptions)


@pytest.mark.parametrize("secret", [True, False])
def test_local_noise_holds_against_single_updates(secret: bool) -> None:
    promise = planned(shared=False, secret=secret).guarantee()
    assert Adversary.SERVER_SEEING_UPDATES in promise.against
    assert (Adversary.SERVER_SEEING_SUMS in promise.against) == secret


def test_shared_noise_without_a_secure_sum_is_refused() -> None:
    with pytest.raises(Refused, match="add"):
        planned(secret=False, shared=True)


def test_shares_are_those_of_honest_survivors() -> None:
    """t = 4 survive, one of them may collude; without a threshold the model's own counts."""
    assert PLAN.shares == 3
    assert PLAN.budget.parties == pytest.approx(5 / 3)
    assert planned(model=ActiveServer()).shares == 3
    assert planned(model=ActiveServer(1, 5)).shares == 4
    assert planned(shared=False).budget.parties == 5


def test_a_round_of_everybody_is_one_of_each_stage() -> None:
    plan = statistics.plan_statistics(
        replace(parties.facts(), rounds=7, participations=3, clients_per_round=2),
        epsilon=2.0,
        delta=1e-5,
    )
    for stage in plan.stages:
        assert (stage.rounds, stage.participations, stage.clients_per_round) == (1, 1, 5)


def test_outcomes_of_a_finished_run_are_answers(found: FederatedStatistics) -> None:
    rows = [row for each in found.results.values() for row in each.rows]
    assert {row.outcome for row in rows} == {Outcome.ANSWERED}
