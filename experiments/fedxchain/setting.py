"""Data, parties and runs of one seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from experiments.lib.datasets.loaders import scikit_learn
from experiments.lib.datasets.partitions import at_random, by_label, evenly_by_label
from experiments.lib.forests import train_forests
from voile.core.guarantee import Protected, ProtectedUnit, Relation
from voile.core.randomness import Seeded
from voile.core.schema import Categories, Feature, Label, Numbers, Schema
from voile.datasets import Dataset
from voile.federation import (
    Aggregator,
    Client,
    CountingGuard,
    FedAvg,
    Node,
    NoGuard,
    PlainRound,
    Rounds,
    SeededSources,
    Threads,
    Unprotected,
)
from voile.federation.stage import Stage
from voile.pipelines.facts import FederationFacts
from voile.pipelines.network_task import NetworkTask, Training
from voile.pipelines.objectives import LearnLabels
from voile.pipelines.tables import NetworkModel, OutputHead, TableRecords
from voile.pipelines.trusted_averaging import (
    STAGE,
    ComparisonRows,
    ImportanceDesign,
    TrustHistory,
    TrustRule,
    plan_trusted_averaging,
    shares_of,
    train_trusted,
)

BREAST_CANCER, SYNTHETIC, LARGE = "breast cancer", "synthetic", "synthetic, 20,000 rows"
LOGISTIC, PERCEPTRON, FOREST = "logistic regression", "perceptron (64, 32)", "random forest"
RATES: Final = {LOGISTIC: 0.1, PERCEPTRON: 0.03}
HIDDEN: Final = {LOGISTIC: (), PERCEPTRON: (64, 32)}
TEST, COMPARED = 0.2, 60
IID: Final = None


@lru_cache(maxsize=4)
def table(name: str) -> Dataset:
    if name == BREAST_CANCER:
        return scikit_learn("breast_cancer")
    from sklearn.datasets import make_classification

    rows = 20_000 if name == LARGE else 1_000
    values, labels = make_classification(
        rows, 20, n_informative=10, n_redundant=4, class_sep=1.0, random_state=7
    )
    features = tuple(Feature(f"x{i:02}", Numbers(-20, 20), 0.0) for i in range(20))
    schema = Schema(name, features, Label("class", Categories(("no", "yes"))))
    return Dataset(name, schema, values, labels.astype(np.float64))


@dataclass(frozen=True)
class Case:
    """One federation: everything a run depends on besides how it is trained."""

    data: str = BREAST_CANCER
    model: str = LOGISTIC
    seed: int = 0
    alpha: float | None = 0.5
    clients: int = 10
    rounds: int = 10

    @cached_property
    def split(self) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
        """Rows to measure on, to compare models on, to train on."""
        count = len(table(self.data).rows)
        order = np.random.default_rng([self.seed, count]).permutation(count)
        test = int(TEST * count)
        return order[:test], order[test : test + COMPARED], order[test + COMPARED :]

    @cached_property
    def schema(self) -> Schema:
        """Bounds from the public rows alone: three standard deviations around their mean."""
        found = table(self.data)
        rows = found.rows[self.split[1]]
        mean, spread = rows.mean(axis=0), np.maximum(rows.std(axis=0), 1e-6)
        features = tuple(
            replace(f, domain=Numbers(float(m - 3 * s), float(m + 3 * s)), default=float(m))
            for f, m, s in zip(found.schema.features, mean, spread, strict=True)
        )
        return replace(found.schema, features=features)

    def records(self, places: NDArray[np.intp]) -> TableRecords:
        found = table(self.data)
        return TableRecords.from_dataset(
            Dataset(self.data, self.schema, found.rows[places], found.labels[places])
        )

    @cached_property
    def parties(self) -> dict[str, TableRecords]:
        train = self.split[2]
        labels = table(self.data).labels[train]
        if self.alpha is IID:
            parts = at_random(len(train), self.clients, seed=self.seed)
        elif self.clients > 100:  # no Dirichlet draw gives each of so many a row
            parts = evenly_by_label(labels, self.clients, alpha=self.alpha, seed=self.seed)
        else:
            few = 2 if self.clients > 10 else 4
            parts = by_label(labels, self.clients, alpha=self.alpha, seed=self.seed, fewest=few)
        return {name: self.records(train[places]) for name, places in parts.clients.items()}

    @cached_property
    def compared(self) -> ComparisonRows:
        found = self.records(self.split[1])
        return ComparisonRows(found.rows, found.labels)

    @cached_property
    def measured(self) -> TableRecords:
        return self.records(self.split[0])

    @property
    def facts(self) -> FederationFacts:
        sizes = {name: len(found) for name, found in self.parties.items()}
        protected = Protected(ProtectedUnit.ROW, Relation.BLANK_ONE, self.data)
        return FederationFacts(self.schema, sizes, protected, rounds=self.rounds)

    def training(self, proximal: float = 0.0) -> Training:
        """Five local epochs in batches of 32, as published; Adam for both models."""
        rate = min(1.0, 32 / self.facts.rows_per_client)
        return Training(
            hidden=HIDDEN[self.model],
            sampling_rate=rate,
            epochs=5,
            rate=RATES[self.model],
            proximal=proximal,
        )


@dataclass(frozen=True)
class Outcome:
    """What one run reached, as plain values.

    Args:
        accuracy, f1: on rows held out, after each round and after the last.
        divergence: mean over parties, of each round.
        trust: mean over parties, of each round.
        importance: shares of the final model over the public rows.
        backdoor: share of rows with the trigger that the final model gives the attackers' label.
    """

    accuracy: tuple[float, ...]
    f1: float
    divergence: tuple[float, ...] = ()
    trust: tuple[float, ...] = ()
    rewards: tuple[tuple[float, float], ...] = ()
    importance: tuple[float, ...] = ()
    backdoor: float | None = None
    equal_rounds: int = 0

    @property
    def final(self) -> float:
        return self.accuracy[-1]


@dataclass(frozen=True)
class Change:
    """What some parties do otherwise: their records, their tasks, their nodes."""

    records: Callable[[str, TableRecords], TableRecords] = lambda _, found: found
    tasks: Callable[[str, Mapping[str, Any]], Mapping[str, Any]] = lambda _, found: found
    node: Callable[[Node], Any] = lambda node: node
    judge: Callable[[Case, NetworkModel], float] | None = field(default=None)


HONEST: Final = Change()


def clients_of(
    case: Case, tasks: Mapping[str, Any], change: Change, *, private: bool = False, draws: int
) -> list[Any]:
    guard: Any = CountingGuard(case.rounds) if private else NoGuard()
    return [
        change.node(
            Node(
                Client(
                    name,
                    len(found),
                    change.records(name, found),
                    change.tasks(name, tasks),
                    guard,
                    SeededSources(draws),
                )
            )
        )
        for name, found in case.parties.items()
    ]


def trusted(
    case: Case,
    *,
    rule: TrustRule | None = None,
    change: Change = HONEST,
    epsilon: float | None = None,
    local: Callable[[Any], Any] | None = None,
    training: Training | None = None,
    measured: bool = False,
    draws: int | None = None,
) -> Outcome:
    """Our rounds; without privacy unless an epsilon is given (utility only: noise is seeded).

    `draws` seeds what parties draw; as the split, if None.
    """
    chosen = training or case.training()
    plan = plan_trusted_averaging(
        case.facts,
        epsilon=epsilon,
        delta=1e-5,
        training=chosen,
        rule=rule or TrustRule(),
        verified=measured,
    )
    tasks: dict[str, Any] = dict(plan.tasks)
    if local is not None:
        tasks[STAGE] = local(plan.local)
    seed = case.seed if draws is None else draws
    members = clients_of(case, tasks, change, private=epsilon is not None, draws=seed)
    rounds = Rounds(Threads(members), plan.facts.sizes, source=Seeded(case.seed))
    found = train_trusted(
        plan, rounds, public=case.compared, unprotected=Unprotected(case.measured, "held out")
    )
    result = found.results[STAGE]
    return outcome(
        case, found.model, [f["accuracy"] for f in result.figures], found.history, change
    )


def verified(case: Case, **settings: Any) -> Outcome:
    """Trust that the server measures itself."""
    return trusted(case, measured=True, **settings)


def averaged(
    case: Case,
    *,
    aggregator: Aggregator | None = None,
    proximal: float = 0.0,
    change: Change = HONEST,
) -> Outcome:
    """FedAvg, FedProx or a robust rule, in a plain round; the same training otherwise."""
    task = NetworkTask(LearnLabels(case.schema), case.training(proximal), None)
    count = len(case.parties)
    protocol = PlainRound(aggregator or FedAvg())
    stage = Stage(STAGE, task, case.rounds, count, case.rounds, protocol)
    members = clients_of(case, {STAGE: task}, change, draws=case.seed)
    rounds = Rounds(Threads(members), case.facts.sizes, source=Seeded(case.seed))
    result = rounds.run(stage, task.start(0), unprotected=Unprotected(case.measured, "held out"))
    model = NetworkModel.from_arrays(case.schema, OutputHead.of_label(case.schema), result.arrays)
    return outcome(case, model, [f["accuracy"] for f in result.figures], None, change)


def forests(case: Case, rule: TrustRule | None = None) -> Outcome:
    found = train_forests(case.parties, case.compared, rule=rule, seed=case.seed)
    rows, labels = case.measured.rows, case.measured.labels
    said = [each.predict(rows).argmax(axis=1) for each in found.ensembles]
    accuracy = tuple(float(np.mean(each == labels)) for each in said)
    return with_history(Outcome(accuracy, macro_f1(said[-1], labels)), found.history)


def outcome(
    case: Case,
    model: NetworkModel,
    accuracy: list[float],
    history: TrustHistory | None,
    change: Change,
) -> Outcome:
    said = model.predict(case.measured.rows).argmax(axis=1)
    shares = shares_of(ImportanceDesign.from_rows(case.schema, case.compared.rows).strengths(model))
    found = Outcome(
        tuple(accuracy),
        macro_f1(said, case.measured.labels),
        importance=tuple(shares.tolist()),
        backdoor=None if change.judge is None else change.judge(case, model),
    )
    return found if history is None else with_history(found, history)


def with_history(found: Outcome, history: TrustHistory) -> Outcome:
    numbers = [row.round for row in history.common]
    by_round = {
        n: [s for rows in history.scores.values() for s in rows if s.round == n] for n in numbers
    }
    return replace(
        found,
        divergence=tuple(float(np.mean([s.divergence for s in by_round[n]])) for n in numbers),
        trust=tuple(float(np.mean([s.trust for s in by_round[n]])) for n in numbers),
        rewards=tuple((s.trust, s.reward) for n in numbers for s in by_round[n]),
        equal_rounds=len(history.equal),
    )


def macro_f1(said: NDArray[Any], labels: NDArray[Any]) -> float:
    found = []
    for label in np.unique(labels):
        both = float(np.sum((said == label) & (labels == label)))
        found.append(2 * both / max(float(np.sum(said == label) + np.sum(labels == label)), 1.0))
    return float(np.mean(found))
