"""Other private learners at the same epsilon: DP-EBM of interpret, and voile's own network.

DP-EBM gets bounds and levels from the schema, which is public, so that all of its budget goes into
learning. It is fitted at its default learning rate and at others; the best of them is chosen on the
test rows, in its favour.
"""

from __future__ import annotations

import importlib.util
import warnings
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from experiments.private_statistics.setting import DELTA, Data, scored
from voile.core.guarantee import Protected, ProtectedUnit, Relation
from voile.core.randomness import Seeded
from voile.core.schema import Categories, Numbers, Schema
from voile.federation.messages import Instruction
from voile.pipelines.facts import FederationFacts, classifier_training
from voile.pipelines.network_task import NetworkTask
from voile.pipelines.objectives import BLACK_BOX, LearnLabels
from voile.pipelines.tables import NetworkModel, OutputHead, TableRecords
from voile.privacy.calibration import dp_sgd_noise

RATE: Final = 0.01
"""The default learning rate of DP-EBM."""
RATES: Final = (RATE, 0.05, 0.2, 0.5)
Places = NDArray[np.intp]
Scores = tuple[float, float]
"""Area under the curve, log-loss."""


def is_installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def dp_ebm_of(schema: Schema, epsilon: float, rate: float) -> Any:
    """An unfitted DP-EBM that knows the schema."""
    from interpret.privacy import (  # type: ignore[import-not-found]
        DPExplainableBoostingClassifier,
    )

    domains = [feature.domain for feature in schema.features]
    return DPExplainableBoostingClassifier(
        feature_types=[
            "nominal" if isinstance(domain, Categories) else "continuous" for domain in domains
        ],
        privacy_bounds={
            place: (float(domain.lower), float(domain.upper))
            for place, domain in enumerate(domains)
            if isinstance(domain, Numbers)
        },
        epsilon=epsilon,
        delta=DELTA,
        learning_rate=rate,
        n_jobs=1,
    )


def dp_ebm_scores(data: Data, seed: int, epsilon: float) -> dict[float, Scores]:
    """By learning rate."""
    train, test = data.split(seed)
    found = {}
    for rate in RATES:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = dp_ebm_of(data.schema, epsilon, rate)
            model.fit(data.rows[train], data.labels[train].astype(int))
            chances = model.predict_proba(data.rows[test])[:, 1]
        found[rate] = scored(data.labels[test], chances)
    return found


def network_scores(data: Data, seed: int, epsilon: float) -> Scores:
    """The network of `voile federate` at one client, by DP-SGD, with the frozen rule of training.

    It gets the whole budget, with nothing left for a surrogate: privacy-loss distributions of a
    fixed plan, the tightest accounting there is.
    """
    train, test = data.split(seed)
    rows, labels = data.rows[train], data.labels[train]
    records = TableRecords(data.schema, rows, labels, np.zeros(len(rows), dtype=bool))
    relation = Relation.BLANK_ONE
    protected = Protected(ProtectedUnit.ROW, relation, data.schema.name)
    facts = FederationFacts(data.schema, {"all": len(rows)}, protected)
    training = classifier_training(facts, hidden=(64,))
    noise = dp_sgd_noise(
        [facts.noisy_stage(training)], epsilon=epsilon, delta=DELTA, relation=relation
    )
    task = NetworkTask(LearnLabels(data.schema), training, noise, relation)
    arrays = task.start(seed)
    for number in range(1, facts.rounds + 1):
        source = Seeded(1000 * seed + number)
        step = task.fit(Instruction(BLACK_BOX, number, arrays), records, len(rows), source)
        arrays = {name: array + step.change[name] for name, array in arrays.items()}
    head = OutputHead.of_label(data.schema)
    model = NetworkModel.from_arrays(data.schema, head, arrays)
    return scored(data.labels[test], model.predict(data.rows[test])[:, 1])
