"""From scores to predictions, by what the label is: two classes, several classes, or a number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput
from voile.core.schema import Categories, Numbers, Schema
from voile.models.outputs import Box, DeclaredOutputs, Outputs, Simplex

Scores: TypeAlias = NDArray[np.float64]
"""Shape (n,) for one score of a row, (n, classes) for several classes."""


@dataclass(frozen=True)
class TwoClasses:
    """One score: the log-odds of the second class."""

    names: tuple[str, ...]
    columns = 1

    @property
    def outputs(self) -> DeclaredOutputs:
        return Simplex()

    @property
    def score_names(self) -> tuple[str, ...]:
        return (f"log-odds of {self.names[1]}",)

    @property
    def meaning(self) -> str:
        return f"log-odds of {self.names[1]!r}, around the mean of a feature"

    def predictions(self, scores: Scores) -> Outputs:
        from scipy.special import expit

        positive = expit(scores)
        return np.column_stack([1 - positive, positive])


@dataclass(frozen=True)
class SeveralClasses:
    """A score for each class: its log-odds against the mean class (the geometric mean)."""

    names: tuple[str, ...]

    @property
    def outputs(self) -> DeclaredOutputs:
        return Simplex()

    @property
    def columns(self) -> int:
        return len(self.names)

    @property
    def score_names(self) -> tuple[str, ...]:
        return tuple(f"log-odds of {name} against the mean class" for name in self.names)

    @property
    def meaning(self) -> str:
        return "log-odds of each class against the mean class, around the mean of a feature"

    def predictions(self, scores: Scores) -> Outputs:
        raised = np.exp(scores - scores.max(axis=1, keepdims=True))
        found: Outputs = raised / raised.sum(axis=1, keepdims=True)
        return found


@dataclass(frozen=True)
class Number:
    """One score: the number itself, in its own unit. Predictions stay within the label's bounds."""

    name: str
    lower: float
    upper: float
    columns = 1

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name,)

    @property
    def outputs(self) -> DeclaredOutputs:
        return Box(self.lower, self.upper)

    @property
    def score_names(self) -> tuple[str, ...]:
        return (self.name,)

    @property
    def meaning(self) -> str:
        return f"{self.name!r} in its own unit, around the mean of a feature"

    def predictions(self, scores: Scores) -> Outputs:
        found: Outputs = np.clip(scores, self.lower, self.upper)[:, np.newaxis]
        return found


Link: TypeAlias = TwoClasses | SeveralClasses | Number


def link_of(schema: Schema) -> Link:
    """What the scores of a model mean; `InvalidInput` for a schema without a label.

    >>> from voile.datasets.clinic import SCHEMA
    >>> link_of(SCHEMA).score_names
    ('log-odds of yes',)
    """
    label = schema.label
    domain = None if label is None else label.domain
    if label is not None and isinstance(domain, Categories) and len(domain.values) > 1:
        names = tuple(map(str, domain.values))
        return TwoClasses(names) if len(names) == 2 else SeveralClasses(names)
    if label is not None and isinstance(domain, Numbers):
        return Number(label.name, float(domain.lower), float(domain.upper))
    raise InvalidInput(
        f"expected a label in the schema {schema.name!r}, with two classes or more, or a number"
    )
