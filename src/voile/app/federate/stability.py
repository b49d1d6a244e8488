"""How stable single explanations are: an estimate by parametric bootstrap, which costs no privacy.

The private model takes the place of the truth. Rows are invented, each feature by itself from the
public reference rows; the private model labels them; and a model is trained again on these, with as
many rows at every party, the same plan and the same noise. It is calibrated again too, where the
private model was. How far its explanations are from those
of the private model estimates how far those are from what other noise would have given. Training
without noise is further off, because it does not clip either: experiments/stability_coverage. No
protected row is touched: all of it is post-processing.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from voile.attribution import shapley_explainer
from voile.core.randomness import Seeded
from voile.core.schema import Categories, Rows
from voile.evaluation import cosine_similarity
from voile.federation import Client, Node, NoGuard, PlainRound, Rounds, SeededSources, Threads
from voile.pipelines.calibration import Calibration, fit_calibration
from voile.pipelines.logistic_regression import LogisticPlan
from voile.pipelines.private_explainer.plan import PipelinePlan
from voile.pipelines.tables import NetworkModel, TableRecords

_EXPLAINED: Final = 10
_MOST_ROWS: Final = 200_000
"""Of all parties: beyond that it takes too long to be done unasked."""


def stability_figures(
    plan: PipelinePlan | LogisticPlan,
    box: NetworkModel,
    reference: Rows,
    runs: int,
    *,
    calibration: Calibration | None = None,
) -> dict[str, Any] | None:
    """Plain values; None where it is not estimated.

    Args:
        plan: of the run; its noise is drawn anew.
        box: the private model.
        reference: public rows.
        runs: how often a model is trained again.
        calibration: that of the private model; None if it has none.
    """
    label = None if box.schema.label is None else box.schema.label.domain
    plain = isinstance(plan.facts.protocol, PlainRound)
    if not runs or not plain or not isinstance(label, Categories):
        return None
    if sum(plan.facts.sizes.values()) > _MOST_ROWS:
        return None
    mine = _values(box, reference)
    again = (_trained_again(plan, box, reference, seed, calibration) for seed in range(runs))
    others = [_values(each, reference) for each in again]
    alike = np.array([cosine_similarity(each[:, :, -1], mine[:, :, -1]) for each in others])
    apart = np.sqrt(np.mean(np.square(np.array(others) - mine), axis=(0, 1))).max(axis=1)
    return {
        "runs": runs,
        "rows": "invented, each feature by itself from the reference rows",
        "cosine": float(alike.mean()),
        "lowest_cosine": float(alike.min()),
        "deviations": dict(zip(box.schema.feature_names, apart.tolist(), strict=True)),
    }


def _values(box: NetworkModel, reference: Rows) -> NDArray[np.float64]:
    rows = reference[:_EXPLAINED]
    explained = shapley_explainer(box, reference[: 2 * _EXPLAINED], schema=box.schema)(rows)
    return np.asarray(explained.values)


def _trained_again(
    plan: PipelinePlan | LogisticPlan,
    box: NetworkModel,
    reference: Rows,
    seed: int,
    calibration: Calibration | None,
) -> NetworkModel:
    """Seeds are no danger here: nothing that is protected goes in."""
    draw = np.random.default_rng([seed, 1])
    clients = [
        Client(
            name,
            size,
            _invented(box, reference, size, draw),
            plan.tasks,
            NoGuard(),
            SeededSources(seed),
        )
        for name, size in plan.facts.sizes.items()
    ]
    rounds = Rounds(
        Threads([Node(client) for client in clients], at_once=1),
        plan.facts.sizes,
        source=Seeded(seed),
    )
    stage = plan.stages[0]  # the one that trains the model
    arrays = rounds.run(stage, plan.start(stage.name)).arrays
    again = NetworkModel.from_arrays(box.schema, box.output_head, arrays)
    if calibration is None:
        return again
    rows = _invented(box, reference, calibration.rows, draw)
    found = fit_calibration(again, rows, expected_slope=calibration.expected_slope)
    return again if found is None else found.apply(again)


def _invented(
    box: NetworkModel, reference: Rows, count: int, draw: np.random.Generator
) -> TableRecords:
    columns = [column[draw.integers(0, len(column), count)] for column in reference.T]
    rows = np.column_stack(columns)
    reached = np.cumsum(np.asarray(box.predict(rows), float), axis=1)
    labels = (draw.uniform(size=(count, 1)) > reached[:, :-1]).sum(axis=1).astype(float)
    return TableRecords(box.schema, rows, labels, np.zeros(count, dtype=bool))
