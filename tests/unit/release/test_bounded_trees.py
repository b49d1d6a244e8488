"""Charged values of trees are those of all coalitions, where every condition for that holds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray

from voile.attribution import CONSTANT_WORK, Speed, trees
from voile.attribution.tree_leaves import leaves_of
from voile.attribution.trees import read_leaf_sums
from voile.core.guarantee import Protected
from voile.core.schema import Feature, Numbers, Schema
from voile.models import Box, raw_scores, wrap
from voile.release import PUBLIC, PrivateBackgroundShapley, bounded_trees
from voile.release.bounded_trees import FROM_LEAVES
from voile.release.levels import PrivateInteractions

pytestmark = pytest.mark.filterwarnings("ignore")
DRAW = np.random.default_rng(5)
ROWS = DRAW.uniform(0, 1, (200, 5)).round(1)
TARGET = ROWS[:, 0] * ROWS[:, 1] + np.sin(5 * ROWS[:, 2]) / 2 + (ROWS[:, 3] > 0.5) * 0.3
TWO, THREE = np.median(TARGET) < TARGET, np.digitize(TARGET, np.quantile(TARGET, [0.3, 0.6]))
BACKGROUND = ROWS[:40].copy()
BACKGROUND[[3, 17]] = np.nan  # null records
EXPLAINED = ROWS[50:54]
WIDE = Box(-40.0, 40.0)
SLOW = Speed(short_cuts=CONSTANT_WORK)


def schema_of(features: int) -> Schema:
    return Schema("t", tuple(Feature(f"f{i}", Numbers(0, 1)) for i in range(features)))


def released(
    model: Any,
    background: Any = None,
    *,
    kind: Any = PrivateBackgroundShapley,
    relation: str = "blank one",
    **more: Any,
) -> Any:
    rows = BACKGROUND if background is None else background
    return kind(
        model,
        rows,
        schema=schema_of(rows.shape[1]),
        protected=Protected("row", relation, "people"),  # type: ignore[arg-type]
        epsilon=1.0,
        delta=1e-6,
        origins=[PUBLIC],
        **more,
    )


def forest(labels: Any) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(10, random_state=0).fit(ROWS, labels)


def regressor(count: int = 10) -> Any:
    from sklearn.ensemble import GradientBoostingRegressor

    return GradientBoostingRegressor(n_estimators=count, random_state=0).fit(ROWS, TARGET)


def models() -> Iterator[tuple[str, Any]]:
    from catboost import CatBoostClassifier, CatBoostRegressor
    from lightgbm import LGBMClassifier, LGBMRegressor
    from sklearn.ensemble import (
        ExtraTreesRegressor,
        GradientBoostingClassifier,
        HistGradientBoostingClassifier,
        HistGradientBoostingRegressor,
    )
    from sklearn.tree import DecisionTreeClassifier
    from xgboost import XGBClassifier, XGBRegressor

    yield "forest, one class", wrap(forest(TWO)).only("True")
    yield "forest, three classes", wrap(forest(THREE))
    yield "forest, two of three", wrap(forest(THREE)).only("2", "0")
    yield "tree", wrap(DecisionTreeClassifier(random_state=0).fit(ROWS, TWO)).only("False")
    yield "extra trees", wrap(ExtraTreesRegressor(8).fit(ROWS, TARGET), outputs=Box(-1, 2))
    yield "boosting", wrap(regressor(), outputs=WIDE)
    boosted = GradientBoostingClassifier(n_estimators=8)
    yield "log-odds", raw_scores(boosted.fit(ROWS, TWO), WIDE)
    yield (
        "histograms",
        wrap(HistGradientBoostingRegressor(max_iter=8).fit(ROWS, TARGET), outputs=WIDE),
    )
    hist = HistGradientBoostingClassifier(max_iter=5)
    yield "histograms, log-odds", raw_scores(hist.fit(ROWS, THREE), WIDE)
    light = {"n_estimators": 8, "verbose": -1}
    yield "LightGBM", wrap(LGBMRegressor(**light).fit(ROWS, TARGET), outputs=WIDE)
    yield "LightGBM, log-odds", raw_scores(LGBMClassifier(**light).fit(ROWS, TWO), WIDE)
    yield "XGBoost", wrap(XGBRegressor(n_estimators=8).fit(ROWS, TARGET), outputs=WIDE)
    yield (
        "XGBoost, log-odds",
        raw_scores(XGBClassifier(n_estimators=8).fit(ROWS, TWO.astype(int)), WIDE),
    )
    cat = {"iterations": 8, "depth": 3, "verbose": 0, "allow_writing_files": False}
    yield "CatBoost", wrap(CatBoostRegressor(**cat).fit(ROWS, TARGET), outputs=WIDE)
    yield (
        "CatBoost, log-odds",
        raw_scores(CatBoostClassifier(**cat).fit(ROWS, TWO.astype(int)), WIDE),
    )


MODELS = dict(models())


@pytest.mark.parametrize("name", MODELS)
def test_values_and_base_are_those_of_all_coalitions(name: str) -> None:
    model = MODELS[name]
    fast = released(model)
    assert fast.games.leaf_sums is not None
    # XGBoost adds up in single precision: its own answers are off by so much, not the values.
    digits = 1e-6 if "XGBoost" in name else 1e-9
    slow = released(replace(model, treats_rows_independently=True), speed=SLOW)
    assert slow.games.leaf_sums is None
    found, expected = fast.before_noise(EXPLAINED), slow.before_noise(EXPLAINED)
    assert_allclose(found, expected, atol=digits, rtol=0)


def test_many_rows_and_one_are_the_same() -> None:
    release = released(wrap(forest(TWO)).only("True"))
    together = release.before_noise(EXPLAINED)
    alone = [release.before_noise(row[np.newaxis])[0] for row in EXPLAINED]
    assert_allclose(together, alone, atol=1e-12)


def test_every_background_row_is_counted() -> None:
    background = DRAW.uniform(0, 1, (500, 5))
    background[:30] = np.nan
    games = released(wrap(forest(TWO)).only("True"), background).games
    for part in games.patterns.parts:
        assert (part.counts.sum(axis=1, dtype=int) == 470).all()


@pytest.mark.parametrize("count", [1, 4])
def test_null_records_alone_say_what_is_explained_and_nothing_else(count: int) -> None:
    release = released(wrap(forest(TWO)).only("True"), np.full((count, 5), np.nan))
    even = (forest(TWO).predict_proba(EXPLAINED)[:, 1] - 0.5) / 5
    found = release.before_noise(EXPLAINED)
    assert_allclose(found[:, :5, 0], np.repeat(even[:, np.newaxis], 5, axis=1), atol=1e-12)
    assert_allclose(found[:, 5], 0.5)


# --- conditions -----------------------------------------------------------------------------------


def test_a_range_that_leaves_can_exceed_is_clamped_and_both_ways_are_previewed() -> None:
    model = regressor(30)
    said = model.predict(DRAW.uniform(0, 1, (5_000, 5)))
    declared = Box(float(said.min()), float(said.max()))
    release = released(wrap(model, outputs=declared))
    found = release.games.trees
    assert not found.fits
    assert release.games.leaf_sums is None
    exact = released(wrap(model, outputs=declared), speed=SLOW)
    assert_allclose(release.before_noise(EXPLAINED), exact.before_noise(EXPLAINED), atol=1e-9)
    (remark,) = (each for each in release.preview(1).remarks if "declared" in each)
    assert f"{found.lower[0]:.4g} and {found.upper[0]:.4g}" in remark
    wide = released(wrap(model, outputs=Box(float(found.lower[0]), float(found.upper[0]))))
    assert wide.games.leaf_sums is not None
    assert FROM_LEAVES in wide.preview(1).remarks
    times = wide.sensitivity.value / release.sensitivity.value
    assert f"{times:.3g} times the noise" in remark


def test_probabilities_of_boosting_are_no_sums_of_leaves() -> None:
    from lightgbm import LGBMClassifier
    from sklearn.ensemble import GradientBoostingClassifier

    for model in (
        GradientBoostingClassifier(n_estimators=5),
        LGBMClassifier(n_estimators=5, verbose=-1),
    ):
        assert released(wrap(model.fit(ROWS, TWO)).only("True")).games.trees is None


@pytest.mark.parametrize(
    "more",
    [
        {"speed": SLOW},
        {"speed": Speed(short_cuts=replace(CONSTANT_WORK, equal_players=True))},
        {"groups": {"a": ("f0", "f1"), "b": ("f2", "f3", "f4")}},
        {"kind": PrivateInteractions},
    ],
    ids=["constant work", "half of it", "groups", "interactions"],
)
def test_else_coalitions_are_enumerated(more: Any) -> None:
    release = released(wrap(forest(TWO)).only("True"), **more)
    assert release.games.leaf_sums is None
    assert release.before_noise(EXPLAINED[:1]).shape[0] == 1


def test_above_sixteen_players_coalitions_are_drawn_as_before() -> None:
    from sklearn.tree import DecisionTreeRegressor

    rows = DRAW.uniform(0, 1, (60, 17))
    tree = DecisionTreeRegressor(random_state=0).fit(rows, rows.sum(axis=1))
    release = released(wrap(tree, outputs=Box(0, 20)), rows[:5])
    assert release.games.designs is not None
    assert release.games.leaf_sums is None


def test_what_is_not_made_of_trees_is_not_handed_to_shap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_trees, "read_leaf_sums", None)
    assert released(wrap(lambda x: x.mean(axis=1), outputs=Box(0, 1))).games.trees is None


def test_trees_that_are_not_what_the_model_answers_are_left_alone() -> None:
    tree = wrap(regressor(), outputs=WIDE)
    bent = replace(tree, forward=lambda rows: regressor().predict(rows) + 0.01 * rows[:, 0])
    assert released(bent).games.trees is None


def test_leaves_that_cancel_each_other_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model = wrap(regressor(), outputs=WIDE)
    monkeypatch.setattr(bounded_trees, "_STEADY", 1e-3)
    assert released(model).games.trees is None


def test_no_record_is_shown_to_the_model_or_to_shap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values, base and f(x) follow from the leaves."""
    release = released(wrap(forest(TWO)).only("True"))
    assert release.games.leaf_sums is not None
    blind = SimpleNamespace(predict=None, outputs=release.games.bounded.model.outputs)
    games = replace(release.games, game=replace(release.games.game, model=blind))
    monkeypatch.setattr(trees, "optional", None)  # what would load shap
    object.__setattr__(release, "games", games)
    assert release.before_noise(EXPLAINED).shape == (4, 6, 1)


