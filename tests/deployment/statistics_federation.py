"""Private statistics over the nodes of `toy_node`, which add their noise from seeds of a test."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.deployment.toy_node import ToySettings, public_from, signer_from
from tests.protecting import row_of
from tests.unit.pipelines.statistics_parties import SCHEMA, table_of
from voile.core.guarantee import Relation
from voile.federation import (
    AttemptsOnDisk,
    Client,
    CountingGuard,
    Node,
    SecureMember,
    SecureSum,
    SeededSources,
)
from voile.federation.secure_aggregation import ActiveServer
from voile.pipelines.facts import FederationFacts
from voile.pipelines.statistics import StatisticsPlan, plan_statistics

ROWS = 40
"""Of each party, as `ToySettings` declare them."""


def statistics_plan(keys: Mapping[str, str], *, secret: bool) -> StatisticsPlan:
    """With five parties shared noise, of which one may collude and four survive."""
    sizes = dict.fromkeys(sorted(set(keys) - {"server"}), ROWS)
    facts = FederationFacts(SCHEMA, sizes, row_of("v1", Relation.BLANK_ONE))
    if secret:
        public = {name: public_from(key) for name, key in keys.items()}
        protocol = SecureSum(ActiveServer(1, 4), public, sizes)
        facts = FederationFacts(SCHEMA, sizes, facts.protected, protocol=protocol)
    return plan_statistics(facts, epsilon=9.0, delta=1e-5)


def statistics_node(settings: ToySettings) -> Node:
    """The same node in a process of its own and in a test."""
    plan, folder = statistics_plan(settings.keys, secret=settings.secret), Path(settings.folder)
    client = Client(
        settings.name, settings.size, table_of(settings.name, ROWS), plan.tasks, CountingGuard(1),
        SeededSources(1), folder / "updates", settings.agreement,
    )  # fmt: skip
    if not settings.secret:
        return Node(client)
    stages = {stage.name: stage for stage in plan.stages}
    store, sign = AttemptsOnDisk(folder / "attempts"), signer_from(settings.keys[settings.name])
    return Node(client, secure=SecureMember(stages, sign, store))
