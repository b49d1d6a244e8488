"""A client's rows as networks see them, and a network as a model of rows.

Scaling, encoding and outputs follow from the public schema alone, so they are the same at every
client and tell nothing about anybody's rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voile.attribution.fastshap.encoding import Encoding
from voile.core.digest_names import digest_name
from voile.core.errors import InvalidInput
from voile.core.schema import Categories, ColumnTable, FeatureValues, Numbers, Rows, Schema
from voile.datasets import Dataset
from voile.federation.arrays import Arrays
from voile.models import Box, DeclaredOutputs, Model, Outputs, Simplex, digest_of
from voile.models.wrapped import Forward, InspectedForward
from voile.training import Array, Head, Perceptron, Sigmoid, Softmax, arrays_of, with_arrays


@dataclass(frozen=True, eq=False)
class TableRecords:
    """Rows and labels of one client; what lies outside the schema is clamped, nothing raises.

    A null record (`Schema.null_records`) is NaN in `columns`, a record whose label cannot be read
    NaN in `targets`; training adds nothing for a record with a NaN. So a null record adds nothing
    in any stage, and one without a label nothing where the label is learned.

    Args:
        schema: public.
        rows: shape (n, d), inside the schema; defaults stand for null records.
        labels: shape (n,); NaN where none can be read.
        null: which records are null, shape (n,).
    """

    schema: Schema
    rows: Rows = field(repr=False)
    labels: FeatureValues = field(repr=False)
    null: NDArray[np.bool_] = field(repr=False)

    @classmethod
    def from_dataset(cls, data: Dataset) -> TableRecords:
        schema = data.schema
        return cls(schema, schema.clamp(data.rows), data.labels, schema.null_records(data.rows))

    @classmethod
    def read(cls, schema: Schema, table: ColumnTable) -> TableRecords:
        """From raw values; only a missing column raises, or columns of different lengths."""
        return cls(schema, schema.rows(table), schema.labels(table), schema.null_records(table))

    @classmethod
    def joined(cls, schema: Schema, parts: Sequence[TableRecords]) -> TableRecords:
        """All records of several, which share a schema."""
        none = np.empty((0, len(schema.features)))
        parts = [*parts, cls(schema, none, none.sum(axis=1), np.zeros(0, dtype=np.bool_))]
        return cls(
            schema,
            np.concatenate([part.rows for part in parts]),
            np.concatenate([part.labels for part in parts]),
            np.concatenate([part.null for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.rows)

    def readable(self) -> TableRecords:
        """Without null records: to measure on, where the number of rows need not be kept."""
        return self.only(~self.null)

    def only(self, places: NDArray[Any]) -> TableRecords:
        """Some of the records."""
        rows, labels, null = self.rows[places], self.labels[places], self.null[places]
        return TableRecords(self.schema, rows, labels, null)

    @cached_property
    def columns(self) -> Array:
        """Encoded rows, (n, columns)."""
        found = Encoding.around_defaults(self.schema).columns(self.rows)
        found[self.null] = np.nan
        return found

    @cached_property
    def targets(self) -> Array:
        """Labels as a network's outputs: one-hot, or the number itself, (n, outputs)."""
        label = OutputHead.of_label(self.schema)
        given: Array = np.asarray(self.labels, dtype=np.float32)[:, np.newaxis]
        if not isinstance(label.head, Softmax):
            return given
        wanted: Array = (given == np.arange(len(label.names))).astype(np.float32)
        wanted[np.isnan(given[:, 0])] = np.nan
        return wanted


