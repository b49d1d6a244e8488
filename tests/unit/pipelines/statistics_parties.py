"""Parties with a few columns and a known risk, and statistics over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tests.protecting import row_of
from tests.unit.federation.secure_aggregation.parties import identities, signer
from voile.core.guarantee import Relation
from voile.core.randomness import Seeded
from voile.core.schema import Categories, Feature, Label, Numbers, Schema
from voile.federation import (
    AttemptsOnDisk,
    Client,
    CountingGuard,
    FreshCiphers,
    Node,
    Rounds,
    SecureMember,
    SecureSum,
    SeededSources,
    Threads,
)
from voile.federation.secure_aggregation import ActiveServer, AttemptsInMemory
from voile.pipelines.facts import FederationFacts
from voile.pipelines.statistics import FederatedStatistics, StatisticsPlan, plan_statistics

AGREED = "5e" * 32
NAMES = ("ash", "beech", "cedar", "elm", "fir")
SIZES = {name: 300 + 50 * place for place, name in enumerate(NAMES)}
FEATURES = (
    Feature("age", Numbers(0, 100)),
    Feature("dose", Numbers(0, 10)),
    Feature("smoker", Categories(("no", "yes"))),
    Feature("ward", Categories(("a", "b", "c", "d"))),
)
SCHEMA = Schema("patients", FEATURES, Label("ill", Categories(("no", "yes"))))


def table_of(name: str, size: int) -> dict[str, Any]:
    """Rows of one party; the risk rises with age and dose, and with smoking."""
    draw = np.random.default_rng(sum(map(ord, name)))
    age, dose = draw.uniform(0, 100, size), draw.exponential(2.0, size).clip(0, 10)
    smoker, ward = draw.random(size) < 0.4, draw.integers(0, 4, size)
    odds = -4.2 + 0.05 * age + 0.3 * dose + 0.8 * smoker + 0.1 * ward
    ill = draw.random(size) < 1 / (1 + np.exp(-odds))
    return {
        "age": age.tolist(),
        "dose": dose.tolist(),
        "smoker": np.where(smoker, "yes", "no").tolist(),
        "ward": [str("abcd"[each]) for each in ward],
        "ill": np.where(ill, "yes", "no").tolist(),
    }


TABLES = {name: table_of(name, size) for name, size in SIZES.items()}


def together(names: Sequence[str] = NAMES) -> dict[str, Any]:
    """All rows of some parties, as one table."""
    return {c: [v for name in names for v in TABLES[name][c]] for c in TABLES[names[0]]}


def facts(sizes: Mapping[str, int] = SIZES, *, secret: bool = True, **changes: Any) -> Any:
    protocol: dict[str, Any] = {}
    if secret:
        model = changes.pop("model", ActiveServer(colluders=1, threshold=4))
        protocol = {"protocol": SecureSum(model, identities(sizes), dict(sizes))}
    fixed: dict[str, Any] = {"protected": row_of("v1", Relation.BLANK_ONE), "schema": SCHEMA}
    return FederationFacts(sizes=sizes, **(fixed | protocol | changes))


def planned(epsilon: float = 8.0, *, shared: bool | None = None, **changes: Any) -> StatisticsPlan:
    return plan_statistics(facts(**changes), epsilon=epsilon, delta=1e-5, shared=shared)


def node_of(
    plan: StatisticsPlan,
    name: str,
    *,
    seed: int | None = 1,
    folder: Path | None = None,
    records: Any = None,
) -> Node:
    sources = FreshCiphers() if seed is None else SeededSources(seed)
    found = TABLES[name] if records is None else records
    client = Client(
        name, plan.facts.sizes[name], found, plan.tasks, CountingGuard(1), sources, folder, AGREED
    )
    if not isinstance(plan.facts.protocol, SecureSum):
        return Node(client)
    store = AttemptsInMemory() if folder is None else AttemptsOnDisk(folder / name)
    stages = {stage.name: stage for stage in plan.stages}
    return Node(client, secure=SecureMember(stages, signer(name), store))


def nodes_of(plan: StatisticsPlan, **changes: Any) -> list[Any]:
    return [node_of(plan, name, **changes) for name in plan.facts.sizes]


def rounds_of(plan: StatisticsPlan, nodes: Sequence[Any], **settings: Any) -> Rounds:
    fixed: dict[str, Any] = {"agreement": AGREED, "source": Seeded(3), "sign": signer("server")}
    return Rounds(Threads(nodes), plan.facts.sizes, **(fixed | settings))


def unseeded(found: FederatedStatistics) -> FederatedStatistics:
    """As if noise were not reproducible, to see what would be promised."""
    results = {
        name: replace(each, rows=tuple(replace(row, note="") for row in each.rows))
        for name, each in found.results.items()
    }
    return FederatedStatistics(found.plan, results)
