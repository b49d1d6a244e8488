"""Training an explainer of a surrogate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from voile.attribution.fastshap.explainer import FastShap
from voile.attribution.fastshap.objectives import KernelRegression, Objective, answers
from voile.attribution.fastshap.surrogate import Surrogate
from voile.core.errors import InvalidInput
from voile.core.optional import optional
from voile.core.randomness import GeneratorSource
from voile.models import Rows
from voile.training import Batch, Progress, TrainingPlan, fit, perceptron

if TYPE_CHECKING:
    from torch import Tensor, nn

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
    test, train = read[order[:held]], surrogate.encoding.tensor(read[order[held:]])

    def more(count: int) -> Tensor:
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
        return FastShap(surrogate, network.eval())

    def loss(learner: nn.Module, batch: Batch) -> Tensor:
        seen = _hidden_features(surrogate, batch[0]) if sees_surrogate else batch[0]
        return objective.loss(answers(learner, seen, batch[1], players), batch)

    history = fit(
        network,
        lambda: objective.batch(surrogate, more(plan.batch_rows), draw),
        loss,
        plan,
        validation=objective.batch(surrogate, surrogate.encoding.tensor(held_out), draw),
        progress=progress,
    )
    return FastShap(surrogate, network, history)


def _hidden_features(surrogate: Surrogate, columns: Tensor) -> Tensor:
    torch: Any = optional("torch", extra="torch")
    with torch.no_grad():
        return surrogate.hidden_features(columns)[1]
