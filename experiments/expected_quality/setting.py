"""Federations of generated, public data of many kinds: how much of a model survives the noise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from voile.app.federate.expectation import AttainableQuality, attainable, noise_to_signal
from voile.app.federate.kinds import KINDS
from voile.core.guarantee import Protected, ProtectedUnit, Relation
from voile.core.schema import Categories, Feature, Label, Numbers, Schema
from voile.datasets import Dataset
from voile.federation import Client, CountingGuard, Node, Rounds, Threads, Unprotected, run_pipeline
from voile.federation.client import SeededSources
from voile.pipelines.facts import FederationFacts
from voile.pipelines.tables import TableRecords

DELTA: Final = 1e-5
HELD_OUT: Final = 1_000
ROWS: Final = (60, 200, 600, 2_000)
EPSILONS: Final = (0.5, 1.0, 2.0, 4.0, 8.0)
FEATURES: Final = (4, 8, 16)
PARTIES: Final = (2, 3, 5, 8)


@dataclass(frozen=True)
class Case:
    """A federation: parties of equal size, and rows held out."""

    name: str
    parties: tuple[Dataset, ...]
    held_out: Dataset
    epsilon: float

    @property
    def sizes(self) -> dict[str, int]:
        return {f"party {number}": len(data) for number, data in enumerate(self.parties)}


@dataclass(frozen=True)
class Outcome:
    """What was found in one federation."""

    case: str
    pipeline: str
    attainable: AttainableQuality
    noise: dict[str, float]
    figures: dict[str, float]


def generated(seed: int) -> Iterator[Case]:
    """Every size with every epsilon and number of features, all else drawn."""
    for rows in ROWS:
        for epsilon in EPSILONS:
            for features in FEATURES:
                draw = np.random.default_rng([seed, rows, features, int(4 * epsilon)])
                yield invented(draw, rows, epsilon, features)


def invented(draw: np.random.Generator, rows: int, epsilon: float, features: int) -> Case:
    """A task of random difficulty and imbalance, with numbers and categories, bends and pairs."""
    schema = _schema(features, draw.random(features) < 0.3)
    parties = int(draw.choice(PARTIES))
    total = rows * parties + HELD_OUT
    values = np.column_stack([_column(feature, total, draw) for feature in schema.features])
    centred = (values - values.mean(axis=0)) / np.maximum(values.std(axis=0), 1e-9)
    weights = draw.standard_normal(features) * draw.random(features) ** 2
    score = centred @ weights + 0.5 * centred[:, 0] * centred[:, -1] * draw.standard_normal()
    score = score / max(score.std(), 1e-9) * draw.uniform(0.3, 4.0) + draw.uniform(-2.5, 2.5)
    labels = (draw.random(total) < 1 / (1 + np.exp(-score))).astype(np.float64)
    data = Dataset("generated", schema, values, labels)
    return divided(f"{features} features", data, parties, rows, epsilon)


def divided(name: str, data: Dataset, parties: int, rows: int, epsilon: float) -> Case:
    """The first rows held out, the others dealt."""
    held = len(data) - parties * rows
    places = [np.arange(held + n * rows, held + (n + 1) * rows) for n in range(parties)]
    said = f"{name}, {parties} parties of {rows} rows, epsilon {epsilon:g}"
    return Case(said, tuple(map(data.take, places)), data.take(np.arange(held)), epsilon)


def outcome(case: Case, pipeline: str, seed: int) -> Outcome:
    """Train it, as `voile federate` would."""
    held_out = TableRecords.from_dataset(case.held_out)
    facts = FederationFacts(
        schema=case.held_out.schema,
        sizes=case.sizes,
        protected=Protected(ProtectedUnit.ROW, Relation.BLANK_ONE, "generated"),
    )
    plan = KINDS[pipeline].plan(facts, epsilon=case.epsilon, delta=DELTA, hidden=None)
    guard = CountingGuard(cap=facts.cap)
    nodes = [
        Node(
            Client(
                name,
                len(data),
                TableRecords.from_dataset(data),
                plan.tasks,
                guard,
                sources=SeededSources(seed),
            )
        )
        for name, data in zip(case.sizes, case.parties, strict=True)
    ]
    rounds = Rounds(Threads(nodes, at_once=1), case.sizes)
    results = run_pipeline(plan, rounds, unprotected=Unprotected(held_out, "public"))
    found = attainable(held_out)
    assert found is not None
    noise = {stage.name: noise_to_signal(stage, case.sizes) or 0.0 for stage in plan.stages}
    figures = {
        f"{what} of the {stage}": value
        for stage, result in results.items()
        for what, value in result.figures[-1].items()
    }
    return Outcome(case.name, pipeline, found, noise, figures)


def _schema(count: int, listed: NDArray[np.bool_]) -> Schema:
    features = [
        Feature(f"x{place}", Categories(("a", "b", "c")), "a")
        if is_list
        else Feature(f"x{place}", Numbers(-3.0, 3.0), 0.0)
        for place, is_list in enumerate(listed)
    ]
    return Schema(f"generated {count}", tuple(features), Label("y", Categories(("no", "yes"))))


def _column(feature: Any, rows: int, draw: np.random.Generator) -> NDArray[np.float64]:
    if isinstance(feature.domain, Categories):
        shares = draw.dirichlet(np.ones(3))
        return draw.choice(3, size=rows, p=shares).astype(np.float64)
    return np.clip(draw.standard_normal(rows) * draw.uniform(0.3, 1.2), -3, 3)
