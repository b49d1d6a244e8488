"""What the three networks of FastSHAP++ learn: a label, a model's answers, Shapley values.

Each `TrainingObjective` says which arrays it trains and turns a client's records into per-record
losses. A record enters a step once, with all its coalitions, so clipping its gradient bounds all it
can do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from voile.attribution.coalitions import uniform_sizes
from voile.attribution.fastshap import FastShap, KernelRegression, Surrogate
from voile.attribution.fastshap.encoding import Encoding
from voile.attribution.fastshap.objectives import ShapleyLoss, total
from voile.attribution.fastshap.surrogate import CoalitionLoss
from voile.attribution.players import Groups, Players
from voile.core.errors import InvalidInput
from voile.core.schema import Rows, Schema
from voile.federation.arrays import Arrays
from voile.federation.pipeline import under
from voile.models import Model, Outputs, known_model
from voile.pipelines.tables import NetworkModel, OutputHead, TableRecords
from voile.release.output_sets import predicted_or_nan
from voile.release.silence import silenced
from voile.training import (
    Array,
    Batch,
    Loss,
    Perceptron,
    TargetLoss,
    mean_loss,
    perceptron,
    with_arrays,
)

BLACK_BOX, SURROGATE, EXPLAINER = "black box", "surrogate", "explainer"


@dataclass(frozen=True, eq=False)
class TrainingBatches:
    """What is trained on: arrays of records, what is made of a drawn batch, and the loss."""

    records: Batch
    prepare: Callable[[Batch], Batch] | None
    loss: Loss

    def prepared(self, batch: Batch) -> Batch:
        return batch if self.prepare is None else self.prepare(batch)


class TrainingObjective(Protocol):
    """What a network learns from a client's records."""

    @property
    def width(self) -> int:
        """How many inputs the network has."""

    @property
    def answers(self) -> int:
        """How many outputs."""

    def batches(
        self, records: Any, given: Arrays, draw: np.random.Generator
    ) -> TrainingBatches: ...

    def evaluate(self, network: Perceptron, given: Arrays, records: Any) -> Mapping[str, float]: ...


def start_of(objective: TrainingObjective, hidden: tuple[int, ...], seed: int) -> Perceptron:
    """A network before the first round. Its parameters are public: anybody can make them again."""
    draw = np.random.default_rng([seed, objective.width, objective.answers])
    return perceptron(objective.width, hidden, objective.answers, draw)


@dataclass(frozen=True, eq=False)
class LearnLabels:
    """The black box: from a row to its label."""

    schema: Schema

    @cached_property
    def output_head(self) -> OutputHead:
        return OutputHead.of_label(self.schema)

    @property
    def width(self) -> int:
        return len(self.schema.column_names)

    @property
    def answers(self) -> int:
        return len(self.output_head.names)

    def batches(
        self,
        records: TableRecords,
        given: Arrays,  # noqa: ARG002
        draw: np.random.Generator,  # noqa: ARG002
    ) -> TrainingBatches:
        given_and_wanted = (records.columns, records.targets)
        return TrainingBatches(given_and_wanted, None, TargetLoss(self.output_head.head))

    def evaluate(
        self,
        network: Perceptron,
        given: Arrays,  # noqa: ARG002
        records: TableRecords,
    ) -> Mapping[str, float]:
        found = NetworkModel(self.schema, self.output_head, network).of_columns(records.columns)
        return alike(found, records.targets, "accuracy")


