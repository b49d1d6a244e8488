"""Bins of features: which values share a score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput
from voile.core.schema import Categories, Feature, FeatureValues, Rows, Schema

Codes: TypeAlias = NDArray[np.intp]
"""Shape (n, features): the bin of each value."""


@dataclass(frozen=True)
class FeatureBins:
    """The bins of one feature.

    >>> FeatureBins("age", edges=(39.5, 64.5)).codes(np.array([18.0, 64.0, 65.0])).tolist()
    [0, 1, 2]
    >>> FeatureBins("colour", groups=(0, 1, 0)).count
    2

    Args:
        name: of the feature.
        edges: of numbers, rising; a value on an edge belongs to the bin below.
        groups: of categories, the bin of each level of the schema. One of both is given.
    """

    name: str
    edges: tuple[float, ...] | None = None
    groups: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if (self.edges is None) == (self.groups is None):
            raise InvalidInput(f"bins of {self.name!r} have either edges or groups")
        if self.edges is not None and not all(np.diff(self.edges) > 0):
            raise InvalidInput(f"edges of {self.name!r} must rise, found {self.edges}")
        if self.groups is not None and set(self.groups) != set(range(self.count)):
            raise InvalidInput(f"groups of {self.name!r} must be numbered from 0 without gaps")

    @property
    def ordered(self) -> bool:
        """Whether neighbouring bins hold neighbouring values."""
        return self.edges is not None

    @property
    def count(self) -> int:
        return len(self.edges) + 1 if self.edges is not None else max(self.groups or (-1,)) + 1

    def codes(self, values: FeatureValues) -> NDArray[np.intp]:
        """The bin of each value of a row inside the schema."""
        if self.edges is not None:
            return np.searchsorted(np.array(self.edges, dtype=np.float64), values, side="left")
        return np.array(self.groups, dtype=np.intp)[values.astype(np.intp)]

    def described(self, feature: Feature) -> list[dict[str, Any]]:
        """What lies in each bin, in plain values for JSON."""
        domain = feature.domain
        if isinstance(domain, Categories):
            groups = self.groups or ()
            return [
                {
                    "values": [
                        domain.values[place] for place, group in enumerate(groups) if group == k
                    ]
                }
                for k in range(self.count)
            ]
        lower, upper = domain.declaration()["bounds"]
        ends = [lower, *(self.edges or ()), upper]
        return [{"from": ends[k], "to": ends[k + 1]} for k in range(self.count)]


def bin_codes(bins: Sequence[FeatureBins], schema: Schema, rows: Rows) -> Codes:
    """The bin of every value; rows are inside the schema. Each row is looked at by itself."""
    places = {name: place for place, name in enumerate(schema.feature_names)}
    found = np.empty((len(bins), len(rows)), dtype=np.intp).T  # column by column
    for column, feature in enumerate(bins):
        found[:, column] = feature.codes(rows[:, places[feature.name]])
    return found


def bin_slices(bins: Sequence[FeatureBins]) -> list[slice]:
    """Where the bins of each feature lie when all are put one after the other."""
    ends = np.cumsum([0, *(feature.count for feature in bins)]).tolist()
    return [slice(start, end) for start, end in pairwise(ends)]
