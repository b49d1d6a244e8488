"""Federations of equal clients that learn a classifier, then a surrogate of one, with DP-SGD."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from experiments.lib.adapted_norm import AdaptedNorm, fit_with_adapted_norm
from experiments.lib.datasets import loaders
from voile import datasets
from voile.attribution.coalitions import uniform_sizes
from voile.attribution.fastshap import Surrogate, exact_values
from voile.attribution.fastshap.encoding import Encoding
from voile.attribution.fastshap.surrogate import CoalitionLoss
from voile.attribution.players import Players
from voile.core.guarantee import Relation
from voile.core.randomness import Seeded
from voile.datasets import Dataset
from voile.evaluation import cosine_similarity
from voile.privacy.calibration import NoisyStage, dp_sgd_noise
from voile.training import (
    Array,
    Batch,
    Distance,
    Loss,
    Perceptron,
    Softmax,
    TargetLoss,
    TrainingPlan,
    arrays_of,
    divergence,
    fit,
    perceptron,
    squared_distance,
    with_arrays,
)
from voile.training.private import Adam, Prepare, PrivateSteps, fit_privately

HIDDEN: Final[Mapping[str, tuple[int, ...]]] = {"classifier": (64,), "surrogate": (64, 64)}
LINES: Final = 8
EPSILON, DELTA = 1.0, 1e-5
BATCH, STEPS, PARTICIPATIONS = 300, 80, 2
RATES: Final = {"classifier": 0.1, "surrogate": 0.02}
COOLING: Final = {"classifier": 0.1, "surrogate": 1.0}
LOSSES: Final[Mapping[str, Distance]] = {"divergence": divergence, "squared": squared_distance}
HELD_OUT, JUDGED = 4_000, 40
CLIENTS: Final[Mapping[str, Mapping[int, int]]] = {
    "adult": {1_000: 8, 5_000: 8, 20_000: 2},
    "clinic": {1_000: 8, 5_000: 8, 20_000: 2},
}
HEAD: Final = Softmax()


@dataclass(frozen=True)
class Way:
    """How gradients are kept short: a loss, and a norm that is fixed or adapted."""

    loss: str
    norm: float
    share: float | None = None

    def __str__(self) -> str:
        if self.share is None:
            return f"{self.loss}, norm {self.norm:g}"
        return f"{self.loss}, norm adapted to {self.share:.0%} of records"


@dataclass(frozen=True, eq=False)
class Lesson:
    """Records by client, what is made of a batch, and how a network of it is judged."""

    task: str
    clients: Sequence[Batch]
    width: int
    players: int

    def prepare(self, draw: np.random.Generator) -> Prepare | None:
        if self.task == "classifier":
            return None

        def fresh(batch: Batch) -> Batch:
            return *batch, uniform_sizes(draw, (len(batch[0]), LINES), self.players)

        return fresh


@dataclass(frozen=True, eq=False)
class Case:
    """One data set: clients' rows, rows held out, and a classifier that the surrogate imitates."""

    data: Dataset
    size: int
    clients: int

    @cached_property
    def encoding(self) -> Encoding:
        return Encoding.around_defaults(self.data.schema)

    @cached_property
    def players(self) -> Players:
        return Players.from_groups(self.data.schema.feature_names, None)

    @cached_property
    def columns(self) -> Array:
        return self.encoding.columns(self.data.rows)

    @cached_property
    def labels(self) -> Array:
        return np.eye(2, dtype=np.float32)[self.data.labels.astype(np.intp)]

    @cached_property
    def box(self) -> Perceptron:
        """A classifier trained without privacy on everything but the rows held out."""
        draw = np.random.default_rng(1)
        made = perceptron(self.encoding.width, HIDDEN["classifier"], 2, draw)
        records = self.columns[HELD_OUT:], self.labels[HELD_OUT:]
        fit(made, _batches(records, draw), self.loss("classifier", "divergence"), _PLAN)
        return made

    @cached_property
    def answers(self) -> Array:
        return HEAD.outputs(self.box(self.columns))

    def surrogate(self, network: Perceptron) -> Surrogate:
        schema = self.data.schema
        return Surrogate(
            self.encoding, self.players, HEAD, network, schema.feature_names, ("no", "yes"), schema
        )

    @cached_property
    def reference(self) -> NDArray[np.float64]:
        """Shapley values of a surrogate trained without privacy."""
        draw = np.random.default_rng(2)
        width = self.encoding.width + self.players.count
        made = perceptron(width, HIDDEN["surrogate"], 2, draw)
        records = self.columns[HELD_OUT:], self.answers[HELD_OUT:]
        fresh: Any = self.lesson("surrogate").prepare(draw)
        more = _batches(records, draw)
        fit(made, lambda: fresh(more()), self.loss("surrogate", "divergence"), _PLAN)
        return self.values(made)

    def values(self, network: Perceptron) -> NDArray[np.float64]:
        found = exact_values(self.surrogate(network), self.data.rows[:JUDGED])
        return np.asarray(found.values[..., 1])

    def lesson(self, task: str) -> Lesson:
        targets = self.labels if task == "classifier" else self.answers
        starts = range(HELD_OUT, HELD_OUT + self.size * self.clients, self.size)
        parts = [slice(start, start + self.size) for start in starts]
        clients = [(self.columns[part], targets[part]) for part in parts]
        extra = 0 if task == "classifier" else self.players.count
        return Lesson(task, clients, self.encoding.width + extra, self.players.count)

    def loss(self, task: str, name: str) -> Loss:
        if task == "classifier":
            return TargetLoss(HEAD, LOSSES[name])
        width = self.encoding.width + self.players.count
        blank = self.surrogate(perceptron(width, (), 2, np.random.default_rng(0)))
        return CoalitionLoss(blank, LOSSES[name])

    def judge(self, task: str, network: Perceptron) -> dict[str, float]:
        """Figures on rows held out."""
        if task == "surrogate":
            return {"cosine": float(cosine_similarity(self.values(network), self.reference).mean())}
        logits = network(self.columns[:HELD_OUT])
        losses = divergence.values(HEAD, logits, self.labels[:HELD_OUT])
        right = logits.argmax(1) == self.labels[:HELD_OUT].argmax(1)
        return {"accuracy": float(right.mean()), "loss": float(losses.mean())}


