"""Random forests, which have no parameters that could be added up: a trust-weighted ensemble.

Every party grows a forest on its own rows and sends it **in clear**; the common model is the mean
of all forests' probabilities, weighted by trust. There is no secure sum and no guarantee: a tree
holds thresholds taken from rows, and leaves that say which label a single row has. Whoever needs
privacy trains one of the other models.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from voile.attribution import TreeShapley
from voile.core.errors import InvalidInput
from voile.core.optional import optional
from voile.core.row_note import KnownNote
from voile.core.schema import Categories, Rows
from voile.pipelines.tables import TableRecords
from voile.pipelines.trusted_averaging.history import Score, TrustHistory, recomputed_trust
from voile.pipelines.trusted_averaging.importance import MOST_ROWS, shares_of
from voile.pipelines.trusted_averaging.plan import EXACT
from voile.pipelines.trusted_averaging.protocol import ComparisonRows
from voile.pipelines.trusted_averaging.trust import TrustRule, rewards_of, weights_of

IN_CLEAR: Final = "local forests are sent in clear: no secure sum, no guarantee"


@dataclass(frozen=True)
class ForestSettings:
    """How a party grows its forest, and how often."""

    trees: int = 50
    depth: int = 10
    rounds: int = 10

    def __post_init__(self) -> None:
        if min(self.trees, self.depth, self.rounds) < 1:
            raise InvalidInput("a forest has at least one tree of at least one level, in one round")


@dataclass(frozen=True, eq=False)
class WeightedForests:
    """The mean of forests, weighted."""

    forests: Mapping[str, Any] = field(repr=False)
    weights: Mapping[str, float]
    labels: int

    def predict(self, rows: Rows) -> NDArray[np.float64]:
        """Probabilities of the labels, (n, labels)."""
        found = np.zeros((len(rows), self.labels))
        for name, weight in self.weights.items():
            if weight > 0:
                found += weight * probabilities(self.forests[name], rows, self.labels)
        return found


@dataclass(frozen=True, eq=False)
class TrustedForests:
    """What came of all rounds: the last ensemble, everybody's record, figures by round."""

    ensembles: tuple[WeightedForests, ...] = field(repr=False)
    history: TrustHistory

    @property
    def model(self) -> WeightedForests:
        return self.ensembles[-1]

    @property
    def notes(self) -> tuple[str, ...]:
        return (KnownNote.NOT_PRIVATE, IN_CLEAR, EXACT)


def train_forests(
    records: Mapping[str, TableRecords],
    public: ComparisonRows,
    *,
    rule: TrustRule | None = None,
    settings: ForestSettings | None = None,
    seed: int = 0,
) -> TrustedForests:
    """Grow forests in this process, round by round, and weigh them by trust.

    Args:
        records: of each party.
        public: on which forests are compared.
        rule: trust and weights.
        settings: trees, depth, rounds.
        seed: which random numbers; nothing here is private.
    """
    agreed, chosen = rule or TrustRule(), settings or ForestSettings()
    grower = _Grower(dict(sorted(records.items())), public, chosen, seed)
    history, ensembles = TrustHistory(), []
    for number in range(1, chosen.rounds + 1):
        forests = grower.forests(number)
        shares = {name: grower.shares(forest) for name, forest in forests.items()}
        accuracies = {name: grower.accuracy(forest) for name, forest in forests.items()}
        before = history.trusts(list(forests))
        common = np.sum([before[n] * shares[n] for n in forests], axis=0) / sum(before.values())
        found = {name: agreed.divergence.between(shares[name], common) for name in forests}
        trusts = {
            name: recomputed_trust(agreed, history.accuracies(name), accuracies[name], found[name])
            for name in forests
        }
        weights, rewards = weights_of(agreed, trusts, found), rewards_of(trusts)
        scores = {
            n: Score(number, accuracies[n], found[n], trusts[n], weights.shares[n], rewards[n])
            for n in forests
        }
        history = history.after(scores, common.tolist(), equal=weights.equal)
        ensembles.append(WeightedForests(forests, weights.shares, grower.labels))
    return TrustedForests(tuple(ensembles), history)


@dataclass(frozen=True, eq=False)
class _Grower:
    records: Mapping[str, TableRecords]
    public: ComparisonRows
    settings: ForestSettings
    seed: int

    @cached_property
    def labels(self) -> int:
        label = next(iter(self.records.values())).schema.label
        if label is None or not isinstance(label.domain, Categories):
            raise InvalidInput("trust is about right and wrong: the label must be a category")
        return len(label.domain.values)

    def forests(self, number: int) -> dict[str, Any]:
        ensemble: Any = optional("sklearn.ensemble", extra="explain")
        found = {}
        for place, (name, records) in enumerate(self.records.items()):
            own = records.readable()
            forest = ensemble.RandomForestClassifier(
                n_estimators=self.settings.trees,
                max_depth=self.settings.depth,
                random_state=int(np.random.default_rng([self.seed, number, place]).integers(2**31)),
            )
            found[name] = forest.fit(own.rows, own.labels.astype(int))
        return found

    def shares(self, forest: Any) -> NDArray[np.float64]:
        """Mean absolute tree Shapley values over public rows, as shares."""
        explained = TreeShapley(forest)(self.public.rows[:MOST_ROWS].astype(np.float64))
        return shares_of(np.abs(explained.values).mean(axis=(0, 2)))

    def accuracy(self, forest: Any) -> float:
        said = probabilities(forest, self.public.rows.astype(np.float64), self.labels)
        return float(np.mean(said.argmax(axis=1) == self.public.labels))


def probabilities(forest: Any, rows: Rows, labels: int) -> NDArray[np.float64]:
    """Of all labels: a forest that never saw one says 0 for it."""
    found = np.zeros((len(rows), labels))
    found[:, forest.classes_.astype(int)] = forest.predict_proba(rows)
    return found
