"""A small trusted federation: clinics, in clear or in secret, private or not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tests.protecting import row_of
from tests.unit.federation.secure_aggregation.parties import identities, signer
from voile.core.randomness import Seeded
from voile.datasets import clinic_federation
from voile.federation import (
    Client,
    CountingGuard,
    Node,
    NoGuard,
    Rounds,
    SecureMember,
    SecureSum,
    SeededSources,
    Threads,
    Unprotected,
)
from voile.federation.secure_aggregation import AttemptsInMemory, HonestButCurious
from voile.pipelines.facts import FederationFacts
from voile.pipelines.network_task import Training
from voile.pipelines.tables import TableRecords
from voile.pipelines.trusted_averaging import (
    REPORTED,
    ComparisonRows,
    TrustedModel,
    TrustedPlan,
    plan_trusted_averaging,
    train_trusted,
)

AGREED = "5a" * 32
QUICK = Training(hidden=(), clipping_norm=0.5, sampling_rate=0.25, epochs=2, rate=0.1)
CLINIC = clinic_federation(120, reference_rows=40, seed=4)
RECORDS = {name: TableRecords.from_dataset(data) for name, data in CLINIC.hospitals.items()}
OPEN = TableRecords.from_dataset(clinic_federation(100, seed=9).together())
PUBLIC = ComparisonRows(OPEN.rows[:60].astype(np.float32), OPEN.labels[:60].astype(np.float32))


def planned(epsilon: float | None = None, rounds: int = 3, **changes: Any) -> TrustedPlan:
    sizes = {name: len(found) for name, found in RECORDS.items()}
    facts = FederationFacts(CLINIC.schema, sizes, row_of("clinic v1"), rounds=rounds)
    own = changes.pop("over_own_rows", False)
    training = changes.pop("training", QUICK)
    rule = changes.pop("rule", None)
    plan = plan_trusted_averaging(
        facts, epsilon=epsilon, delta=1e-5, training=training, rule=rule, over_own_rows=own
    )
    return replace(plan, **changes)


def in_secret(plan: TrustedPlan) -> TrustedPlan:
    sizes = dict(plan.facts.sizes)
    protocol = SecureSum(HonestButCurious(), identities(sizes), sizes)
    return replace(plan, facts=replace(plan.facts, protocol=protocol))


def nodes_of(plan: TrustedPlan, *, seed: int = 1, folder: Any = None, **tasks: Any) -> list[Node]:
    """Parties of a plan; `tasks` are those of single parties that differ."""
    secret = isinstance(plan.summing, SecureSum)
    books: Any = NoGuard() if plan.noise_multiplier is None else CountingGuard(plan.facts.rounds)
    found = []
    for name, size in plan.facts.sizes.items():
        mine = {**plan.tasks, **tasks.get(name.replace(" ", "_"), {})}
        client = Client(name, size, RECORDS[name], mine, books, SeededSources(seed), folder, AGREED)
        member = None
        if secret:
            member = SecureMember(
                plan.summed_stages, signer(name), AttemptsInMemory(), in_clear=REPORTED
            )
        found.append(Node(client, secure=member))
    return found


def trained(plan: TrustedPlan, nodes: Any = None, **settings: Any) -> TrustedModel:
    members = nodes_of(plan) if nodes is None else nodes
    fixed: dict[str, Any] = {"agreement": AGREED, "source": Seeded(3), "sign": signer("server")}
    rounds = Rounds(Threads(members), plan.facts.sizes, **(fixed | settings))
    return train_trusted(plan, rounds, public=PUBLIC, unprotected=Unprotected(OPEN, "made up"))
