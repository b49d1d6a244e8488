"""Attributions from gradients: along a path from a baseline, or at the row itself."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from voile.attribution.game import ExplainerSettings, output_names
from voile.attribution.inputs import Columns
from voile.core.errors import InvalidInput
from voile.core.explanation import Explanation
from voile.core.row_note import KnownNote
from voile.models import DifferentiableModel, Outputs, Rows, wrap


@lru_cache(maxsize=64)
def points_and_weights(steps: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Points in [0, 1] and weights that add up to 1 (Gauss and Legendre), shape (steps,) each."""
    if steps < 1:
        raise InvalidInput(f"integrated gradients need at least 1 step, found {steps}")
    points, weights = np.polynomial.legendre.leggauss(steps)
    return (1 + points) / 2, weights / 2


@dataclass(frozen=True, eq=False)
class _GradientExplainer(ExplainerSettings):
    """What both methods need: a model with gradients, and its columns."""

    model: Any
    wrapped: DifferentiableModel = field(init=False, repr=False)
    columns: Columns = field(init=False, repr=False)

    def __post_init__(self) -> None:
        given = isinstance(self.model, DifferentiableModel)
        wrapped: Any = self.model if given else wrap(self.model)
        if not wrapped.has_gradient:
            raise InvalidInput(
                "this method needs gradients: wrap a torch module, pass `gradient=` to `wrap`, or "
                "use a method without them (ExactShapley, KernelShapley, PermutationShapley)"
            )
        object.__setattr__(self, "wrapped", wrapped)
        object.__setattr__(self, "columns", self.columns_of(wrapped, self.example))

    @property
    def example(self) -> Any:
        """Rows that may name the features."""
        return None

    def read(self, given: Any) -> tuple[Rows, tuple[str, ...]]:
        rows = self.columns.read(given, "X")
        return rows, self.columns.settled(given, rows).names or ()

    def explanation(
        self,
        rows: Rows,
        names: tuple[str, ...],
        values: NDArray[np.float64],
        base: NDArray[np.float64],
        notes: tuple[str, ...] = (),
    ) -> Explanation:
        outputs = output_names(self.wrapped, values.shape[2])
        return self.summed(rows, names, values, base, outputs, notes)


@dataclass(frozen=True, eq=False)
class IntegratedGradients(_GradientExplainer):
    """The gradient, averaged along the straight path from a baseline, times the distance.

    Attributions add up to f(x) − f(baseline), up to the error of the quadrature. All steps of a row
    go through the model in one batch.

    Args (in addition to those of `ExplainerSettings`):
        model: a torch module, or anything with `gradient=` given to `voile.models.wrap`.
        baseline: the row to start from, shape (d,), or several rows, over which attributions are
            averaged; without one, the null row of the schema, or else zeros.
        steps: points of the path, as Gauss and Legendre place and weigh them.

    >>> squares = wrap(lambda x: (x**2).sum(axis=1), gradient=lambda x, output: 2 * x)
    >>> found = IntegratedGradients(squares, [0.0, 0.0], feature_names=("a", "b"))([[3.0, 2.0]])
    >>> found.values.ravel().round(6).tolist()
    [9.0, 4.0]
    """

    baseline: Any = None
    _: KW_ONLY
    steps: int = 50
    title: ClassVar[str] = "integrated gradient"
    tag: ClassVar[str] = "integrated-gradients"

    def __post_init__(self) -> None:
        points_and_weights(self.steps)
        super().__post_init__()

    @property
    def example(self) -> Any:
        return self.baseline

    def __call__(self, X: Any) -> Explanation:  # noqa: N803
        rows, names = self.read(X)
        starts, base = self._starts(rows.shape[1])
        outputs = len(base)
        values = np.empty((*rows.shape, outputs))
        together = max(1, self.speed.batch_rows // (self.steps * len(starts)))
        for first in range(0, len(rows), together):
            part = rows[first : first + together]
            for output in range(outputs):
                values[first : first + together, :, output] = self._along(part, starts, output)
            self.speed.report(min(first + together, len(rows)), len(rows))
        return self.explanation(rows, names, values, base)

    def _along(self, rows: Rows, starts: Rows, output: int) -> NDArray[np.float64]:
        points, weights = points_and_weights(self.steps)
        way = rows - starts[:, np.newaxis]  # (starts, rows, features)
        path = starts[:, np.newaxis] + points[:, np.newaxis, np.newaxis, np.newaxis] * way
        found = self.wrapped.gradient(path.reshape(-1, rows.shape[1]), output)
        mean = (weights @ found.reshape(self.steps, -1)).reshape(way.shape)
        apart = mean * way
        together: NDArray[np.float64] = apart[0] if len(starts) == 1 else apart.mean(axis=0)
        return together

    @cached_property
    def _given(self) -> Rows | None:
        if self.baseline is None:
            return None if self.schema is None else self.schema.null_row[np.newaxis]
        one = not hasattr(self.baseline, "keys") and np.ndim(self.baseline) == 1
        given = np.asarray(self.baseline)[np.newaxis] if one else self.baseline
        return self.columns.read(given, "the baseline")

    @cached_property
    def _known(self) -> dict[int, tuple[Rows, Outputs]]:
        return {}

    def _starts(self, width: int) -> tuple[Rows, Outputs]:
        """The baselines, and what the model says about them on average, shape (outputs,)."""
        if width not in self._known:
            starts = np.zeros((1, width)) if self._given is None else self._given
            if starts.shape[1] != width:
                raise InvalidInput(
                    f"the baseline must have {width} features, found {starts.shape[1]}"
                )
            self._known[width] = starts, self.wrapped.predict(starts.copy()).mean(axis=0)
        return self._known[width]


@dataclass(frozen=True, eq=False)
class Gradient(_GradientExplainer):
    """The gradient at the row itself, or with `times_input` multiplied by the row's values.

    Says how the output would change with a small change of each feature; the values do not add up
    to anything. The base value is the prediction itself.

    Args (in addition to those of `ExplainerSettings`):
        model: a torch module, or anything with `gradient=` given to `voile.models.wrap`.
        times_input: multiply by the row's values.

    >>> squares = wrap(lambda x: (x**2).sum(axis=1), gradient=lambda x, output: 2 * x)
    >>> Gradient(squares, feature_names=("a", "b"))([[3.0, 2.0]]).values.ravel().tolist()
    [6.0, 4.0]
    """

    _: KW_ONLY
    times_input: bool = False
    title: ClassVar[str] = "gradient"
    tag: ClassVar[str] = "gradient"

    def __call__(self, X: Any) -> Explanation:  # noqa: N803
        rows, names = self.read(X)
        size = self.speed.batch_rows
        parts, base = [], []
        for first in range(0, len(rows), size):
            part = rows[first : first + size]
            base.append(self.wrapped.predict(part.copy()))
            slopes = [self.wrapped.gradient(part, k) for k in range(base[0].shape[1])]
            parts.append(np.stack(slopes, axis=2))
            self.speed.report(min(first + size, len(rows)), len(rows))
        values = np.concatenate(parts)
        if self.times_input:
            values = values * rows[:, :, np.newaxis]
        return self.explanation(
            rows, names, values, np.concatenate(base), notes=(KnownNote.NOT_ADDITIVE,)
        )
