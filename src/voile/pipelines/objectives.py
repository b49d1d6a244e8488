"""What the three networks of FastSHAP++ learn: a label, a model's answers, Shapley values.

Each `TrainingObjective` says which arrays it trains and turns a client's records into per-record
losses. A record enters a step once, with all its coalitions, so clipping its gradient bounds all it
can do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from voile.attribution.fastshap import FastShap, KernelRegression, Surrogate
from voile.attribution.fastshap.encoding import Encoding
from voile.attribution.fastshap.objectives import answers
from voile.attribution.players import Groups, Players
from voile.core.errors import InvalidInput
from voile.core.optional import optional
from voile.core.schema import Rows, Schema
from voile.federation.arrays import Arrays
from voile.federation.pipeline import under
from voile.models import Model, Outputs, known_model
from voile.pipelines.tables import NetworkModel, OutputHead, TableRecords
from voile.release.output_sets import predicted_or_nan
from voile.release.silence import silenced
from voile.training import Batch, Loss, divergence, perceptron, uniform_sizes, with_arrays

if TYPE_CHECKING:
    from torch import Tensor, nn

BLACK_BOX, SURROGATE, EXPLAINER = "black box", "surrogate", "explainer"


@dataclass(frozen=True, eq=False)
class TrainingBatches:
    """What is trained on: tensors of records, what is made of a drawn batch, and the loss."""

    records: Batch
    prepare: Callable[[Batch], Batch]
    loss: Loss


class TrainingObjective(Protocol):
    """What a network learns from a client's records."""

    @property
    def width(self) -> int:
        """How many inputs the network has."""

    @property
    def answers(self) -> int:
        """How many outputs."""

    def batches(
        self, records: TableRecords, given: Arrays, draw: np.random.Generator
    ) -> TrainingBatches: ...

    def evaluate(
        self, network: nn.Sequential, given: Arrays, records: TableRecords
    ) -> Mapping[str, float]: ...


def start_of(objective: TrainingObjective, hidden: tuple[int, ...], seed: int) -> nn.Sequential:
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
        def loss(network: nn.Module, batch: Batch) -> Tensor:
            return divergence(self.output_head.head, network(batch[0]), batch[1])

        return TrainingBatches((records.columns, records.targets), lambda batch: batch, loss)

    def evaluate(
        self,
        network: nn.Sequential,
        given: Arrays,  # noqa: ARG002
        records: TableRecords,
    ) -> Mapping[str, float]:
        found = NetworkModel(self.schema, self.output_head, network).of_columns(records.columns)
        return _alike(found, records.targets, "accuracy")


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
        return Players.of(self.schema.feature_names, self.groups)

    @property
    def width(self) -> int:
        return len(self.schema.column_names) + self.players.count

    @property
    def answers(self) -> int:
        return len(self.output_head.names)

    def surrogate(self, network: nn.Sequential) -> Surrogate:
        return Surrogate(
            encoding=Encoding.around_defaults(self.schema),
            players=self.players,
            head=self.output_head.head,
            network=network,
            feature_names=self.schema.feature_names,
            output_names=self.output_head.names,
            schema=self.schema,
        )

    def targets(self, records: TableRecords, given: Arrays) -> Tensor:
        """What the black box says of each record: of this one alone, if the box is fixed."""
        torch: Any = optional("torch", extra="torch")
        if self.model is None:
            box = NetworkModel.of(self.schema, self.output_head, under(BLACK_BOX, given))
            return box.of_columns(records.columns)
        found: Tensor = torch.from_numpy(self._said(records.rows).astype(np.float32))
        return found

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
        torch: Any = optional("torch", extra="torch")
        blank = self.surrogate(start_of(self, (), 0))
        players = self.players.count

        def prepare(batch: Batch) -> Batch:
            shape = (len(batch[0]), self.coalitions)
            return *batch, torch.from_numpy(uniform_sizes(draw, shape, players))

        def loss(network: nn.Module, batch: Batch) -> Tensor:
            columns, targets, coalitions = batch
            logits = blank.logits(columns, coalitions, network)
            return divergence(blank.head, logits, targets[:, None, :].expand_as(logits)).mean(1)

        return TrainingBatches((records.columns, self.targets(records, given)), prepare, loss)

    def evaluate(
        self, network: nn.Sequential, given: Arrays, records: TableRecords
    ) -> Mapping[str, float]:
        torch: Any = optional("torch", extra="torch")
        mine = torch.from_numpy(self.surrogate(network).predict(records.rows).astype(np.float32))
        return _alike(mine, self.targets(records, given), "fidelity")


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

    def explainer(self, network: nn.Sequential, surrogate: Surrogate) -> FastShap:
        return FastShap(surrogate, network)

    def batches(
        self, records: TableRecords, given: Arrays, draw: np.random.Generator
    ) -> TrainingBatches:
        surrogate = self.imitation.surrogate(with_arrays(under(SURROGATE, given)))
        players = self.imitation.players.count

        def prepare(batch: Batch) -> Batch:
            return self.objective.batch(surrogate, batch[0], draw)

        def loss(network: nn.Module, batch: Batch) -> Tensor:
            return self.objective.loss(answers(network, batch[0], batch[1], players), batch)

        return TrainingBatches((records.columns,), prepare, loss)

    def evaluate(
        self, network: nn.Sequential, given: Arrays, records: TableRecords
    ) -> Mapping[str, float]:
        torch: Any = optional("torch", extra="torch")
        made = self.batches(records, given, np.random.default_rng(0))
        with torch.no_grad():
            loss = made.loss(network, made.prepare(made.records)).mean()
        return {"loss": float(loss)}


def _alike(found: Tensor, wanted: Tensor, name: str) -> dict[str, float]:
    """The share of rows with the same class; of single outputs, the share of variance met.

    Rows of which it is not known what is wanted are left out.
    """
    known = ~wanted.isnan().any(1)
    if not known.any():
        raise InvalidInput(f"no row to measure {name} on has anything to compare with")
    found, wanted = found[known], wanted[known]
    if found.shape[1] > 1:
        return {name: float((found.argmax(1) == wanted.argmax(1)).double().mean())}
    missed = (found - wanted).double().square().sum()
    spread = (wanted - wanted.mean(0)).double().square().sum()
    return {"r_squared": float(1 - missed / spread) if float(spread) > 0 else 0.0}