# --- bounds ---------------------------------------------------------------------------------------


def test_sums_of_leaves_lie_between_the_bounds_and_reach_them() -> None:
    found = released(wrap(regressor(3), outputs=WIDE)).games.trees
    model = regressor(3)
    ensemble, _ = read_leaf_sums(model, ROWS[0])
    made = model.estimators_[:, 0]
    ends = leaves_of(ensemble)
    each_tree = [values[end, 0] for values, end in zip(ensemble.values, ends, strict=True)]
    assert [len(each) for each in each_tree] == [tree.get_n_leaves() for tree in made]
    sums = np.array([sum(each) for each in product(*each_tree)]) + ensemble.base_offset
    assert_allclose([sums.min(), sums.max()], [found.lower[0], found.upper[0]], atol=1e-12)
    assert_allclose(found.sums.outputs(ROWS)[:, 0], regressor(3).predict(ROWS), atol=1e-12)


def corners(features: int) -> NDArray[np.float64]:
    return np.array(list(product([0.0, 1.0], repeat=features)))


def trees_of_corners(features: int) -> Iterator[Any]:
    """Every function of zeros and ones, as a tree that answers 0 or 1."""
    from sklearn.tree import DecisionTreeRegressor

    rows = corners(features)
    tables = list(product([0.0, 1.0], repeat=len(rows)))
    step = max(1, len(tables) // 64)
    for table in tables[1::step]:
        if len(set(table)) > 1:
            yield DecisionTreeRegressor(random_state=0).fit(rows, table)


@pytest.mark.parametrize("features", [2, 3])
@pytest.mark.parametrize("relation", ["blank one", "replace one"])
def test_no_neighbour_moves_values_and_base_by_more_than_the_bound(
    features: int, relation: str
) -> None:
    """Searched over all functions of zeros and ones: it comes near the bound, and not beyond."""
    rows, largest, bound = corners(features), 0.0, math.nan
    for tree in trees_of_corners(features):
        model = wrap(tree, outputs=Box(0.0, 1.0))

        def joint(other: NDArray[np.float64], model: Any = model) -> Any:
            release = released(model, np.vstack([rows[0], other]), relation=relation)
            assert release.games.leaf_sums is not None
            return release, release.before_noise(rows)[..., 0]

        release, _ = joint(rows[0])
        bound = release.sensitivity.value
        found = [joint(other)[1] for other in rows]
        null = joint(np.full(features, np.nan))[1]
        pairs = product(found, [null] if relation == "blank one" else found)
        for one, other in pairs:
            largest = max(largest, float(np.linalg.norm(one - other, axis=1).max()))
    assert 0.7 * bound <= largest <= bound
