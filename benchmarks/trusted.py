"""What trust costs: a trusted round beside a FedAvg round, growth to 500 parties, gas of an anchor.

A trusted round trains as a FedAvg round does, explains every local model on 60 public rows, and has
four exchanges; in secret, two of them are secure sums. Training is the same in both, so the ratio
is what trust and secrecy add. Growth is measured with a logistic regression that is trained for one
step, so that the rounds themselves are seen: time for each party, beside that of ten parties. From
100 parties on, masks are shared along a sparse graph.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from benchmarks.harness import Figure, alternate, compare, write
from voile.core.guarantee import Protected, ProtectedUnit, Relation
from voile.core.randomness import Seeded
from voile.core.schema import Categories, Feature, Label, Numbers, Schema
from voile.datasets import Dataset
from voile.federation import (
    Client,
    FedAvg,
    Node,
    NoGuard,
    PlainRound,
    Rounds,
    SecureMember,
    SecureSum,
    SeededSources,
    Stage,
    Threads,
)
from voile.federation.secure_aggregation import (
    AttemptsInMemory,
    HonestButCurious,
    Signer,
    sparse_for,
)
from voile.pipelines.facts import FederationFacts
from voile.pipelines.network_task import Training
from voile.pipelines.tables import TableRecords
from voile.pipelines.trusted_averaging import (
    REPORTED,
    STAGE,
    ComparisonRows,
    TrustedPlan,
    plan_trusted_averaging,
    train_trusted,
)
from voile.records.audit_log.anchor import origin_digest, shipped_contract

SEED, FEATURES, ROWS, PUBLIC = 0, 20, 400, 60
AGREED = "00" * 32
FULL = Training(hidden=(64, 32), sampling_rate=32 / ROWS, epochs=5, rate=0.01)
ONE_STEP = Training(hidden=(), sampling_rate=32 / ROWS, epochs=32 / ROWS, rate=0.01)


def run() -> None:
    figures = [*rounds(), *growth(), *gas()]
    peer = "a FedAvg round of the same parties; ten parties; or nothing"
    write(
        "trusted", peer, figures, seed=SEED, unit="CPU time of one process; gas of an EVM (py-evm)"
    )


# --- federations ----------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _rows() -> tuple[Schema, TableRecords, ComparisonRows]:
    """One table that every party has a copy of: only time is looked at."""
    draw = np.random.default_rng(SEED)
    schema = Schema(
        "generated",
        tuple(Feature(f"x{i:02}", Numbers(-4, 4), 0.0) for i in range(FEATURES)),
        Label("class", Categories(("no", "yes"))),
    )
    values = draw.normal(size=(ROWS + PUBLIC, FEATURES))
    labels = (values[:, :5].sum(axis=1) > 0).astype(np.float64)
    records = TableRecords.from_dataset(Dataset("generated", schema, values[:ROWS], labels[:ROWS]))
    return schema, records, ComparisonRows(values[ROWS:], labels[ROWS:])


@lru_cache(maxsize=1024)
def _key(name: str) -> Ed25519PrivateKey:  # noqa: ARG001
    return Ed25519PrivateKey.generate()


def _signer(name: str) -> Signer:
    return lambda text: _key(name).sign(text.encode())


def _planned(
    parties: int, training: Training, *, secret: bool, verified: bool = False
) -> TrustedPlan:
    schema, records, public = _rows()
    sizes = {f"party {i:03}": len(records) for i in range(parties)}
    protected = Protected(ProtectedUnit.ROW, Relation.BLANK_ONE, "generated")
    facts = FederationFacts(schema, sizes, protected, rounds=1)
    if secret:
        identities = {n: _key(n).public_key().public_bytes_raw() for n in (*sizes, "server")}
        model = HonestButCurious()
        if parties >= 100:
            model = HonestButCurious(
                colluders=parties // 20,
                graph=sparse_for(parties, colluders=parties // 20, dropouts=parties // 20),
            )
        facts = replace(facts, protocol=SecureSum(model, identities, sizes))
    plan = plan_trusted_averaging(
        facts, epsilon=None, delta=1e-5, training=training, verified=verified
    )
    return plan.comparing_on(public)


def _trusted(plan: TrustedPlan) -> float:
    """CPU seconds of one round."""
    _, records, _ = _rows()
    nodes = [
        Node(
            Client(n, s, records, plan.tasks, NoGuard(), SeededSources(SEED), agreement=AGREED),
            secure=_member(plan, n),
        )
        for n, s in plan.facts.sizes.items()
    ]
    over = Rounds(
        Threads(nodes),
        plan.facts.sizes,
        source=Seeded(SEED),
        agreement=AGREED,
        sign=_signer("server"),
    )
    begin = time.process_time()
    found = train_trusted(plan, over)
    spent = time.process_time() - begin
    assert len(found.history.scores) == len(nodes)
    return spent


def _member(plan: TrustedPlan, name: str) -> SecureMember | None:
    if not isinstance(plan.summing, SecureSum):
        return None
    return SecureMember(plan.summed_stages, _signer(name), AttemptsInMemory(), in_clear=REPORTED)


def _averaged(parties: int, training: Training) -> float:
    plan = _planned(parties, training, secret=False, verified=True)
    task: Any = plan.tasks[STAGE]
    _, records, _ = _rows()
    stage = Stage(STAGE, task, 1, parties, 1, PlainRound(FedAvg()))
    nodes = [
        Node(Client(n, s, records, {STAGE: task}, NoGuard(), SeededSources(SEED)))
        for n, s in plan.facts.sizes.items()
    ]
    over = Rounds(Threads(nodes), plan.facts.sizes, source=Seeded(SEED))
    begin = time.process_time()
    over.run(stage, task.start(0))
    return time.process_time() - begin


def rounds() -> list[Figure]:
    """Ten parties, five local epochs of 400 rows, a perceptron (64, 32)."""
    plans = {
        "in clear, reported": _planned(10, FULL, secret=False),
        "in clear, measured": _planned(10, FULL, secret=False, verified=True),
        "in secret": _planned(10, FULL, secret=True),
    }
    runs: list[Callable[[], float]] = [partial(_trusted, plan) for plan in plans.values()]
    *ours, peer = alternate([*runs, partial(_averaged, 10, FULL)])
    return [
        compare(f"trusted round of 10, {way}", "s", spent, peer, at_most=limit)
        for (way, spent), limit in zip(zip(plans, ours, strict=True), (2.0, 2.0, None), strict=True)
    ]


def growth() -> list[Figure]:
    found = []
    for way, secret in (("in clear", False), ("in secret", True)):
        counts = (10, 100, 500)
        plans = [_planned(count, ONE_STEP, secret=secret) for count in counts]
        repeated = {"rounds": 1, "warm_up": 0} if secret else {"rounds": 3, "warm_up": 1}
        spent = alternate([partial(_trusted, plan) for plan in plans], **repeated)
        few, *others = (1e3 * each / count for each, count in zip(spent, counts, strict=True))
        found.append(Figure(f"one party of a trusted round of 10, {way}", "ms", few, None, None))
        found += [
            compare(
                f"one party of a trusted round of {count}, {way}", "ms", each, few, at_most=limit
            )
            for count, each, limit in zip(
                counts[1:], others, (None, None if secret else 3.0), strict=True
            )
        ]
    return found


# --- anchors --------------------------------------------------------------------------------------


def gas() -> list[Figure]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from web3 import EthereumTesterProvider, Web3

        node: Any = Web3(EthereumTesterProvider())
    payer, shipped = node.eth.accounts[0], shipped_contract()
    made = node.eth.contract(abi=shipped.abi, bytecode=shipped.bytecode).constructor()
    deployed = node.eth.get_transaction_receipt(made.transact({"from": payer}))
    contract = node.eth.contract(address=deployed["contractAddress"], abi=shipped.abi)
    draw = np.random.default_rng(SEED)

    def anchored(size: int) -> float:
        said = (origin_digest("example.org/clinic"), size, draw.bytes(32))
        sent = contract.functions.anchor(*said).transact({"from": payer})
        return float(node.eth.get_transaction_receipt(sent)["gasUsed"])

    first, *others = (anchored(size) for size in (10, 200, 3_000, 40_000))
    return [
        Figure("deploying the contract", "gas", float(deployed["gasUsed"]), None, None),
        Figure("first checkpoint of a log", "gas", first, None, None),
        Figure(
            "every later checkpoint, whatever its size",
            "gas",
            max(others),
            None,
            None,
            "at most 40,000",
            max(others) <= 40_000,
        ),
    ]