@dataclass(frozen=True, eq=False)
class Imitate:
    """The surrogate: what the black box says of a row of which only some players are present.

    Args:
        schema: what rows look like.
        model: the black box, where it was not trained by this federation.
        groups: features that act together.
        coalitions: how many a record is shown with, in each step it is drawn.
    """

    schema: Schema
    model: Model | None = None
    groups: Groups | None = None
    coalitions: int = 8

    @cached_property
    def output_head(self) -> OutputHead:
        if self.model is None:
            return OutputHead.of_label(self.schema)
        return OutputHead.of_model(self.model, self.schema)

    @cached_property
    def players(self) -> Players:
        return Players.from_groups(self.schema.feature_names, self.groups)

    @property
    def width(self) -> int:
        return len(self.schema.column_names) + self.players.count

    @property
    def answers(self) -> int:
        return len(self.output_head.names)

    def surrogate(self, network: Perceptron) -> Surrogate:
        return Surrogate(
            encoding=Encoding.around_defaults(self.schema),
            players=self.players,
            head=self.output_head.head,
            network=network,
            feature_names=self.schema.feature_names,
            output_names=self.output_head.names,
            schema=self.schema,
        )

    def targets(self, records: TableRecords, given: Arrays) -> Array:
        """What the black box says of each record: of this one alone, if the box is fixed."""
        if self.model is None:
            box = NetworkModel.from_arrays(self.schema, self.output_head, under(BLACK_BOX, given))
            return box.of_columns(records.columns)
        return self._said(records.rows).astype(np.float32)

    def _said(self, rows: Rows) -> Outputs:
        """Of rows that a foreign box cannot answer for, NaN: they teach nothing, and nobody hears.

        Whatever it does about a protected row, raise, warn, log or say NaN, would tell of the row.
        One that may mix the rows of a batch would let a record into the losses of others: unless it
        is known not to, it is asked about one row at a time.
        """
        assert self.model is not None
        known = known_model(self.model)
        ask = partial(predicted_or_nan, (known or self.model).predict, self.answers)
        with silenced():
            if known is not None:
                return ask(rows.copy())
            return np.concatenate([ask(row[np.newaxis].copy()) for row in rows])

    def batches(
        self, records: TableRecords, given: Arrays, draw: np.random.Generator
    ) -> TrainingBatches:
        players = self.players.count

        def prepare(batch: Batch) -> Batch:
            return *batch, uniform_sizes(draw, (len(batch[0]), self.coalitions), players)

        given_and_wanted = (records.columns, self.targets(records, given))
        blank = self.surrogate(start_of(self, (), 0))
        return TrainingBatches(given_and_wanted, prepare, CoalitionLoss(blank))

    def evaluate(
        self, network: Perceptron, given: Arrays, records: TableRecords
    ) -> Mapping[str, float]:
        mine = self.surrogate(network).predict(records.rows)
        return alike(mine, self.targets(records, given), "fidelity")


@dataclass(frozen=True, eq=False)
class LearnShapley:
    """The explainer: the surrogate's Shapley values, as FastSHAP++ trains it, on records."""

    imitation: Imitate
    objective: KernelRegression = KernelRegression()  # noqa: RUF009

    @property
    def width(self) -> int:
        return len(self.imitation.schema.column_names)

    @property
    def answers(self) -> int:
        return self.imitation.players.count * self.imitation.answers

    def explainer(self, network: Perceptron, surrogate: Surrogate) -> FastShap:
        return FastShap(surrogate, network)

    def batches(
        self, records: TableRecords, given: Arrays, draw: np.random.Generator
    ) -> TrainingBatches:
        surrogate = self.imitation.surrogate(with_arrays(under(SURROGATE, given)))

        def prepare(batch: Batch) -> Batch:
            gap = total(surrogate, batch[0])
            return batch[0], gap, *self.objective.targets(surrogate, batch[0], gap, draw)

        loss = ShapleyLoss(self.objective, self.imitation.players.count)
        return TrainingBatches((records.columns,), prepare, loss)

    def evaluate(
        self, network: Perceptron, given: Arrays, records: TableRecords
    ) -> Mapping[str, float]:
        made = self.batches(records, given, np.random.default_rng(0))
        return {"loss": mean_loss(network, made.loss, made.prepared(made.records))}


def alike(found: NDArray[Any], wanted: Array, name: str) -> dict[str, float]:
    """The share of rows with the same class; of single outputs, the share of variance met.

    Rows of which it is not known what is wanted are left out.
    """
    known = ~np.isnan(wanted).any(axis=1)
    if not known.any():
        raise InvalidInput(f"no row to measure {name} on has anything to compare with")
    found, wanted = found[known], wanted[known]
    if found.shape[1] > 1:
        return {name: float((found.argmax(axis=1) == wanted.argmax(axis=1)).mean())}
    missed = float(np.square(found.astype(np.float64) - wanted).sum())
    spread = float(np.square(wanted.astype(np.float64) - wanted.mean(axis=0)).sum())
    return {"r_squared": 1 - missed / spread if spread > 0 else 0.0}
