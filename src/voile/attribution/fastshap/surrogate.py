"""The surrogate: a network that answers for rows of which only some players are present."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from voile.attribution.coalitions import uniform_sizes
from voile.attribution.fastshap.encoding import Encoding
from voile.attribution.game import as_model
from voile.attribution.inputs import Columns
from voile.attribution.players import Groups, Players
from voile.core.digest_names import digest_name
from voile.core.errors import InvalidInput
from voile.core.explanation import Explanation
from voile.core.explanation_checks import or_numbered
from voile.core.randomness import GeneratorSource
from voile.core.schema import Schema
from voile.models import (
    Box,
    DeclaredOutputs,
    Model,
    Outputs,
    Presence,
    Rows,
    Simplex,
    digest_of,
)
from voile.training import (
    Array,
    Batch,
    Distance,
    Head,
    Identity,
    Perceptron,
    Progress,
    Sigmoid,
    Softmax,
    TrainingHistory,
    TrainingPlan,
    arrays_of,
    divergence,
    fit,
    perceptron,
    with_arrays,
)

CHUNK = 1024
"""Rows a pass: their activations stay in the processor's cache."""


@digest_name("voile.attribution.fastshap.surrogate.Fidelity")
@dataclass(frozen=True, eq=False)
class Fidelity:
    """How well a surrogate imitates its model on rows it was not trained on, all players present.

    Args:
        rows: how many rows were looked at.
        same_class: the share that both give the same class; None with a single output.
        gap: the mean absolute difference of outputs.
        r_squared: the share of the variance of the model's outputs that is met.
        coalition_loss: the loss on random coalitions, in the loss it was trained with.

    >>> found = Fidelity(rows=400, same_class=0.98, gap=0.01, r_squared=0.99, coalition_loss=0.2)
    >>> f"both give the same class to {found.same_class:.0%} of {found.rows} rows"
    'both give the same class to 98% of 400 rows'
    """

    rows: int
    same_class: float | None
    gap: float
    r_squared: float
    coalition_loss: float


