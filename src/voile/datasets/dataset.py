"""What every loader and generator returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput
from voile.core.optional import optional
from voile.core.schema import Encoded, FeatureValues, Rows, Schema


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows with their public schema.

    Args:
        name: what it is called.
        schema: describes the columns.
        rows: shape (n, d), in the form of `Schema.rows`.
        labels: shape (n,), in the form of `Schema.labels`.
        columns: what else is known about rows, such as the state or the site; by name, (n,) each.
    """

    name: str
    schema: Schema
    rows: Rows
    labels: FeatureValues
    columns: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        count = len(self.rows)
        lengths = {"labels": len(self.labels), **{n: len(c) for n, c in self.columns.items()}}
        wrong = sorted(name for name, length in lengths.items() if length != count)
        if wrong or self.rows.ndim != 2 or self.rows.shape[1] != len(self.schema.features):
            raise InvalidInput(
                f"the data set {self.name!r} does not fit together: {count} rows of shape "
                f"{self.rows.shape} for {len(self.schema.features)} features"
                + (f", other lengths in {wrong}" if wrong else "")
            )
        object.__setattr__(self, "columns", MappingProxyType(dict(self.columns)))

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def encoded(self) -> Encoded:
        """Numbers scaled to [0, 1] by the public bounds, categories one-hot."""
        return self.schema.encode(self.rows)

    @property
    def label_names(self) -> tuple[str, ...]:
        """The categories of the label, as text."""
        label = self.schema.label
        values = () if label is None else getattr(label.domain, "values", ())
        if not values:
            raise InvalidInput(f"the label of {self.name!r} is a number, not a category")
        return tuple(str(value) for value in values)

    def frame(self) -> Any:
        """A DataFrame of raw values, one column per feature."""
        pandas = optional("pandas", extra="explain")
        return pandas.DataFrame(self.schema.table(self.rows))

    def take(self, places: NDArray[Any] | slice) -> Dataset:
        """Some of the rows, by position or by mask."""
        return replace(
            self,
            rows=self.rows[places],
            labels=self.labels[places],
            columns={name: column[places] for name, column in self.columns.items()},
        )

    def split(self, share: float, *, seed: int) -> tuple[Dataset, Dataset]:
        """Two disjoint random parts, the first with this share of the rows."""
        first = round(share * len(self))
        if not 0 < first < len(self):
            raise InvalidInput(f"a share of {share} of {len(self)} rows leaves a part empty")
        order = np.random.default_rng(seed).permutation(len(self))
        return self.take(order[:first]), self.take(order[first:])
