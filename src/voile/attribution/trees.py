"""Shapley values of tree ensembles, computed by shap from the trees themselves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from voile.attribution.game import ExplainerSettings
from voile.attribution.inputs import Columns
from voile.core.errors import InvalidInput
from voile.core.explanation import Explanation
from voile.core.explanation_checks import or_numbered
from voile.core.optional import optional
from voile.models import Model, Rows, wrap

PATH_DEPENDENT = "absent features follow the paths of the training rows (tree-path-dependent)"


@dataclass(frozen=True, eq=False)
class TreeShapley(ExplainerSettings):
    """Exact values for decision trees, forests and boosting, by `shap.TreeExplainer`.

    What is explained is the model's own scale: probabilities for forests of scikit-learn, log-odds
    for boosting.

    Args (in addition to those of `ExplainerSettings`):
        model: a tree model that shap knows.
        background: with it, the interventional values that `ExactShapley` gives, too; without it,
            another game, in which absent features follow the paths of the training rows (a note in
            the explanation says so).

    >>> from sklearn.tree import DecisionTreeRegressor
    >>> rows = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> tree = DecisionTreeRegressor(random_state=0).fit(rows, rows[:, 0])
    >>> TreeShapley(tree, rows)([[1.0, 1.0]]).values.ravel().tolist()
    [0.5, 0.0]
    """

    model: Any
    background: Any = None
    columns: Columns = field(init=False, repr=False)
    explainer: Any = field(init=False, repr=False)
    wrapped: Model = field(init=False, repr=False)
    title: ClassVar[str] = "tree Shapley"
    tag: ClassVar[str] = "tree-shapley"

    def __post_init__(self) -> None:
        shap = optional("shap", extra="explain")
        wrapped = wrap(self.model)
        columns = self.columns_of(wrapped, self.background)
        rows = None
        if self.background is not None:
            rows = columns.read(self.background, "the background")
            columns = columns.settled(self.background, rows)
        object.__setattr__(self, "wrapped", wrapped)
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "explainer", _explainer(shap, wrapped.source, rows))

    def __call__(self, X: Any) -> Explanation:  # noqa: N803
        rows = self.columns.read(X, "X")
        names = self.columns.settled(X, rows).names or ()
        size = self.speed.batch_rows
        parts = []
        for first in range(0, len(rows), size):
            part = self.explainer.shap_values(rows[first : first + size], check_additivity=False)
            parts.append(_three_axes(part, rows.shape[1]))
            self.speed.report(min(first + size, len(rows)), len(rows))
        values = np.concatenate(parts)
        base = np.atleast_1d(np.asarray(self.explainer.expected_value, dtype=np.float64))
        notes = () if self.background is not None else (PATH_DEPENDENT,)
        known = self.wrapped.output_names
        # Boosting for two classes has one score: the names of the classes are not its name.
        fitting = known if known is None or len(known) == values.shape[2] else None
        outputs = or_numbered(fitting, "output", values.shape[2])
        return self.summed(rows, names, values, base, outputs, notes)


def _explainer(shap: Any, source: Any, background: Rows | None) -> Any:
    way = "tree_path_dependent" if background is None else "interventional"
    try:
        return shap.TreeExplainer(source, data=background, feature_perturbation=way)
    except Exception as error:  # shap raises its own InvalidModelError, and others
        raise InvalidInput(
            f"shap cannot explain a {type(source).__name__} as trees: {error}; use ExactShapley, "
            "KernelShapley or PermutationShapley"
        ) from error


def _three_axes(values: Any, features: int) -> Any:
    """shap leaves the output axis out where there is one output."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim == 2 and array.shape[1] == features:
        return array[:, :, np.newaxis]
    return array
