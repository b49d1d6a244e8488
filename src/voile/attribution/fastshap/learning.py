"""Training an explainer of a surrogate."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from voile.attribution.fastshap.explainer import FastShap
from voile.attribution.fastshap.objectives import KernelRegression, Objective, ShapleyLoss, total
from voile.attribution.fastshap.surrogate import Surrogate
from voile.core.errors import InvalidInput
from voile.core.randomness import GeneratorSource
from voile.models import Rows
from voile.training import Array, Batch, Progress, TrainingPlan, fit, perceptron

EXPLAINER_PLAN: Final = TrainingPlan(steps=3_000, batch_rows=512, hidden=(128, 128))
OBJECTIVE: Final = KernelRegression()
HELD_OUT: Final = 1_024


def train_explainer(
    surrogate: Surrogate,
    rows: Any,
    *,
    source: GeneratorSource,
    plan: TrainingPlan = EXPLAINER_PLAN,
    objective: Objective = OBJECTIVE,
    progress: Progress | None = None,
) -> FastShap:
    """Train an explainer on rows like those it will explain; labels are not needed.

    Args:
        surrogate: what is explained.
        rows: typical rows; up to a tenth, at most 1,024, is held out for the validation loss.
        source: where randomness comes from.
        plan: how long and how hard to train.
        objective: `KernelRegression` or `NoisyLabels`.
        progress: told how far the work is.
    """
    read = surrogate.read(rows, "rows")
    if len(read) < 20:
        raise InvalidInput(f"an explainer needs at least 20 rows to learn from, found {len(read)}")
    draw = source.generator()
    order = draw.permutation(len(read))
    held = max(1, min(len(read) // 10, HELD_OUT))
    test, train = read[order[:held]], surrogate.encoding.columns(read[order[held:]])

    def more(count: int) -> Array:
        return train[draw.integers(0, len(train), count)]

    return learn(surrogate, more, test, draw, plan=plan, objective=objective, progress=progress)


def learn(
    surrogate: Surrogate,
    more: Any,
    held_out: Rows,
    draw: np.random.Generator,
    *,
    plan: TrainingPlan,
    objective: Objective,
    progress: Progress | None,
    sees_surrogate: bool = False,
) -> FastShap:
    """Train on whatever columns `more(count)` gives, validated on rows that it does not give."""
    players, outputs = surrogate.players.count, len(surrogate.output_names)
    width = surrogate.thought_width if sees_surrogate else surrogate.encoding.width
    network = perceptron(width, plan.hidden, players * outputs, draw)
    if players == 1:  # normalisation alone is the answer
        return FastShap(surrogate, network)

    def asked(columns: Array) -> Batch:
        if sees_surrogate:
            outputs, seen = surrogate.hidden_features(columns)
            gap: Array = outputs - surrogate.base.astype(np.float32)
        else:
            gap, seen = total(surrogate, columns), columns
        return seen, gap, *objective.asked(surrogate, columns, gap, draw)

    history = fit(
        network,
        lambda: asked(more(plan.batch_rows)),
        ShapleyLoss(objective, players),
        plan,
        validation=asked(surrogate.encoding.columns(held_out)),
        progress=progress,
    )
    return FastShap(surrogate, network, history)
