"""How contributions are computed once the method is chosen: one class for each method.

All give the same: values (rows, columns, outputs) of a model's chosen outputs, base values, and
standard errors where values are sampled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
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
from voile.attribution.fastshap import train_explainer, train_surrogate
from voile.core.explanation import Explanation
from voile.core.randomness import Seeded
from voile.core.row_note import Note
from voile.core.schema import Rows
from voile.models import Outputs, WrappedModel
from voile.python.codec import MISSING
from voile.python.pipelines import SplitPipeline

Values: TypeAlias = NDArray[np.float64]
"""Shape (rows, columns, outputs)."""
Tell: TypeAlias = Callable[[int], None]
"""Told how much of the work was done just now."""

BATCH_ROWS: Final = 1 << 14
"""For models in Python: a call of a pipeline costs as much as hundreds of rows."""
_PART: Final = 32
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

    parts: SplitPipeline

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


def plain(rows: Rows) -> Rows:
    """Numbers with NaN where nothing stands."""
    return np.where(rows == MISSING, np.nan, rows)


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
        away = plain(self.parts.transform(rows)) - self.centre
        values = summed(away[:, :, np.newaxis] * self.weights, self.parts)
        tell(len(rows))
        return Attribution(values, self.base)


@dataclass(frozen=True, eq=False)
class TreeEngine:
    """Exact values from the trees themselves.

    Args:
        parts: what is explained.
        explainer: `voile.attribution.TreeShapley` of the last step.
    """

    parts: SplitPipeline
    explainer: Any

    def work(self, rows: Rows) -> int:
        return len(rows)

    def explain(self, rows: Rows, tell: Tell) -> Attribution:
        inside, parts = plain(self.parts.transform(rows)), []
        for start in range(0, len(rows), _PART):
            parts.append(self.explainer.values(inside[start : start + _PART]))
            tell(len(parts[-1]))
        values, base = self.chosen(np.concatenate(parts), self.explainer.base)
        return Attribution(summed(values, self.parts), base)

    def chosen(
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
        return Attribution(
            self._in_order(found, found.values),
            found.base_values[0],
            None if found.standard_errors is None else self._in_order(found, found.standard_errors),
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
        names, groups = self._players()
        return self.kind(
            model,
            self.background,
            feature_names=names,
            groups=groups,
            speed=Speed(batch_rows=BATCH_ROWS),
            **more,
        )

    def _players(self) -> tuple[list[str], dict[str, list[str]] | None]:
        """Columns play; all that is made of one plays together."""
        owners = self.parts.owners.tolist()
        names = [str(place) for place in range(len(owners))]
        groups: dict[str, list[str]] = {}
        for name, owner in zip(names, owners, strict=True):
            groups.setdefault(f"column {owner}", []).append(name)
        return names, None if self.parts.is_whole else groups

    def _in_order(self, found: Explanation, values: Values) -> Values:
        """By column of the table; one that no step hands on has no part in it."""
        if self.parts.is_whole:
            return values
        shape = (len(values), len(self.parts.whole.codec.columns), values.shape[2])
        ordered = np.zeros(shape)
        places = [int(name.removeprefix("column ")) for name in found.feature_names]
        ordered[:, places] = values
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
        found = self.explainer(rows)
        tell(len(rows))
        return Attribution(found.values, found.base_values[0], notes=found.notes)


@dataclass(frozen=True, eq=False)
class Learning:
    """Trains a network on the background.

    Args:
        parts: what is explained.
        background: rows written as numbers.
        seed: of the training.
    """

    parts: SplitPipeline
    background: Rows
    seed: int = 0
    tell: Tell = field(default=lambda done: None)

    STEPS: Final = 6_000

    def trained(self) -> LearnedEngine:
        """Takes about a minute."""
        model, source = self.parts.whole, Seeded(self.seed)
        wrapped = WrappedModel(
            forward=model.predict,
            identity=str,
            output_names=model.output_names,
            feature_names=model.codec.names,
        )
        surrogate = train_surrogate(wrapped, self.background, source=source)
        return LearnedEngine(self.parts, train_explainer(surrogate, self.background, source=source))
