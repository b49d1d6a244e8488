"""How contributions are computed once the method is chosen: one class for each method.

All give the same: values (rows, columns, outputs) of a model's chosen outputs, base values, and
standard errors where values are sampled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from voile.attribution import (
    Evaluations,
    ExactShapley,
    FastShap,
    KernelShapley,
    PermutationShapley,
    Speed,
)
from voile.attribution.trees import TreeReader
from voile.core.explanation import Explanation
from voile.core.row_note import Note
from voile.core.schema import Rows
from voile.models import Outputs, WrappedModel
from voile.python.plain.codec import as_measured
from voile.python.plain.pipelines import SplitPipeline

Values: TypeAlias = NDArray[np.float64]
"""Shape (rows, columns, outputs)."""
Tell: TypeAlias = Callable[[int], None]
"""Told how much of the work was done just now."""


def silent(_done: int) -> None:
    """Nobody wants to know."""


BATCH_ROWS: Final = 1 << 14
"""For models in Python: a call of a pipeline costs as much as hundreds of rows."""
_PART: Final = 256
"""Rows between two reports of methods that are told rows."""


@dataclass(frozen=True, eq=False)
class Attribution:
    """What an engine gives.

    Args:
        values: contributions.
        base: what they are measured from, shape (outputs,).
        errors: standard errors, if values are sampled.
        notes: what must travel with them.
    """

    values: Values
    base: NDArray[np.float64]
    errors: Values | None = None
    notes: tuple[Note, ...] = ()


class Engine(Protocol):
    """Computes contributions of rows that are written as numbers."""

    @property
    def parts(self) -> SplitPipeline:
        """What is explained."""

    def work(self, rows: Rows) -> int:
        """How much there is to do: evaluations of the model, or rows."""

    def explain(self, rows: Rows, tell: Tell) -> Attribution:
        """Contributions to the chosen outputs."""


def summed(values: Values, parts: SplitPipeline) -> Values:
    """Of transformed columns, added up for the columns they are made from."""
    if parts.is_whole:
        return values
    belongs = np.zeros((len(parts.owners), len(parts.whole.codec.columns)))
    belongs[np.arange(len(parts.owners)), parts.owners] = 1.0
    total: Values = np.einsum("rfo,fp->rpo", values, belongs)
    return total


@dataclass(frozen=True, eq=False)
class LinearEngine:
    """w · (x − mean): exact, and no model is asked.

    Args:
        parts: what is explained.
        weights: shape (transformed columns, outputs).
        centre: the mean of the transformed background.
        base: the mean output over it.
    """

    parts: SplitPipeline
    weights: NDArray[np.float64]
    centre: NDArray[np.float64]
    base: NDArray[np.float64]

    def work(self, rows: Rows) -> int:
        return len(rows)

    def explain(self, rows: Rows, tell: Tell) -> Attribution:
        away = as_measured(self.parts.transform(rows)) - self.centre
        values = summed(away[:, :, np.newaxis] * self.weights, self.parts)
        tell(len(rows))
        return Attribution(values, self.base)


@dataclass(frozen=True, eq=False)
class TreeEngine:
    """Exact values from the trees themselves.

    Args:
        parts: what is explained.
        reader: of the trees of the last step; its players are the columns of the table.
        base: the mean output over the background, shape (outputs,), if there is one.
        row_seconds: how long a row took that was explained by itself.
    """

    parts: SplitPipeline
    reader: TreeReader
    base: NDArray[np.float64] | None
    row_seconds: float = 0.0

    def work(self, rows: Rows) -> int:
        return len(rows)

    def explain(self, rows: Rows, tell: Tell) -> Attribution:
        inside, parts = as_measured(self.parts.transform(rows)), []
        for start in range(0, len(rows), _PART):
            parts.append(self.reader.values(inside[start : start + _PART]))
            tell(len(parts[-1]))
        values, base = self._chosen(np.concatenate(parts), self.reader.base)
        return Attribution(values, base if self.base is None else self.base)

    def _chosen(
        self, values: Values, base: NDArray[np.float64]
    ) -> tuple[Values, NDArray[np.float64]]:
        """Of the outputs that are asked for; one score of two classes is given for both."""
        model = self.parts.inner
        if len(model.names) == 2 and values.shape[2] == 1:
            values, base = np.concatenate([-values, values], axis=2), np.append(-base, base)
        places = list(model.places)
        return values[:, :, places], base[places]


@dataclass(frozen=True, eq=False)
class GameEngine:
    """Values by coalitions: all of them, or some that are drawn.

    Args:
        parts: what is explained.
        background: transformed rows.
        kind: the explainer.
        evaluations: for each row, if coalitions are drawn.
        seed: which coalitions are drawn.
    """

    parts: SplitPipeline
    background: Rows
    kind: type[ExactShapley] | type[KernelShapley] | type[PermutationShapley]
    evaluations: int = 20_000
    seed: int = 0

    def work(self, rows: Rows) -> int:
        if self.kind is not ExactShapley:
            return len(rows) * self.evaluations
        return exact_evaluations(self.parts, self.parts.transform(rows), self.background)

    def explain(self, rows: Rows, tell: Tell) -> Attribution:
        found = self._explainer(tell)(self.parts.transform(rows))
        errors = found.standard_errors
        return Attribution(
            in_order(self.parts, found, found.values),
            found.base_values[0],
            None if errors is None else in_order(self.parts, found, errors),
            found.notes,
        )

    def _explainer(self, tell: Tell) -> Any:
        inner = self.parts.inner

        def forward(rows: Rows) -> Outputs:
            tell(len(rows))
            return inner.predict(rows)

        model = WrappedModel(
            forward=forward, identity=str, output_names=inner.output_names, source=inner
        )
        more: dict[str, Any] = {}
        if self.kind is not ExactShapley:
            more = {"effort": Evaluations(self.evaluations), "seed": self.seed}
        names, groups = players(self.parts)
        return self.kind(
            model,
            self.background,
            feature_names=names,
            groups=groups,
            speed=Speed(batch_rows=BATCH_ROWS),
            **more,
        )


def players(parts: SplitPipeline) -> tuple[list[str], dict[str, list[str]] | None]:
    """Names of transformed columns, and who plays: all that is made of one column together."""
    owners = parts.owners.tolist()
    names = [str(place) for place in range(len(owners))]
    groups: dict[str, list[str]] = {}
    for name, owner in zip(names, owners, strict=True):
        groups.setdefault(f"column {owner}", []).append(name)
    return names, None if parts.is_whole else groups


def in_order(parts: SplitPipeline, found: Explanation, values: Values) -> Values:
    """By column of the table; one that no step hands on has no part in it."""
    if parts.is_whole:
        return values
    ordered = np.zeros((len(values), len(parts.whole.codec.columns), values.shape[2]))
    ordered[:, [int(name.removeprefix("column ")) for name in found.feature_names]] = values
    return ordered


def exact_evaluations(parts: SplitPipeline, rows: Rows, background: Rows) -> int:
    """How many coalitions there are of the columns in which rows and background rows differ."""
    owners, columns = parts.owners, len(parts.whole.codec.columns)
    belongs = np.zeros((len(owners), columns))
    belongs[np.arange(len(owners)), owners] = 1.0
    total = 0.0
    for row in rows:
        differ = ((row != background).astype(np.float64) @ belongs > 0).sum(axis=1)
        total += float((2.0**differ).sum())
    return int(total)


@dataclass(frozen=True, eq=False)
class LearnedEngine:
    """A network that was trained to give the values in one pass.

    Args:
        parts: what is explained.
        explainer: the network.
    """

    parts: SplitPipeline
    explainer: FastShap

    def work(self, rows: Rows) -> int:
        return len(rows)

    def explain(self, rows: Rows, tell: Tell) -> Attribution:
        found = self.explainer(self.parts.transform(rows))
        tell(len(rows))
        values = in_order(self.parts, found, found.values)
        return Attribution(values, found.base_values[0], notes=found.notes)
