"""Shapley values of tree ensembles, from the trees themselves; shap reads them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from voile.attribution.game import ExplainerSettings
from voile.attribution.inputs import Columns
from voile.attribution.players import Players
from voile.attribution.settings import Progress
from voile.attribution.tree_leaves import grouped_leaves
from voile.attribution.tree_patterns import LeafSums, TreePatterns
from voile.core.errors import InvalidInput
from voile.core.explanation import Explanation
from voile.core.explanation_checks import or_numbered
from voile.core.optional import optional
from voile.models import Model, Rows, wrap

_TREES: Final[Mapping[str, tuple[str, ...]]] = {
    "sklearn": (
        *("DecisionTreeClassifier", "DecisionTreeRegressor", "ExtraTreeClassifier"),
        *("ExtraTreeRegressor", "RandomForestClassifier", "RandomForestRegressor"),
        *("ExtraTreesClassifier", "ExtraTreesRegressor", "GradientBoostingClassifier"),
        *("GradientBoostingRegressor", "HistGradientBoostingClassifier"),
        "HistGradientBoostingRegressor",
    ),
    "lightgbm": ("LGBMClassifier", "LGBMRegressor", "LGBMRanker", "Booster"),
    "xgboost": (
        *("XGBClassifier", "XGBRegressor", "XGBRFClassifier", "XGBRFRegressor", "XGBRanker"),
        "Booster",
    ),
    "catboost": ("CatBoostClassifier", "CatBoostRegressor", "CatBoost"),
}


def is_tree(model: Any) -> bool:
    """Whether it is made of trees, by its name."""
    home = type(model).__module__.partition(".")[0]
    return type(model).__name__ in _TREES.get(home, ())


_SINGLE: Final = ("xgboost", "catboost")
"""They compare in single precision; shap's reading does not say so."""
PATH_DEPENDENT = "absent features follow the paths of the training rows (tree-path-dependent)"


@dataclass(frozen=True, eq=False)
class TreeShapley(ExplainerSettings):
    """Exact values for decision trees, forests and boosting of the kinds that shap reads.

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
    reader: TreeReader = field(init=False, repr=False)
    wrapped: Model = field(init=False, repr=False)
    title: ClassVar[str] = "tree Shapley"
    tag: ClassVar[str] = "tree-shapley"

    def __post_init__(self) -> None:
        wrapped = wrap(self.model)
        columns = self.columns_of(wrapped, self.background)
        rows = None
        if self.background is not None:
            rows = columns.read(self.background, "the background")
            columns = columns.settled(self.background, rows)
        object.__setattr__(self, "wrapped", wrapped)
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "reader", read_trees(wrapped.source, rows))

    def __call__(self, X: Any) -> Explanation:  # noqa: N803
        rows = self.columns.read(X, "X")
        names = self.columns.settled(X, rows).names or ()
        size = self.speed.batch_rows
        parts = []
        for first in range(0, len(rows), size):
            parts.append(self.reader.values(rows[first : first + size]))
            self.speed.report(min(first + size, len(rows)), len(rows))
        values, base = np.concatenate(parts), self.reader.base
        notes = () if self.background is not None else (PATH_DEPENDENT,)
        known = self.wrapped.output_names
        # Boosting for two classes has one score: the names of the classes are not its name.
        fitting = known if known is None or len(known) == values.shape[2] else None
        outputs = or_numbered(fitting, "output", values.shape[2])
        return self.summed(rows, names, values, base, outputs, notes)


class TreeReader(Protocol):
    """Values of an ensemble of trees, on its own scale."""

    @property
    def base(self) -> NDArray[np.float64]:
        """What values are measured from, shape (outputs,)."""

    @property
    def is_large(self) -> bool:
        """Whether a call takes seconds for one row as for many."""

    def values(self, rows: Rows) -> NDArray[np.float64]:
        """Shape (rows, players, outputs); NaN in rows is a missing value."""


@dataclass(frozen=True, eq=False)
class ShapTrees:
    """By `shap.TreeExplainer`."""

    explainer: Any
    is_large: ClassVar[bool] = False

    @property
    def base(self) -> NDArray[np.float64]:
        return np.atleast_1d(np.asarray(self.explainer.expected_value, dtype=np.float64))

    def values(self, rows: Rows) -> NDArray[np.float64]:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "LightGBM binary classifier", UserWarning)
            found = self.explainer.shap_values(rows, check_additivity=False)
        return _three_axes(found, rows.shape[1])


def read_trees(
    source: Any,
    background: Rows | None,
    players: Players | None = None,
    progress: Progress | None = None,
) -> TreeReader:
    """Trees as shap reads them; their values over a background are computed here.

    shap 0.51 compares values at a threshold in another precision than scikit-learn, and its values
    of histogram gradient boosting over a background need not add up.

    Args:
        source: a model that shap knows.
        background: shape (m, d), NaN where a value is missing; None for the paths of training.
        players: who plays, where some features play together.
        progress: told how many parts of the trees have been counted, and of how many.

    Raises:
        InvalidInput: shap cannot read it.
    """
    explainer = _shap_trees(source, background)
    if background is None:
        return ShapTrees(explainer)
    found = TreePatterns.from_ensemble(explainer.model, background, players, progress)
    if found is None and players is not None:
        raise InvalidInput("the trees are too large for columns that play together")
    return found or ShapTrees(explainer)


def read_leaf_sums(source: Any, row: Rows) -> tuple[Any, LeafSums]:
    """An ensemble as shap reads it, and as the function that it is; each feature plays by itself.

    Args:
        row: any that the model takes; shap asks the model about it, so it must be public.

    Raises:
        InvalidInput: shap cannot read it, or its trees are too large.
    """
    ensemble = _shap_trees(source, row[np.newaxis]).model
    groups = grouped_leaves(ensemble, np.arange(len(row)))
    if groups is None:
        raise InvalidInput("the trees are too large")
    sums = LeafSums.from_groups(ensemble, groups)
    home = type(source).__module__.partition(".")[0]
    return ensemble, replace(sums, dtype=np.float32) if home in _SINGLE else sums


def _shap_trees(source: Any, background: Rows | None) -> Any:
    shap = optional("shap", extra="explain")
    way, rows = "tree_path_dependent", background
    if background is not None:  # of a bare array of more than 100 rows, shap draws 100
        way, rows = "interventional", shap.maskers.Independent(background, len(background))
    try:
        return shap.TreeExplainer(source, data=rows, feature_perturbation=way)
    except Exception as error:  # shap raises its own InvalidModelError, and others
        raise InvalidInput(
            f"shap cannot explain a {type(source).__name__} as trees: {error}; use ExactShapley, "
            "KernelShapley or PermutationShapley"
        ) from error


def _three_axes(values: Any, features: int) -> NDArray[np.float64]:
    """shap leaves the output axis out where there is one output."""
    array: NDArray[np.float64] = np.asarray(values, dtype=np.float64)
    if array.ndim == 2 and array.shape[1] == features:
        return array[:, :, np.newaxis]
    return array
