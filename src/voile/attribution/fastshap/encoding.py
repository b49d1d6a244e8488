"""How rows become the inputs of a network: numbers scaled, categories one-hot, in float32."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from voile.core.digest_names import digest_name
from voile.core.schema import Categories, Numbers, Schema
from voile.models import Rows


@digest_name("voile.attribution.fastshap.encoding.Encoding")
@dataclass(frozen=True, eq=False)
class Encoding:
    """One entry for each input column, shape (columns,) each.

    Args:
        feature: the place of the feature it reads.
        category: the category it stands for; NaN for numbers.
        shift, scale: a number x becomes (x − shift)·scale.
    """

    feature: NDArray[np.intp]
    category: NDArray[np.float64]
    shift: NDArray[np.float64]
    scale: NDArray[np.float64]

    @classmethod
    def of_schema(cls, schema: Schema) -> Encoding:
        """The columns of `Schema.encode`; follows from public facts alone."""
        feature = schema.column_features
        category, shift, scale = [], [], []
        for described in schema.features:
            domain = described.domain
            if isinstance(domain, Numbers):
                category.append(np.nan)
                shift.append(float(domain.lower))
                scale.append(1 / (domain.upper - domain.lower))
            else:
                assert isinstance(domain, Categories)
                category += list(range(len(domain.values)))
                shift += [0.0] * len(domain.values)
                scale += [1.0] * len(domain.values)
        return cls(np.array(feature), np.array(category), np.array(shift), np.array(scale))

    @classmethod
    def around_defaults(cls, schema: Schema) -> Encoding:
        """The same columns with each number measured from its default, in halves of its range.

        Gradients of centred inputs are shorter and point apart, so that clipping and noise spoil
        less of them; and a feature that is absent looks like one that has its default.
        """
        plain = cls.of_schema(schema)
        number = np.isnan(plain.category)
        middle = [0.0 if isinstance(f.domain, Categories) else f.null_value
                  for f in schema.features]  # fmt: skip
        shift = np.where(number, np.array(middle)[plain.feature], plain.shift)
        return cls(plain.feature, plain.category, shift, np.where(number, 2.0, 1.0) * plain.scale)

    @classmethod
    def of_rows(cls, rows: Rows) -> Encoding:
        """Numbers centred and scaled to unit spread as the rows have it; constants only centred."""
        spread = rows.std(axis=0)
        width = rows.shape[1]
        scale = 1 / np.where(spread > 0, spread, 1.0)
        return cls(np.arange(width), np.full(width, np.nan), rows.mean(axis=0), scale)

    @property
    def width(self) -> int:
        return len(self.feature)

    @cached_property
    def _numbers(self) -> NDArray[np.intp]:
        return np.flatnonzero(np.isnan(self.category))

    @cached_property
    def _categories(self) -> NDArray[np.intp]:
        return np.flatnonzero(~np.isnan(self.category))

    def columns(self, rows: Rows) -> NDArray[np.float32]:
        """Shape (n, columns)."""
        found = np.empty((len(rows), self.width), dtype=np.float32)
        numbers, categories = self._numbers, self._categories
        if len(numbers):
            picked = rows if self._plain else rows[:, self.feature[numbers]]
            # In double precision, because a large shift would swallow the digits that differ.
            with np.errstate(over="ignore"):  # what single precision cannot hold is infinite
                found[:, numbers] = (picked - self.shift[numbers]) * self.scale[numbers]
        if len(categories):
            found[:, categories] = rows[:, self.feature[categories]] == self.category[categories]
        return found

    @cached_property
    def _plain(self) -> bool:
        return len(self._numbers) == self.width