@digest_name("voile.pipelines.tables.OutputHead")
@dataclass(frozen=True, eq=False)
class OutputHead:
    """What a network answers: how its last layer is read, and how the outputs are called."""

    head: Head
    names: tuple[str, ...]
    outputs: DeclaredOutputs

    @classmethod
    def of_label(cls, schema: Schema) -> OutputHead:
        """Probabilities of the label's categories, or a number between its bounds."""
        if schema.label is None:
            raise InvalidInput(f"the schema {schema.name!r} declares no label to learn")
        domain = schema.label.domain
        if isinstance(domain, Categories):
            return cls(Softmax(), tuple(str(value) for value in domain.values), Simplex())
        assert isinstance(domain, Numbers)
        return cls.between((schema.label.name,), domain.lower, domain.upper)

    @classmethod
    def of_model(cls, model: Model, schema: Schema) -> OutputHead:
        """That of a trained model; its outputs must be declared, not read off its answers."""
        count = model.predict(schema.null_row[np.newaxis]).shape[1]
        names = model.output_names or tuple(f"output {i}" for i in range(count))
        if isinstance(model.outputs, Simplex) and count > 1:
            return cls(Softmax(), names, Simplex())
        if isinstance(model.outputs, Box):
            return cls.between(names, model.outputs.lower, model.outputs.upper)
        raise InvalidInput(
            "the outputs of this model have no declared range, and reading one off its answers "
            "would reveal rows; declare it: wrap(model, outputs=Box(lower, upper))"
        )

    @classmethod
    def between(cls, names: tuple[str, ...], lower: Any, upper: Any) -> OutputHead:
        low = np.broadcast_to(np.asarray(lower, np.float32), (len(names),)).copy()
        high = np.broadcast_to(np.asarray(upper, np.float32), (len(names),)).copy()
        return cls(Sigmoid(low, high), names, Box(lower, upper))


@digest_name("voile.pipelines.tables.NetworkModel")
@dataclass(frozen=True, eq=False)
class NetworkModel:
    """A network over the encoded columns of a schema; a `voile.models.Model` of its rows.

    Args:
        schema: what rows look like.
        output_head: what it answers.
        network: takes encoded columns.
    """

    schema: Schema
    output_head: OutputHead
    network: Perceptron

    @classmethod
    def from_arrays(cls, schema: Schema, output_head: OutputHead, arrays: Arrays) -> NetworkModel:
        network = with_arrays(arrays)
        widths = network.inputs, network.outputs
        if widths != (len(schema.column_names), len(output_head.names)):
            raise InvalidInput(
                f"the network takes {widths[0]} columns and has {widths[1]} outputs, the schema "
                f"{schema.name!r} has {len(schema.column_names)} and {len(output_head.names)}"
            )
        return cls(schema, output_head, network)

    @property
    def feature_names(self) -> tuple[str, ...]:
        return self.schema.feature_names

    @property
    def output_names(self) -> tuple[str, ...]:
        return self.output_head.names

    @property
    def outputs(self) -> DeclaredOutputs:
        return self.output_head.outputs

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) of schema and parameters."""
        return digest_of([self.schema.digest, arrays_of(self.network)])

    def of_columns(self, columns: Array) -> NDArray[Any]:
        """Outputs of encoded rows, (n, outputs)."""
        return self.output_head.head.outputs(self.network(columns))

    def predict(self, rows: Rows) -> Outputs:
        """Outputs of rows, (n, outputs)."""
        found = self.of_columns(self._encoding.columns(rows)).astype(np.float64)
        return self.output_head.outputs.clamp(found)[0]

    @cached_property
    def _encoding(self) -> Encoding:
        return Encoding.around_defaults(self.schema)


@digest_name("voile.pipelines.tables.OfNetworkModel")
@dataclass(frozen=True, eq=False)
class NetworkModelForward(InspectedForward):
    """What a `NetworkModel` says, for `WrappedModel`: all that it is made of is row-wise."""

    model: NetworkModel

    def __call__(self, rows: Rows) -> Outputs:
        return self.model.predict(rows)

    def steady(self) -> Forward | None:
        """In double precision, behind the same encoding."""
        if type(self.model) is not NetworkModel or type(self.model.network) is not Perceptron:
            return None
        return NetworkModelForward(replace(self.model, network=self.model.network.doubled()))
