"""One federation, trained many times with other noise, and the ± that each of its pages shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from voile.app.federate.kinds import DEFAULT, KINDS
from voile.app.federate.stability import stability_figures
from voile.attribution import shapley_explainer
from voile.core.guarantee import Protected, Relation
from voile.core.randomness import Seeded
from voile.core.schema import Rows, Schema
from voile.datasets import Dataset, clinic_federation
from voile.federation import Client, Node, NoGuard, Rounds, SeededSources, Threads
from voile.pipelines.facts import FederationFacts
from voile.pipelines.network_task import CLIPPED_UNIT
from voile.pipelines.tables import NetworkModel, TableRecords

EPSILON: Final = 2.0
DELTA: Final = 1e-5
PEOPLE: Final = 20
REFERENCE: Final = 20
STABILITY_RUNS: Final = 3
"""As `voile federate` does, if it is not told otherwise."""
_TWINS: Final = 5
"""Trainings without noise: which rows make up a batch is still left to chance."""
_ELSEWHERE: Final = 2026
_FIRST: Final = 1_000
"""Of the seeds of noise: far from those of the estimate, which are small numbers."""


@dataclass(frozen=True)
class Federation:
    """Public schema, somebody's rows, public rows, and people to explain."""

    name: str
    schema: Schema
    parties: dict[str, Dataset]
    reference: Rows
    people: Rows


@dataclass(frozen=True, eq=False)
class Studied:
    """What was found in one federation.

    Args:
        values: of every run, shape (runs, people, features): contributions to the last class.
        plain: the same of models trained without noise, their mean, shape (people, features).
        deviations: what the page is told, shape (runs, features).
    """

    name: str
    features: tuple[str, ...]
    values: NDArray[np.float64]
    plain: NDArray[np.float64]
    deviations: NDArray[np.float64]


def clinic(rows: int, seed: int) -> Federation:
    """Hospitals with so many patients on average; people who were in none of them."""
    made = clinic_federation(rows, reference_rows=REFERENCE, seed=seed)
    elsewhere = clinic_federation(50, seed=_ELSEWHERE + seed).together()
    people = elsewhere.rows[:: len(elsewhere) // PEOPLE][:PEOPLE]
    name = f"clinics of {rows} patients"
    return Federation(name, made.schema, dict(made.hospitals), made.reference, people)


def study(federation: Federation, runs: int) -> Studied:
    """Train it again and again with other noise, estimating the ± each time."""
    plan = _plan(federation)
    boxes = [_box(federation, plan, _FIRST + run) for run in range(runs)]
    plain = [_box(federation, plan.twin(), _FIRST + run) for run in range(_TWINS)]
    found = [stability_figures(plan, box, federation.reference, STABILITY_RUNS) for box in boxes]
    names = federation.schema.feature_names
    return Studied(
        federation.name,
        names,
        np.array([_values(box, federation) for box in boxes]),
        np.mean([_values(box, federation) for box in plain], axis=0),
        np.array([[each["deviations"][name] for name in names] for each in found if each]),
    )


def _plan(federation: Federation) -> Any:
    facts = FederationFacts(
        schema=federation.schema,
        sizes={name: len(data) for name, data in federation.parties.items()},
        protected=Protected(CLIPPED_UNIT, Relation.BLANK_ONE, federation.name),
    )
    return KINDS[DEFAULT].plan(facts, epsilon=EPSILON, delta=DELTA, hidden=None)


def _box(federation: Federation, plan: Any, seed: int) -> NetworkModel:
    """The first stage, which trains what is explained, from the same parameters each time."""
    clients = [
        Client(
            name,
            len(data),
            TableRecords.from_dataset(data),
            plan.tasks,
            NoGuard(),
            SeededSources(seed),
        )
        for name, data in federation.parties.items()
    ]
    transport = Threads([Node(client) for client in clients], at_once=1)
    stage = plan.stages[0]
    rounds = Rounds(transport, plan.facts.sizes, source=Seeded(seed))
    arrays = rounds.run(stage, plan.start(stage.name)).arrays
    return NetworkModel.from_arrays(
        federation.schema, plan.objectives[stage.name].output_head, arrays
    )


def _values(box: NetworkModel, federation: Federation) -> NDArray[np.float64]:
    explain = shapley_explainer(box, federation.reference, schema=federation.schema)
    return np.asarray(explain(federation.people).values)[:, :, -1]
