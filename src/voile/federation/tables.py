"""A client's rows as networks see them, and a network as a model of rows.

Scaling, encoding and outputs follow from the public schema alone, so they are the same at every
client and tell nothing about anybody's rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from voile.attribution.fastshap.encoding import Encoding
from voile.core.errors import InvalidInput
from voile.core.optional import optional
from voile.core.schema import Categories, FeatureValues, Numbers, Rows, Schema
from voile.datasets import Dataset
from voile.federation.arrays import Arrays
from voile.models import Box, Model, Outputs, OutputSet, Simplex, digest_of
from voile.training import Head, Sigmoid, Softmax, arrays_of, with_arrays

if TYPE_CHECKING:
    from torch import Tensor, nn

CHUNK = 4096


@dataclass(frozen=True, eq=False)
class TableRecords:
    """Rows and labels of one client; what lies outside the schema is clamped, nothing raises."""

    schema: Schema
    rows: Rows = field(repr=False)
    labels: FeatureValues = field(repr=False)

    @classmethod
    def of(cls, data: Dataset) -> TableRecords:
        return cls(data.schema, data.schema.clamp(data.rows), data.labels)

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def columns(self) -> Tensor:
        """Encoded rows, (n, columns)."""
        return Encoding.around_defaults(self.schema).tensor(self.rows)

    @cached_property
    def targets(self) -> Tensor:
        """Labels as a network's outputs: one-hot, or the number itself, (n, outputs)."""
        torch: Any = optional("torch", extra="torch")
        label = Outlook.of_label(self.schema)
        given = np.asarray(self.labels, dtype=np.float64)
        if isinstance(label.head, Softmax):
            wanted = given[:, np.newaxis] == np.arange(len(label.names))
        else:
            wanted = given[:, np.newaxis]
        found: Tensor = torch.from_numpy(wanted.astype(np.float32))
        return found


@dataclass(frozen=True, eq=False)
class Outlook:
    """What a network answers: how its last layer is read, and how the outputs are called."""

    head: Head
    names: tuple[str, ...]
    outputs: OutputSet

    @classmethod
    def of_label(cls, schema: Schema) -> Outlook:
        """Probabilities of the label's categories, or a number between its bounds."""
        if schema.label is None:
            raise InvalidInput(f"the schema {schema.name!r} declares no label to learn")
        domain = schema.label.domain
        if isinstance(domain, Categories):
            return cls(Softmax(), tuple(str(value) for value in domain.values), Simplex())
        assert isinstance(domain, Numbers)
        return cls.between((schema.label.name,), domain.lower, domain.upper)

    @classmethod
    def of_model(cls, model: Model, schema: Schema) -> Outlook:
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
    def between(cls, names: tuple[str, ...], lower: Any, upper: Any) -> Outlook:
        low = np.broadcast_to(np.asarray(lower, np.float32), (len(names),)).copy()
        high = np.broadcast_to(np.asarray(upper, np.float32), (len(names),)).copy()
        return cls(Sigmoid(low, high), names, Box(lower, upper))


@dataclass(frozen=True, eq=False)
class NetworkModel:
    """A network over the encoded columns of a schema; a `voile.models.Model` of its rows.

    Args:
        schema: what rows look like.
        outlook: what it answers.
        network: takes encoded columns.
    """

    schema: Schema
    outlook: Outlook
    network: nn.Sequential

    @classmethod
    def of(cls, schema: Schema, outlook: Outlook, arrays: Arrays) -> NetworkModel:
        return cls(schema, outlook, with_arrays(arrays))

    @property
    def feature_names(self) -> tuple[str, ...]:
        return self.schema.feature_names

    @property
    def output_names(self) -> tuple[str, ...]:
        return self.outlook.names

    @property
    def outputs(self) -> OutputSet:
        return self.outlook.outputs

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) of schema and parameters."""
        return digest_of([self.schema.digest, arrays_of(self.network)])

    def of_columns(self, columns: Tensor) -> Tensor:
        """Outputs of encoded rows, (n, outputs)."""
        torch: Any = optional("torch", extra="torch")
        with torch.inference_mode():
            parts = [
                self.outlook.head.outputs(self.network(columns[start : start + CHUNK]))
                for start in range(0, len(columns), CHUNK)
            ]
            found: Tensor = torch.cat(parts)
        return found.clone()

    def predict(self, rows: Rows) -> Outputs:
        """Outputs of rows, (n, outputs)."""
        columns = Encoding.around_defaults(self.schema).tensor(rows)
        return self.outlook.outputs.clamp(self.of_columns(columns).numpy().astype(np.float64))[0]