@cache
def case(name: str, size: int) -> Case:
    """Equal clients; rows in random order, those held out first."""
    clients = CLIENTS[name][size]
    if name == "adult":
        data = loaders.adult()
    else:
        wanted = HELD_OUT + size * clients
        data = datasets.clinic_federation(wanted // 8 + 1, correlation=0.3, seed=7).together()
    order = np.random.default_rng(0).permutation(len(data))
    return Case(data.take(order), size, clients)


def trained(given: Case, task: str, way: Way | None, seed: int) -> Perceptron:
    """One federation, averaged after each round; without a way, without privacy."""
    lesson, rate = given.lesson(task), min(max(BATCH / given.size, 0.02), 0.25)
    stage = NoisyStage(rate, STEPS * PARTICIPATIONS)
    noise = dp_sgd_noise([stage], epsilon=EPSILON, delta=DELTA, relation=Relation.BLANK_ONE)
    source = Seeded(seed)
    network = perceptron(lesson.width, HIDDEN[task], 2, np.random.default_rng(seed))
    promise = PrivateSteps(
        clipping_norm=1e6 if way is None else way.norm,
        noise_multiplier=1e-9 if way is None else noise,
        sampling_rate=rate,
        steps=STEPS,
        rows=given.size,
    )
    loss = given.loss(task, "divergence" if way is None else way.loss)
    rounds = list(_rounds(given.clients, source.generator()))
    for number, chosen in enumerate(rounds):
        before, changes = arrays_of(network), []
        cooled = RATES[task] * COOLING[task] ** (number / max(len(rounds) - 1, 1))
        for client in chosen:
            made = with_arrays(before)
            about: dict[str, Any] = {
                "optimiser": Adam(cooled),
                "source": source,
                "prepare": lesson.prepare(source.generator()),
            }
            rows = lesson.clients[client]
            if way is None or way.share is None:
                fit_privately(made, rows, loss, promise, **about)
            else:
                norm = _adapted(way, way.share, noise, rate * given.size)
                fit_with_adapted_norm(made, rows, loss, promise, norm, **about)
            changes.append(arrays_of(made))
        network = with_arrays({n: np.mean([c[n] for c in changes], axis=0) for n in before})
    return network


def _adapted(way: Way, share: float, noise: float, batch: float) -> AdaptedNorm:
    """A count whose noise is a tenth of a batch, or more where that would cost too much."""
    return AdaptedNorm(start=way.norm, count_noise=max(2 * noise, batch / 10), share=share)


def _rounds(clients: int, draw: np.random.Generator) -> Iterator[NDArray[np.intp]]:
    """Every client takes part twice, in at most eight rounds."""
    rounds = min(8, clients)
    each = [draw.permutation(clients) for _ in range(PARTICIPATIONS)]
    yield from np.concatenate(each).reshape(rounds, -1)


def _batches(records: Batch, draw: np.random.Generator) -> Any:
    def more() -> Batch:
        places = draw.integers(0, len(records[0]), _PLAN.batch_rows)
        return tuple(part[places] for part in records)

    return more


_PLAN: Final = TrainingPlan(steps=2_000, batch_rows=256, peak_rate=5e-3)
