"""Sums over protected rows, as whole numbers, without noise. A null row adds nothing to any.

Counts are of rows that are not null. Their number is private and never leaves: each row is centred
before it is summed, which is the same as taking their *own* number n₊ for the centring. With the
public number of rows in its place a blanked row would move every cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput
from voile.core.schema import FeatureValues, Rows, Schema, is_table
from voile.core.schema.cells import raw_column, read_numbers
from voile.models.additive.bins import Codes
from voile.release.records import Records

Whole: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class LabelledRecords:
    """Rows inside the schema, their class (0 or 1), and which of them are null.

    A row is null if nothing in it can be read, or its label cannot be.

    Args:
        rows: shape (n, d); the schema's defaults stand for what cannot be read.
        labels: shape (n,); 0 or 1, and 0 for null rows, which are never counted.
        null: shape (n,).

    >>> from voile.core.schema import Categories, Feature, Label
    >>> levels = Categories(("no", "yes"))
    >>> schema = Schema("people", (Feature("smoker", levels),), Label("ill", levels))
    >>> found = LabelledRecords.read({"smoker": ["no", "yes"], "ill": ["yes", "?"]}, schema)
    >>> found.labels.tolist(), found.null.tolist()
    ([1, 0], [False, True])
    """

    rows: Rows = field(repr=False)
    labels: NDArray[np.intp] = field(repr=False)
    null: NDArray[np.bool_] = field(repr=False)

    @classmethod
    def read(cls, given: Any, schema: Schema, labels: Any = None) -> LabelledRecords:
        """From a table of raw values, or an array of rows with labels beside it.

        Only public structure raises: a missing column, another number of labels than of rows. A
        party without rows has none, and sends noise as others do.

        Args:
            labels: as `Schema.labels` gives them; left out for a table, which has a column.
        """
        if isinstance(given, cls):  # perhaps not by `read`, so it is brought inside again
            given, labels = given.rows, np.where(given.null, np.nan, given.labels)
        found = Records.read_any(given, schema)
        if labels is None and not is_table(given):
            raise InvalidInput("an array of rows needs labels beside it")
        classes = schema.labels(given) if labels is None else _numbers(labels)
        if classes.shape != (len(found),):
            raise InvalidInput(f"expected {len(found)} labels, found shape {classes.shape}")
        readable = (classes == 0) | (classes == 1)
        return cls(
            found.rows, np.where(readable, classes, 0).astype(np.intp), found.blank | ~readable
        )

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def present(self) -> LabelledRecords:
        """Without null rows. How many are left is private."""
        kept = ~self.null
        return LabelledRecords(self.rows[kept], self.labels[kept], self.null[kept])


def _numbers(labels: Any) -> FeatureValues:
    """Whatever is no number is no label."""
    return read_numbers(raw_column(labels, "labels")).values


def cell_table(codes: NDArray[np.intp], labels: NDArray[np.intp], cells: int) -> Whole:
    """How many rows of each class lie in each cell, shape (cells, 2)."""
    return np.bincount(2 * codes + labels, minlength=2 * cells).reshape(cells, 2).astype(np.int64)


def centred_sums(codes: Codes, labels: NDArray[np.intp], bins: Sequence[int]) -> list[Whole]:
    """K·Σz of each feature, then K·Σt·z of each, then Σt: in the order of the noise.

    A row in bin k adds K·e_k − 1 to the first of a feature with K bins, t = ±1 times that to the
    second, and t to the last.
    """
    tables = [cell_table(codes[:, place], labels, count) for place, count in enumerate(bins)]
    present, sign = len(labels), np.array([-1, 1])
    total = int((2 * labels - 1).sum())
    counts = [
        count * table.sum(axis=1) - present for count, table in zip(bins, tables, strict=True)
    ]
    turned = [count * (table @ sign) - total for count, table in zip(bins, tables, strict=True)]
    return [*counts, *turned, np.array([total], dtype=np.int64)]


def centred_products(codes: Codes, bins: Sequence[int]) -> list[Whole]:
    """K_j·K_k·Σ z_j z_kᵀ of each pair j < k, once. A row adds (K_j·e − 1)(K_k·e − 1)ᵀ."""
    found = []
    for one, first in enumerate(bins):
        for two in range(one + 1, len(bins)):
            second = bins[two]
            joint = np.bincount(codes[:, one] * second + codes[:, two], minlength=first * second)
            table = joint.reshape(first, second).astype(np.int64)
            rows, columns = table.sum(axis=1, keepdims=True), table.sum(axis=0, keepdims=True)
            found.append(first * second * table - first * rows - second * columns + len(codes))
    return found
