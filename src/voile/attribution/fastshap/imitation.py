"""Training a surrogate to imitate a model on random coalitions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from voile.attribution.fastshap.encoding import Encoding
from voile.attribution.fastshap.surrogate import Fidelity, Surrogate
from voile.attribution.inputs import Columns
from voile.attribution.players import Groups, Players
from voile.core.errors import InvalidInput
from voile.core.explanation_checks import or_numbered
from voile.core.randomness import GeneratorSource
from voile.core.schema import Schema
from voile.models import Box, DeclaredOutputs, Model, Outputs, Rows, Simplex, wrap
from voile.training import (
    Array,
    Batch,
    Distance,
    Head,
    Identity,
    Progress,
    Sigmoid,
    Softmax,
    TrainingPlan,
    divergence,
    fit,
    perceptron,
    uniform_sizes,
)

SURROGATE_PLAN: Final = TrainingPlan(steps=4_000, batch_rows=256, hidden=(128, 128))
COALITIONS: Final = 4
HELD_OUT: Final = 0.1
MOST_HELD_OUT: Final = 5_000


def train_surrogate(
    model: Any,
    rows: Any,
    *,
    source: GeneratorSource,
    schema: Schema | None = None,
    groups: Groups | None = None,
    plan: TrainingPlan = SURROGATE_PLAN,
    loss: Distance = divergence,
    progress: Progress | None = None,
) -> Surrogate:
    """Train a surrogate of a model on rows; a tenth of them is held out to measure its fidelity.

    Args:
        model: anything that `voile.models.wrap` takes; it is asked once for each row.
        rows: typical rows; absent players are averaged over what they look like. A table names its
            columns.
        source: where randomness comes from.
        schema: scaling and encoding follow from it; without one, every column is taken for a number
            and scaled by the rows' own mean and spread.
        groups: features that act together as one player.
        plan: how long and how hard to train.
        loss: `voile.training.divergence`, or `squared_distance`, in which single records pull less.
        progress: told how far the work is.

    >>> from voile.core.randomness import Seeded
    >>> rows, plan = np.random.default_rng(0).random((64, 3)), TrainingPlan(steps=20, hidden=(8,))
    >>> surrogate = train_surrogate(lambda x: x.sum(axis=1), rows, source=Seeded(0), plan=plan)
    >>> surrogate.players.count, surrogate.fidelity.rows
    (3, 6)
    """
    wrapped: Model = model if _is_model(model) else wrap(model)
    columns = Columns.known(
        given=None,
        schema=schema,
        model_names=wrapped.feature_names,
        model_width=getattr(wrapped, "width", None),
        example=rows,
    )
    read = columns.read(rows, "rows")
    names = columns.settled(rows, read).names or ()
    if len(read) < 20:
        raise InvalidInput(f"a surrogate needs at least 20 rows to learn from, found {len(read)}")
    targets, players = _answers(wrapped, read), Players.from_groups(names, groups)
    encoding = Encoding.of_rows(read) if schema is None else Encoding.of_schema(schema)
    draw, outputs = source.generator(), targets.shape[1]
    blank = Surrogate(
        encoding=encoding,
        players=players,
        head=head_for(wrapped.outputs, targets),
        network=perceptron(encoding.width + players.count, plan.hidden, outputs, draw),
        feature_names=names,
        output_names=or_numbered(wrapped.output_names, "output", outputs),
        schema=schema,
    )
    return imitate(blank, read, targets, draw, plan=plan, loss=loss, progress=progress)


def imitate(
    surrogate: Surrogate,
    rows: Rows,
    targets: Outputs,
    draw: np.random.Generator,
    *,
    plan: TrainingPlan,
    loss: Distance = divergence,
    progress: Progress | None = None,
) -> Surrogate:
    """Train the network of a surrogate in place on rows and the model's outputs for them."""
    order = draw.permutation(len(rows))
    held = max(1, min(int(HELD_OUT * len(rows)), MOST_HELD_OUT))
    test, train = order[:held], order[held:]
    inputs = surrogate.encoding.columns(rows)
    wanted = targets.astype(np.float32)
    players = surrogate.players.count

    def batch(places: Any) -> Batch:
        coalitions = uniform_sizes(draw, (len(places), COALITIONS), players)
        return inputs[places], wanted[places], coalitions

    validation = batch(test)
    history = fit(
        surrogate.network,
        lambda: batch(train[draw.integers(0, len(train), plan.batch_rows)]),
        CoalitionLoss(surrogate, loss),
        plan,
        validation=validation,
        progress=progress,
    )
    found = _fidelity(surrogate, rows[test], targets[test], history.validation_loss or 0.0)
    return replace(surrogate, history=history, fidelity=found)


@dataclass(frozen=True, eq=False)
class CoalitionLoss:
    """The loss of a record: the mean over its coalitions. Batch: columns, targets, coalitions."""

    surrogate: Surrogate
    distance: Distance = divergence

    def inputs(self, batch: Batch) -> Array:
        return self.surrogate.masked(batch[0], batch[2])

    def values(self, logits: Array, batch: Batch) -> Array:
        targets, head = batch[1][:, np.newaxis], self.surrogate.head
        found: Array = self.distance.values(head, logits, targets).mean(axis=1)
        return found

    def slopes(self, logits: Array, batch: Batch) -> Array:
        targets, head = batch[1][:, np.newaxis], self.surrogate.head
        found = self.distance.slopes(head, logits, targets)
        found /= logits.shape[1]
        return found


def head_for(declared: DeclaredOutputs, targets: Outputs) -> Head:
    """The head whose outputs lie where the model's do."""
    outputs = targets.shape[1]
    if isinstance(declared, Simplex) and outputs > 1:
        return Softmax()
    if isinstance(declared, Box):
        lower = np.broadcast_to(np.asarray(declared.lower, np.float32), (outputs,)).copy()
        upper = np.broadcast_to(np.asarray(declared.upper, np.float32), (outputs,)).copy()
        return Sigmoid(lower, upper)
    spread = targets.std(axis=0)
    return Identity(
        targets.mean(axis=0).astype(np.float32),
        np.where(spread > 0, spread, 1.0).astype(np.float32),
    )


def _answers(model: Model, rows: Rows, size: int = 4096) -> Outputs:
    return np.concatenate(
        [model.predict(rows[start : start + size]) for start in range(0, len(rows), size)]
    )


def _fidelity(surrogate: Surrogate, rows: Rows, targets: Outputs, loss: float) -> Fidelity:
    from voile.evaluation import fidelity, r_squared  # loads scipy

    mine = surrogate.predict(rows)
    several = targets.shape[1] > 1
    return Fidelity(
        rows=len(rows),
        same_class=fidelity(mine.argmax(1), targets.argmax(1)) if several else None,
        gap=float(np.abs(mine - targets).mean()),
        r_squared=r_squared(targets, mine),
        coalition_loss=loss,
    )


def _is_model(candidate: Any) -> bool:
    return isinstance(candidate, Model) and not callable(candidate)
