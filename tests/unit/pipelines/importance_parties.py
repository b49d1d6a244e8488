"""Parties whose rows are explained by one model, and an importance over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.protecting import row_of
from tests.unit.federation.secret_toys import Falling
from tests.unit.federation.secure_aggregation.parties import identities, signer
from voile.attribution import ExactShapley
from voile.core.guarantee import Relation
from voile.core.randomness import Seeded
from voile.core.schema import Feature, Numbers, Schema
from voile.federation import (
    Client,
    CountingGuard,
    Node,
    Rounds,
    SecureMember,
    SecureSum,
    Threads,
    run_pipeline,
)
from voile.federation.secure_aggregation import ActiveServer, AttemptsInMemory
from voile.models import Box, wrap
from voile.pipelines.facts import FederationFacts
from voile.pipelines.importance import ImportancePlan
from voile.release import PUBLIC, ByExplainer, OverItself, PrivateGlobalImportance

AGREED = "1a" * 32
DELTA = 1e-5
NAMES = ("ash", "beech", "cedar", "elm", "fir")
SIZES = {name: 40 + 20 * place for place, name in enumerate(NAMES)}
SCHEMA = Schema("patients", tuple(Feature(name, Numbers(0, 1)) for name in ("age", "bmi", "dose")))
MODEL = wrap(lambda x: x @ [0.6, 0.3, 0.1], outputs=Box(0, 1), output_names=["risk"], digest="risk")
ROWS = {
    name: np.random.default_rng(place).random((size, 3))
    for place, (name, size) in enumerate(SIZES.items())
}


def release(
    relation: Relation = Relation.BLANK_ONE, epsilon: float = 3.0, *, itself: bool = False
) -> PrivateGlobalImportance:
    explainer = ExactShapley(MODEL, np.zeros((1, 3)), schema=SCHEMA)
    return PrivateGlobalImportance(
        OverItself(MODEL, SCHEMA) if itself else ByExplainer(explainer, Box(0, 1), SCHEMA),
        protected=row_of("v1", relation),
        epsilon=epsilon,
        delta=DELTA,
        origins=[PUBLIC],
        model="risk",
        name="exact Shapley",
    )


def planned(
    shares: int = 3, *, model: Any = None, relation: Relation = Relation.BLANK_ONE, **changes: Any
) -> ImportancePlan:
    """Four of five survive, and one of them may collude."""
    secure = SecureSum(model or ActiveServer(colluders=1, threshold=4), identities(NAMES), SIZES)
    facts = FederationFacts(
        SCHEMA, SIZES, row_of("v1", relation), rounds=1, clients_per_round=5, protocol=secure
    )
    return ImportancePlan(facts, release(relation, **changes), shares)


def results(plan: ImportancePlan, falling: Sequence[str] = ()) -> Any:
    """Of the round; some parties may fall out of it, before they send anything."""
    stages, nodes = {stage.name: stage for stage in plan.stages}, list[Any]()
    for name, rows in ROWS.items():
        client = Client(name, len(rows), rows, plan.tasks, CountingGuard(1), agreement=AGREED)
        node = Node(client, secure=SecureMember(stages, signer(name), AttemptsInMemory()))
        nodes.append(Falling(node, 3) if name in falling else node)
    rounds = Rounds(
        Threads(nodes), plan.facts.sizes, agreement=AGREED, source=Seeded(1), sign=signer("server")
    )
    return run_pipeline(plan, rounds)
