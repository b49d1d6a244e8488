"""Values of trees by patterns of leaves are those of all coalitions, to the last digits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray

from voile.attribution import ExactShapley, tree_leaves, tree_patterns
from voile.attribution.players import Players
from voile.attribution.tree_patterns import TreePatterns
from voile.attribution.trees import ShapTrees, read_trees

pytestmark = pytest.mark.filterwarnings("ignore:The set_:PendingDeprecationWarning")

DRAW = np.random.default_rng(3)
ROWS = DRAW.normal(size=(80, 5)).round(1)
"""One digit: many values stand at a threshold, where precision decides."""
TARGET = ROWS[:, 0] * ROWS[:, 1] + np.sin(3 * ROWS[:, 2]) + (ROWS[:, 3] > 0)
LABELS = (TARGET > 0.5).astype(int)


def forest() -> Any:
    from sklearn.ensemble import RandomForestRegressor

    return RandomForestRegressor(n_estimators=8, random_state=0).fit(ROWS, TARGET)


def exact(model: Any, background: NDArray[np.float64] = ROWS) -> NDArray[np.float64]:
    found: NDArray[np.float64] = ExactShapley(model, background)(ROWS[:10]).values
    return found


def test_a_forest_of_deep_trees() -> None:
    model = forest()
    reader = read_trees(model, ROWS)
    assert isinstance(reader, TreePatterns)
    assert_allclose(reader.values(ROWS[:10]), exact(model), atol=1e-12)
    assert_allclose(reader.base, model.predict(ROWS).mean(), atol=1e-12)


def test_several_outputs() -> None:
    from sklearn.tree import DecisionTreeClassifier

    model = DecisionTreeClassifier(random_state=0).fit(ROWS, np.digitize(TARGET, [0.0, 1.0]))
    found = read_trees(model, ROWS[:30])
    assert_allclose(found.values(ROWS[:10]), exact(model, ROWS[:30]), atol=1e-12)


def test_missing_values_go_where_the_trees_send_them() -> None:
    from sklearn.ensemble import HistGradientBoostingRegressor

    holes = np.where(DRAW.random(ROWS.shape) < 0.2, np.nan, ROWS)
    model = HistGradientBoostingRegressor(max_iter=10).fit(holes, TARGET)
    sentinel = -1e6
    as_finite = np.nan_to_num(holes, nan=sentinel)
    asked = ExactShapley(
        lambda rows: model.predict(np.where(rows == sentinel, np.nan, rows)), as_finite
    )
    found = read_trees(model, holes)
    assert_allclose(found.values(holes[:10]), asked(as_finite[:10]).values, atol=1e-12)


def test_features_that_play_together() -> None:
    model = forest()
    owner = np.array([0, 1, 0, 2, 1])
    groups = {"a": ("0", "2"), "b": ("1", "4"), "c": ("3",)}
    names = [str(place) for place in range(5)]
    expected = ExactShapley(model, ROWS, groups=groups, feature_names=names)(ROWS[:10])
    found = read_trees(model, ROWS, Players(("a", "b", "c"), owner))
    assert_allclose(found.values(ROWS[:10]), expected.values, atol=1e-12)


def test_a_large_forest_keeps_counts_only(monkeypatch: pytest.MonkeyPatch) -> None:
    model = forest()
    expected = read_trees(model, ROWS).values(ROWS[:10])
    monkeypatch.setattr(tree_patterns, "_KEPT", 0)
    reader = read_trees(model, ROWS)
    assert reader.is_large
    assert_allclose(reader.values(ROWS[:10]), expected, atol=1e-13)
    assert_allclose(reader.values(ROWS[:2]), expected[:2], atol=1e-13)


def test_what_is_too_large_is_left_to_shap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_leaves, "MOST", 10)
    assert isinstance(read_trees(forest(), ROWS), ShapTrees)


def test_boosting_in_single_precision() -> None:
    import xgboost

    model = xgboost.XGBClassifier(n_estimators=10).fit(ROWS, LABELS)
    asked = ExactShapley(lambda rows: model.predict(rows, output_margin=True), ROWS)
    found = read_trees(model, ROWS).values(ROWS[:10])
    assert_allclose(found, asked(ROWS[:10]).values, atol=1e-6)
