"""What is public beforehand, and what local DP-SGD can promise nothing about."""

from __future__ import annotations

from typing import Any

import pytest

from tests.protecting import row_of
from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import Protected, ProtectedUnit, Relation
from voile.core.schema import Feature, Numbers, Schema
from voile.pipelines.facts import FederationFacts, classifier_training
from voile.pipelines.private_explainer import Facts

SCHEMA = Schema("one", (Feature("x", Numbers(-1, 1)),))


@pytest.fixture(params=[FederationFacts, Facts])
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.mark.parametrize("unit", [ProtectedUnit.USER, ProtectedUnit.CLIENT])
def test_training_that_clips_rows_promises_nothing_about_others(
    kind: Any, unit: ProtectedUnit
) -> None:
    whole = Protected(unit, Relation.BLANK_ONE, "clinic v1")
    with pytest.raises(Refused, match=f"clips what each row adds.*each {unit} of 'clinic v1'"):
        kind(SCHEMA, {"city": 10}, whole)


def test_sizes_are_public_so_they_cannot_be_private_too(kind: Any) -> None:
    with pytest.raises(Refused, match="declare their sizes in public"):
        kind(SCHEMA, {"city": 10}, row_of("v1", Relation.ADD_OR_REMOVE_ONE))


def test_facts_need_clients_with_sizes(kind: Any) -> None:
    with pytest.raises(InvalidInput, match="at least one client"):
        kind(SCHEMA, {}, row_of("v1"))
    with pytest.raises(InvalidInput, match="declare"):
        kind(SCHEMA, {"city": 0}, row_of("v1"))


def test_the_cap_is_what_the_rounds_need(kind: Any) -> None:
    sizes = {"b": 20, "a": 10, "c": 30}
    found = kind(SCHEMA, sizes, row_of("v1"), rounds=4, clients_per_round=2)
    assert list(found.sizes) == ["a", "b", "c"]
    assert (found.participations, found.cap, found.rows_per_client) == (3, 3, 20)
    everybody = kind(SCHEMA, sizes, row_of("v1"), rounds=4)
    assert (everybody.clients_per_round, everybody.cap) == (3, 4)


def test_noise_is_sized_for_every_step_that_the_cap_allows(kind: Any) -> None:
    found = kind(SCHEMA, {"a": 1_000}, row_of("v1"), rounds=5, participations=3)
    training = classifier_training(found, hidden=())
    noisy = found.noisy_stage(training, 1.5)
    assert noisy.steps == 3 * training.steps
    assert (noisy.sampling_rate, noisy.noise_share) == (training.sampling_rate, 1.5)
