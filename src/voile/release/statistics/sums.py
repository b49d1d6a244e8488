"""Sums over protected rows, as whole numbers, without noise. A null row adds nothing to any.

Counts are of rows that are not null. Their number is private and never leaves: each row is centred
before it is summed, which is the same as taking their *own* number n₊ for the centring. With the
public number of rows in its place a blanked row would move every cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput
from voile.core.schema import FeatureValues, Rows, Schema, is_table
from voile.core.schema.cells import raw_column, read_numbers
from voile.models.additive.bins import Codes
from voile.release.records import Records
from voile.release.statistics.targets import (
    ClassTarget,
    NumberTarget,
    Target,
    Whole,
    coded_labels,
    labels_of,
    target_of,
)

TWO_CLASSES: Final = ClassTarget(2)


@dataclass(frozen=True, eq=False)
class LabelledRecords:
    """Rows inside the schema, their labels, and which of them are null.

    A row is null if nothing in it can be read, or its label cannot be.

    Args:
        rows: shape (n, d); the schema's defaults stand for what cannot be read.
        labels: shape (n,); the class from 0 on, or the step of a number on its public grid, and 0
            for null rows, which are never counted.
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
        target = target_of(schema)
        found = Records.read_any(given.rows if isinstance(given, cls) else given, schema)
        if isinstance(given, cls):  # perhaps not by `read`, so it is brought inside again
            coded, readable = coded_labels(np.where(given.null, np.nan, given.labels), target)
        else:
            coded, readable = labels_of(_labels(given, labels, schema), schema, target)
        if coded.shape != (len(found),):
            raise InvalidInput(f"expected {len(found)} labels, found shape {coded.shape}")
        return cls(found.rows, coded, found.blank | ~readable)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def present(self) -> LabelledRecords:
        """Without null rows. How many are left is private."""
        kept = ~self.null
        return LabelledRecords(self.rows[kept], self.labels[kept], self.null[kept])


def _labels(given: Any, labels: Any, schema: Schema) -> FeatureValues:
    """In numbers; whatever is none is no label."""
    if labels is not None:
        return read_numbers(raw_column(labels, "labels")).values
    if not is_table(given):
        raise InvalidInput("an array of rows needs labels beside it")
    return schema.labels(given)


def cell_table(codes: NDArray[np.intp], labels: NDArray[np.intp], cells: int) -> Whole:
    """How many rows of each of two classes lie in each cell, shape (cells, 2)."""
    return TWO_CLASSES.table(codes, labels, cells)


def centred_sums(
    codes: Codes, labels: NDArray[np.intp], bins: Sequence[int], target: Target = TWO_CLASSES
) -> list[Whole]:
    """K·Σz of each feature, then s·K·Σz·tᵀ of each, then s·Σt: in the order of the noise.

    A row in bin k adds K·e_k − 1 to the first of a feature with K bins, s·t times that to the
    second, and s·t to the last, s being the target's scale. A number has one figure more:
    s²·Σ(t² − ½).
    """
    present = len(labels)
    total = (
        np.zeros(target.parts, dtype=np.int64)
        + _label_sums(target, np.zeros(present, dtype=np.intp), labels, 1)[0]
    )
    counts, turned = [], []
    for place, count in enumerate(bins):
        column = codes[:, place]
        counts.append(count * np.bincount(column, minlength=count).astype(np.int64) - present)
        sums = count * _label_sums(target, column, labels, count) - total
        turned.append(sums[:, 0] if target.parts == 1 else sums)
    squares = [np.array([target.squares(labels).sum()])] if isinstance(target, NumberTarget) else []
    return [*counts, *turned, total, *squares]


def _label_sums(
    target: Target, codes: NDArray[np.intp], labels: NDArray[np.intp], count: int
) -> Whole:
    """s·Σt of the rows in each bin, shape (bins, parts)."""
    return target.table(codes, labels, count) @ target.signs


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
