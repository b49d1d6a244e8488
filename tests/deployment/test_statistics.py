"""Private statistics over Flower: the same model, bit for bit, as over threads in one process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.deployment.statistics_federation import statistics_node, statistics_plan
from tests.deployment.test_faults import Gone, rounds
from tests.deployment.toy_federation import (
    ToyDeployment,
    new_key,
    toy_deployment,
    toy_settings,
)
from voile.federation import Outcome, Threads
from voile.federation.secure_aggregation import AttemptStep, SignedMessage
from voile.pipelines.statistics import FederatedStatistics, train_statistics
from voile.release.statistics.budget import MOMENTS

pytestmark = [pytest.mark.real, pytest.mark.deployment]

SHARED = {name: new_key() for name in ("alder", "birch", "dogwood", "hazel", "larch", "server")}
LOCAL = {name: new_key() for name in ("maple", "oak", "pine", "server")}
KILLED = "dogwood"


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToyDeployment]:
    asked: dict[str, Any] = {"statistics": True, "secret": True}
    with toy_deployment(tmp_path_factory.mktemp("deployment")) as made:
        made.start_nodes(
            SHARED, **{name: asked for name in SHARED if name not in ("server", KILLED)},
            **{KILLED: {**asked, "dies_at": "mask input", "dies_during": MOMENTS}},
        )  # fmt: skip
        made.start_nodes(LOCAL, **{name: {"statistics": True} for name in LOCAL})
        yield made


def over_threads(folder: Path, keys: dict[str, str], *, secret: bool) -> FederatedStatistics:
    nodes: list[Any] = [
        statistics_node(toy_settings(folder, name, keys, secret=secret, statistics=True))
        for name in sorted(set(keys) - {"server"})
    ]
    gone = [Gone(node, _dies) if node.name == KILLED else node for node in nodes]
    return train_statistics(statistics_plan(keys, secret=secret), rounds(Threads(gone), keys))


def _dies(message: Any) -> bool:
    masking = isinstance(message, SignedMessage) and message.step is AttemptStep.MASK
    return masking and message.attempt.stage == MOMENTS


@pytest.mark.parametrize("secret", [True, False])
def test_a_model_is_the_same_whatever_carries_the_messages(
    deployment: ToyDeployment, tmp_path: Path, secret: bool
) -> None:
    """Five parties share noise, one of them killed in the second round; three add all of it."""
    keys = SHARED if secret else LOCAL
    plan = statistics_plan(keys, secret=secret)
    assert plan.shares == (3 if secret else 1)
    with deployment.transport(keys) as transport:
        found = train_statistics(plan, rounds(transport, keys))
    expected = over_threads(tmp_path, keys, secret=secret)
    for stage, result in expected.results.items():
        for name, array in result.arrays.items():
            assert array.tobytes() == found.results[stage].arrays[name].tobytes()
    assert found.model.to_bytes() == expected.model.to_bytes(), deployment.outputs()
    gone = {
        (row.stage, row.client): row.outcome
        for result in found.results.values()
        for row in result.rows
        if not row.outcome.counts
    }
    assert (gone.get((MOMENTS, KILLED)) is Outcome.VANISHED) == secret
    assert {client for _, client in gone} == ({KILLED} if secret else set())