@digest_name("voile.attribution.fastshap.surrogate.Surrogate")
@dataclass(frozen=True, eq=False)
class Surrogate:
    """A trained surrogate; a `voile.models.CoalitionModel`, so `SurrogateShapley` explains it.

    The network sees x⊙m and m: the inputs with those of absent players set to 0, and who is
    present. Columns that encode one feature, and features of one group, share their player's entry
    of m.

    Args:
        encoding: how rows become network inputs.
        players: who plays, and which features belong to whom.
        head: how the last layer becomes outputs.
        network: takes (n, columns + players), gives (n, outputs).
        feature_names: one per feature.
        output_names: one per output.
        schema: reads raw values and refuses rows outside of it, where there is one.
        history: how training went; None in a surrogate that was loaded or put together.
        fidelity: how well it imitates its model; None in the same cases.

    >>> from voile.attribution.fastshap import train_surrogate
    >>> from voile.core.randomness import Seeded
    >>> from voile.training import TrainingPlan
    >>> rows, plan = np.random.default_rng(0).random((64, 3)), TrainingPlan(steps=20, hidden=(8,))
    >>> surrogate = train_surrogate(lambda x: x.sum(axis=1), rows, source=Seeded(0), plan=plan)
    >>> nobody = surrogate.predict_present(rows[:1], np.zeros((1, 3), dtype=bool))
    >>> np.allclose(nobody, surrogate.base)
    True
    """

    encoding: Encoding
    players: Players
    head: Head
    network: Perceptron
    feature_names: tuple[str, ...]
    output_names: tuple[str, ...]
    schema: Schema | None = None
    history: TrainingHistory | None = None
    fidelity: Fidelity | None = None

    def __post_init__(self) -> None:
        wanted = (self.encoding.width + self.players.count, len(self.output_names))
        found = (self.network.inputs, self.network.outputs)
        if wanted != found:
            raise InvalidInput(
                f"the network must take {wanted[0]} inputs (columns and players) and give "
                f"{wanted[1]} outputs, found {found[0]} and {found[1]}"
            )

    # --- as a model ---------------------------------------------------------------------------

    def predict_present(self, rows: Rows, present: Presence) -> Outputs:
        """Outputs (n, outputs) of rows of which only some features are present, (n, features)."""
        if present.shape != rows.shape or rows.shape[1] != len(self.feature_names):
            raise InvalidInput(
                f"rows and presence must both have {len(self.feature_names)} features, found "
                f"shapes {rows.shape} and {present.shape}"
            )
        who = self._present_players(present)
        found = np.empty((len(rows), len(self.output_names)))
        for start in range(0, len(rows), CHUNK):
            part = slice(start, start + CHUNK)
            coalitions = who[part, np.newaxis].astype(np.float32)
            found[part] = self.worths(self.encoding.columns(rows[part]), coalitions)[:, 0]
        return found

    def predict(self, rows: Rows) -> Outputs:
        """Outputs of whole rows, shape (n, outputs)."""
        return self.predict_present(rows, np.ones(rows.shape, dtype=np.bool_))

    def _present_players(self, present: Presence) -> Presence:
        if self.players.single:
            return present
        who = self.players.any_feature(present)
        if (self.players.features_of(who) != present).any():
            raise InvalidInput(
                "this surrogate was trained on groups: the features of a group are present or "
                "absent together; `exact_values` explains it group by group"
            )
        return who

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) of everything that determines the answers."""
        code = self.encoding
        arrays = [code.feature, code.category, code.shift, code.scale, self.players.owner]
        names = [self.players.names, self.feature_names, self.output_names]
        # Copies, because the walk tells one object met twice from two that are equal.
        parts = [np.array(array) for array in arrays], [list(each) for each in names]
        return digest_of([*parts, self.head, arrays_of(self.network)])

    # --- as a game ----------------------------------------------------------------------------

    @cached_property
    def column_player(self) -> NDArray[np.intp]:
        """For each input column the place of its player."""
        return self.players.owner[self.encoding.feature]

    def masked(self, columns: Array, coalitions: Array) -> Array:
        """The coalition layer: (x⊙m, m) for columns (n, c) and coalitions (n, k, players)."""
        width, spread = self.encoding.width, coalitions
        if self.players.count != width or (self.column_player != np.arange(width)).any():
            spread = coalitions[..., self.column_player]
        found = np.empty((*coalitions.shape[:2], self.network.inputs), dtype=np.float32)
        np.multiply(columns[:, np.newaxis], spread, out=found[..., :width])
        found[..., width:] = coalitions
        return found

    def worths(self, columns: Array, coalitions: Array) -> Array:
        """v(S) for columns (n, c) and coalitions (n, k, players), shape (n, k, outputs)."""
        return self.head.outputs(self.network(self.masked(columns, coalitions)))

    @cached_property
    def base(self) -> NDArray[np.float64]:
        """The worth of the empty coalition, the same for every row, shape (outputs,)."""
        nobody = np.zeros((1, 1, self.players.count), dtype=np.float32)
        nothing = np.zeros((1, self.encoding.width), dtype=np.float32)
        found: NDArray[np.float64] = self.worths(nothing, nobody)[0, 0].astype(np.float64)
        return found

    @cached_property
    def complete(self) -> Perceptron:
        """The network for whole rows: everybody is present, so m is a constant of the first layer.

        Takes columns alone, (n, c), and costs less than `worths` with full coalitions.
        """
        arrays, width = arrays_of(self.network), self.encoding.width
        first = arrays["0.weight"]
        arrays["0.bias"] += first[:, width:].sum(axis=1)
        return with_arrays({**arrays, "0.weight": first[:, :width]})

    @cached_property
    def thought_width(self) -> int:
        """How many numbers `hidden_features` gives a row."""
        return self.encoding.width + sum(self.network.widths[1:-1])

    def hidden_features(self, columns: Array) -> tuple[Array, Array]:
        """Outputs of whole rows, and (columns, all hidden layers) on the way to them.

        The hidden layers are features that the surrogate found useful and has computed anyway.
        """
        *hidden, last = self.complete.seen(columns)
        return self.head.outputs(last), np.concatenate([columns, *hidden], axis=1)

    def explanation(self, values: NDArray[np.float64], rows: Rows, **besides: Any) -> Explanation:
        """Attributions (n, players, outputs) of rows, with everything else that belongs to them."""
        return Explanation(
            values=values,
            base_values=self.base,
            feature_names=self.players.names,
            output_names=self.output_names,
            data=rows if self.players.single else None,
            **besides,
        )

    def read(self, given: Any, what: str = "X") -> Rows:
        """Rows from an array, a DataFrame or a dict of columns, checked."""
        columns = Columns(self.feature_names, len(self.feature_names), self.schema)
        return columns.read(given, what)


# --- Training a surrogate to imitate a model on random coalitions ---------------------------------


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
    wrapped = as_model(model)
    columns = Columns.from_model(wrapped, given=None, schema=schema, example=rows)
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
