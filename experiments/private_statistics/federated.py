"""A federation of private statistics on threads in this process, over the secure sum."""

from __future__ import annotations

from collections.abc import Mapping

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from voile.core.guarantee import Protected, ProtectedUnit, Relation
from voile.core.schema import Schema
from voile.federation import (
    Client,
    CountingGuard,
    FreshCiphers,
    Node,
    Rounds,
    SecureMember,
    SecureSum,
    Threads,
)
from voile.federation.secure_aggregation import (
    ActiveServer,
    AttemptsInMemory,
    Signer,
)
from voile.pipelines.facts import FederationFacts
from voile.pipelines.statistics import (
    FederatedStatistics,
    StatisticsPlan,
    plan_statistics,
    train_statistics,
)
from voile.release.statistics import LabelledRecords

AGREED, SERVER = "5e" * 32, "server"


def trained(
    schema: Schema,
    parties: Mapping[str, LabelledRecords],
    *,
    epsilon: float,
    delta: float,
    threshold: int,
) -> FederatedStatistics:
    """Three rounds with shared noise, against an active server and one colluding party."""
    keys = {name: Ed25519PrivateKey.generate() for name in (*parties, SERVER)}
    sizes = {name: len(records) for name, records in parties.items()}
    facts = FederationFacts(
        schema,
        sizes,
        Protected(ProtectedUnit.ROW, Relation.BLANK_ONE, schema.name),
        protocol=SecureSum(
            ActiveServer(colluders=1, threshold=threshold),
            {name: key.public_key().public_bytes_raw() for name, key in keys.items()},
            sizes,
        ),
    )
    plan = plan_statistics(facts, epsilon=epsilon, delta=delta)
    nodes = [_node(plan, name, records, keys[name]) for name, records in parties.items()]
    rounds = Rounds(Threads(nodes), sizes, agreement=AGREED, sign=_signer(keys[SERVER]))
    return train_statistics(plan, rounds)


def _node(
    plan: StatisticsPlan, name: str, records: LabelledRecords, key: Ed25519PrivateKey
) -> Node:
    guard, ciphers = CountingGuard(1), FreshCiphers()
    client = Client(name, len(records), records, plan.tasks, guard, ciphers, None, AGREED)
    stages = {stage.name: stage for stage in plan.stages}
    return Node(client, secure=SecureMember(stages, _signer(key), AttemptsInMemory()))


def _signer(key: Ed25519PrivateKey) -> Signer:
    return lambda text: key.sign(text.encode())
