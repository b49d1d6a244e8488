"""Exact values of trees beside shap's TreeExplainer: plain, and charged over a private background.

Both explain the same rows over the same background: shap keeps 100 rows unless it is told
otherwise, so it gets a masker of the full size. A case is CPU of one thread, from the fitted model
to the values of all rows (reading the trees included), and of one more row after that. Charged
releases add noise and clamp rows; nothing is written to a ledger.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy is loaded

import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import Figure, alternate, compare, write
from voile.attribution import CONSTANT_WORK, Speed, TreeShapley
from voile.core.guarantee import Protected
from voile.core.schema import Feature, Numbers, Schema
from voile.models import Box, WrappedModel, raw_scores, wrap
from voile.release import PUBLIC, PrivateBackgroundShapley

SEED = 11
FEATURES, TRAINED_ON, BACKGROUND, EXPLAINED, TREES = 10, 2_000, 200, 40, 100
AT_MOST = 1.1
SCHEMA = Schema("drawn", tuple(Feature(f"f{i}", Numbers(0, 1)) for i in range(FEATURES)))
Array = NDArray[np.float64]


def run() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        draw = np.random.default_rng(SEED)
        rows = draw.uniform(0, 1, (TRAINED_ON, FEATURES))
        score = rows[:, 0] * rows[:, 1] + np.sin(5 * rows[:, 2]) / 2 + (rows[:, 3] > rows[:, 4])
        labels = (score > np.median(score)).astype(int)
        background, explained = rows[:BACKGROUND], rows[-EXPLAINED:]
        figures = [
            figure
            for name, model, wrapped in models(rows, labels)
            for figure in case(name, model, wrapped, background, explained)
        ]
        figures.append(enumerated(rows, labels, background, explained[:2]))
    write("trees", "shap 0.51, TreeExplainer over the same background", figures, seed=SEED)


def models(rows: Array, labels: Array) -> Iterator[tuple[str, Any, WrappedModel]]:
    from catboost import CatBoostClassifier
    from lightgbm import LGBMClassifier
    from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
    from xgboost import XGBClassifier

    forest = RandomForestClassifier(TREES, random_state=0).fit(rows, labels)
    yield "forest of 100 trees", forest, wrap(forest).only("1")
    scores = Box(-60.0, 60.0)
    quiet = {"verbose": 0, "allow_writing_files": False, "random_seed": 0}
    boosted = {
        "scikit-learn boosting": GradientBoostingClassifier(n_estimators=TREES, random_state=0),
        "LightGBM": LGBMClassifier(n_estimators=TREES, verbose=-1, n_jobs=1),
        "XGBoost": XGBClassifier(n_estimators=TREES, n_jobs=1),
        "CatBoost": CatBoostClassifier(iterations=TREES, thread_count=1, **quiet),
    }
    for name, model in boosted.items():
        model.fit(rows, labels)
        yield f"{name}, 100 trees", model, raw_scores(model, scores)


def case(
    name: str, model: Any, wrapped: WrappedModel, background: Array, explained: Array
) -> list[Figure]:
    """Plain and charged beside shap: all rows from the model on, and one more row."""
    made: dict[str, Any] = {}

    def shap_rows() -> float:
        return spent(lambda: made.update(shap=by_shap(model, background)(explained)))

    def plain_rows() -> float:
        return spent(lambda: made.update(plain=plain(model, background)(explained)))

    def charged_rows() -> float:
        return spent(lambda: charged(wrapped, background).draw(explained))

    peer, ours, paid = alternate([shap_rows, plain_rows, charged_rows], rounds=3)
    release = charged(wrapped, background)
    assert release.games.leaf_sums is not None
    found = release.before_noise(explained)[:, :-1, 0]
    # XGBoost and shap add up in single precision in places.
    apart = np.abs(found - made["shap"].reshape(found.shape)).max()
    assert apart < 1e-4, f"{name}: {apart}"
    again = by_shap(model, background), plain(model, background), release.draw
    one = [lambda ask=ask: spent(lambda: ask(explained[:1])) for ask in again]
    peer_one, ours_one, paid_one = (1e3 * each for each in alternate(one, rounds=9))
    return [
        compare(f"{name}: plain, 40 rows", "CPU s", ours, peer, at_most=AT_MOST),
        compare(f"{name}: charged, 40 rows", "CPU s", paid, peer, at_most=AT_MOST),
        compare(f"{name}: plain, one more row", "CPU ms", ours_one, peer_one, at_most=AT_MOST),
        compare(f"{name}: charged, one more row", "CPU ms", paid_one, peer_one, at_most=AT_MOST),
    ]


def enumerated(rows: Array, labels: Array, background: Array, explained: Array) -> Figure:
    """What a charged row of the forest takes with constant work, which enumerates coalitions."""
    from sklearn.ensemble import RandomForestClassifier

    forest = wrap(RandomForestClassifier(TREES, random_state=0).fit(rows, labels)).only("1")
    leaves, all_of_them = (
        charged(forest, background, Speed(short_cuts=cuts) if cuts else Speed())
        for cuts in (None, CONSTANT_WORK)
    )
    near = np.abs(leaves.before_noise(explained) - all_of_them.before_noise(explained)).max()
    assert near < 1e-9, near
    slow = spent(lambda: all_of_them.draw(explained)) / len(explained)
    return Figure("forest of 100 trees: charged by coalitions, a row", "CPU s", slow, None, None)


def by_shap(model: Any, background: Array) -> Callable[[Array], Array]:
    import shap

    masker = shap.maskers.Independent(background, max_samples=len(background))
    explainer = shap.TreeExplainer(model, masker, feature_perturbation="interventional")
    assert len(explainer.data) == len(background), "shap took fewer rows"

    def values(rows: Array) -> Array:
        found = np.asarray(explainer.shap_values(rows, check_additivity=False))
        return found[..., -1] if found.ndim == 3 else found

    return values


def plain(model: Any, background: Array) -> Callable[[Array], Array]:
    explainer = TreeShapley(model, background)
    return lambda rows: explainer(rows).values


def charged(
    model: WrappedModel, background: Array, speed: Speed | None = None
) -> PrivateBackgroundShapley:
    return PrivateBackgroundShapley(
        model,
        background,
        schema=SCHEMA,
        protected=Protected("row", "blank one", "drawn"),  # type: ignore[arg-type]
        epsilon=1.0,
        delta=1e-6,
        origins=[PUBLIC],
        speed=speed or Speed(),
    )


def spent(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start
