"""What a model predicts, as whole numbers: classes, or a number on a public grid.

Each row has a vector t, and `scale`·t holds whole numbers. With two classes t is −1 or 1, with C
classes e_y − 1/C, and a number lies on a grid in [−1, 1]. A row that has no label has t = 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput
from voile.core.schema import Categories, FeatureValues, Numbers, Schema
from voile.release.statistics.rule import RULE

Whole: TypeAlias = NDArray[np.int64]
_WIDEST: Final = 1e100
"""Between the bounds of a number: its fourth power is still a number."""


@dataclass(frozen=True)
class ClassTarget:
    """One of several classes. A row adds 1 to the label cell of its class.

    >>> ClassTarget(3).table(np.array([0, 0, 1]), np.array([2, 0, 2]), 2).tolist()
    [[1, 0, 1], [0, 0, 1]]
    """

    count: int
    unit = 1
    """What a row adds to all label cells of a table together, and at most to one of them."""
    is_number = False

    @property
    def columns(self) -> int:
        """Label cells for each cell of a feature."""
        return self.count

    @property
    def largest(self) -> int:
        """The last label as it is coded, from 0 on."""
        return self.count - 1

    @property
    def parts(self) -> int:
        """Of t: one for two classes, else one for each class."""
        return 1 if self.count == 2 else self.count

    @property
    def scale(self) -> int:
        """By which t is multiplied to be whole."""
        return 1 if self.count == 2 else self.count

    @property
    def squared_length(self) -> float:
        """Of t."""
        return 1.0 if self.count == 2 else 1 - 1 / self.count

    @cached_property
    def signs(self) -> Whole:
        """`scale`·t of a row with this label cell, shape (columns, parts)."""
        if self.count == 2:
            return np.array([[-1], [1]], dtype=np.int64)
        return self.count * np.eye(self.count, dtype=np.int64) - 1

    @property
    def sections(self) -> tuple[str, ...]:
        """Of the rule, in addition to those for two classes."""
        return () if self.count == 2 else ("target",)

    def coded(self, labels: FeatureValues) -> FeatureValues:
        """Labels inside the schema as they are counted; NaN stays."""
        return labels

    def table(self, codes: NDArray[np.intp], labels: NDArray[np.intp], cells: int) -> Whole:
        """How many rows of each class lie in each cell, shape (cells, columns)."""
        size = self.columns
        counts = np.bincount(size * codes + labels, minlength=size * cells)
        return counts.reshape(cells, size).astype(np.int64)


@dataclass(frozen=True)
class NumberTarget:
    """A number between two bounds, on a grid of `steps` equal steps.

    A row at step u adds `steps` − u to one label cell and u to the other.

    >>> target = NumberTarget(0.0, 10.0, 4)
    >>> target.coded(np.array([0.0, 5.1, 10.0])).tolist()
    [0.0, 2.0, 4.0]
    >>> target.table(np.array([0, 0, 1]), np.array([0, 2, 4]), 2).tolist()
    [[6, 2], [0, 4]]
    """

    lower: float
    upper: float
    steps: int
    columns = 2
    parts = 1
    squared_length = 1.0
    """At most."""
    is_number = True
    sections = ("target",)

    def __post_init__(self) -> None:
        if not self.upper - self.lower < _WIDEST:
            raise InvalidInput(
                f"the label may lie between {self.lower:g} and {self.upper:g}, which is too far "
                "apart to compute with; declare narrower bounds in the schema"
            )
        if self.steps < 2 or self.steps % 2:
            raise InvalidInput(f"a grid has an even number of steps, found {self.steps}")

    @property
    def unit(self) -> int:
        """What a row adds to all label cells of a table together, and at most to one of them."""
        return self.steps

    @property
    def largest(self) -> int:
        return self.steps

    @property
    def scale(self) -> int:
        return self.steps

    @cached_property
    def signs(self) -> Whole:
        return np.array([[-1], [1]], dtype=np.int64)

    def coded(self, labels: FeatureValues) -> FeatureValues:
        """The nearest step of each label."""
        share = (labels - self.lower) / (self.upper - self.lower)
        return np.rint(share * self.steps)

    def table(self, codes: NDArray[np.intp], labels: NDArray[np.intp], cells: int) -> Whole:
        """What rows add to both label cells of each cell, shape (cells, 2)."""
        found = np.zeros((cells, 2), dtype=np.int64)
        np.add.at(found, codes, np.column_stack([self.steps - labels, labels]))
        return found

    def squares(self, labels: NDArray[np.intp]) -> Whole:
        """`steps`²·(t² − ½) of each row: whole, because `steps` is even."""
        return (2 * labels.astype(np.int64) - self.steps) ** 2 - self.steps**2 // 2

    @property
    def half_width(self) -> float:
        """Of the label, for one of t."""
        return (self.upper - self.lower) / 2

    @property
    def middle(self) -> float:
        """Of the label, where t is 0."""
        return self.lower + self.half_width


Target: TypeAlias = ClassTarget | NumberTarget


def target_of(schema: Schema) -> Target:
    """What the label of a schema makes of rows; `InvalidInput` for a schema without one."""
    domain = None if schema.label is None else schema.label.domain
    if isinstance(domain, Categories) and len(domain.values) > 1:
        return ClassTarget(len(domain.values))
    if isinstance(domain, Numbers):
        return NumberTarget(float(domain.lower), float(domain.upper), RULE.target.steps)
    raise InvalidInput(
        f"expected a label in the schema {schema.name!r}: a number, or at least two classes"
    )


def labels_of(given: Any, schema: Schema, target: Target) -> tuple[NDArray[np.intp], Any]:
    """Labels in numbers as they are counted, and which of them can be read."""
    assert schema.label is not None
    with np.errstate(all="ignore"):
        found = target.coded(schema.label.domain.settle(given, math.nan))
    return coded_labels(found, target)


def coded_labels(found: Any, target: Target) -> tuple[NDArray[np.intp], Any]:
    """The same, for labels that are coded already."""
    with np.errstate(all="ignore"):
        readable = (found >= 0) & (found <= target.largest) & (np.rint(found) == found)
    return np.where(readable, found, 0).astype(np.intp), readable
