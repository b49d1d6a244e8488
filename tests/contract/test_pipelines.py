"""Whatever keeps to `Pipeline` is run, charged and promised alike; nothing is trained here."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest

from tests.protecting import row_of
from tests.unit.federation.secure_aggregation.parties import identities
from voile.core.guarantee import Adversary, Relation
from voile.core.schema import Categories, Feature, Label, Numbers, Schema
from voile.federation import Pipeline, SecureSum
from voile.federation.arrays import shapes_of
from voile.federation.secure_aggregation import HonestButCurious
from voile.pipelines.facts import FederationFacts
from voile.pipelines.logistic_regression import plan_logistic_regression
from voile.pipelines.private_explainer import Facts, split_total
from voile.pipelines.statistics import StatisticsPlan, plan_statistics
from voile.pipelines.trusted_averaging import plan_trusted_averaging
from voile.privacy.accounting import Plan

EPSILON, DELTA, ROUNDS, CAP = 1.5, 1e-5, 4, 2
SIZES = {"north": 300, "south": 500, "west": 90, "east": 2_000}
SCHEMA = Schema(
    "people",
    (Feature("age", Numbers(0, 100), 30), Feature("sex", Categories(("f", "m")))),
    Label("ill", Categories(("no", "yes"))),
)
Build: TypeAlias = Callable[[Relation], Pipeline]


def private_explainer(relation: Relation) -> Pipeline:
    facts = Facts(SCHEMA, SIZES, row_of("v1", relation), rounds=ROUNDS, clients_per_round=2)
    return split_total(facts, epsilon=EPSILON, delta=DELTA)


def logistic_regression(relation: Relation) -> Pipeline:
    facts = FederationFacts(
        SCHEMA, SIZES, row_of("v1", relation), rounds=ROUNDS, clients_per_round=2
    )
    return plan_logistic_regression(facts, epsilon=EPSILON, delta=DELTA)


def trusted_averaging(relation: Relation) -> Pipeline:
    facts = FederationFacts(
        SCHEMA, SIZES, row_of("v1", relation), rounds=ROUNDS, clients_per_round=2
    )
    return plan_trusted_averaging(facts, epsilon=EPSILON, delta=DELTA, hidden=(8,))


def in_secret(relation: Relation) -> Pipeline:
    facts = FederationFacts(
        SCHEMA,
        SIZES,
        row_of("v1", relation),
        rounds=ROUNDS,
        clients_per_round=2,
        protocol=SecureSum(HonestButCurious(), identities(SIZES), SIZES),
    )
    return plan_logistic_regression(facts, epsilon=EPSILON, delta=DELTA)


def statistics(relation: Relation) -> Pipeline:
    facts = FederationFacts(SCHEMA, SIZES, row_of("v1", relation))
    return plan_statistics(facts, epsilon=EPSILON, delta=DELTA)


def shared_statistics(relation: Relation) -> Pipeline:
    protocol = SecureSum(HonestButCurious(), identities(SIZES), SIZES)
    facts = FederationFacts(SCHEMA, SIZES, row_of("v1", relation), protocol=protocol)
    return plan_statistics(facts, epsilon=EPSILON, delta=DELTA)


KINDS = (
    private_explainer,
    logistic_regression,
    in_secret,
    trusted_averaging,
    statistics,
    shared_statistics,
)


@pytest.fixture(params=KINDS)
def build(request: pytest.FixtureRequest) -> Build:
    found: Build = request.param
    return found


def test_every_stage_starts_from_public_arrays_of_its_shapes(build: Build) -> None:
    pipeline = build(Relation.BLANK_ONE)
    names = [stage.name for stage in pipeline.stages]
    assert len(set(names)) == len(names) > 0
    for stage in pipeline.stages:
        start = pipeline.start(stage.name)
        assert shapes_of(start) == dict(stage.task.shapes)
        again = build(Relation.BLANK_ONE).start(stage.name)
        assert all((start[name] == again[name]).all() for name in start)


def test_an_account_is_made_of_what_a_client_is_asked_for(build: Build) -> None:
    """As often as the cap allows, in each stage, whatever its size."""
    pipeline = build(Relation.BLANK_ONE)
    wanted = [
        stage.task.cost(size)
        for size in SIZES.values()
        for stage in pipeline.stages
        for _ in range(stage.participations)
    ]
    caps = {stage.participations for stage in pipeline.stages}
    assert caps == ({1} if isinstance(pipeline, StatisticsPlan) else {CAP})
    assert list(pipeline.participation_events) * len(SIZES) == wanted


@pytest.mark.parametrize("relation", [Relation.BLANK_ONE, Relation.REPLACE_ONE])
def test_the_guarantee_is_the_account_and_meets_the_total(build: Build, relation: Relation) -> None:
    pipeline = build(relation)
    promise = pipeline.guarantee()
    account = Plan(pipeline.participation_events, EPSILON, DELTA)
    assert promise.delta == pytest.approx(DELTA)
    assert promise.epsilon == pytest.approx(account.needed(), rel=1e-6)
    assert 0.99 * EPSILON <= promise.epsilon <= EPSILON
    assert promise.protected == pipeline.protected == row_of("v1", relation)


def test_in_secret_the_promise_is_the_same_and_says_what_hides_single_updates() -> None:
    plain, secret = (
        build(Relation.BLANK_ONE).guarantee() for build in (logistic_regression, in_secret)
    )
    assert (secret.epsilon, secret.delta) == (plain.epsilon, plain.delta)
    added = set(secret.against) - set(plain.against)
    assert added == {Adversary.SERVER_SEEING_SUMS}
    assert set(plain.assumptions) < set(secret.assumptions)
    assert any("honest-but-curious" in each for each in secret.assumptions)
