"""How long the same work takes: `python -m experiments.models_and_tables.timing`.

Model and background in, values out; both have loaded and compiled before the clock starts.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from benchmarks.harness import Figure, alternate, compare, write

import voile
from experiments.models_and_tables.cases import (
    as_table,
    coded,
    decoded,
    mixed,
    pipeline,
    target,
)

Run = Callable[[], Any]
ROUNDS = 3


def clocked(run: Run) -> Callable[[], float]:
    def once() -> float:
        start = time.perf_counter()
        run()
        return time.perf_counter() - start

    return once


def ours(model: Any, background: Any, rows: Any, **options: Any) -> Run:
    return lambda: voile.Explainer(model, background, progress=False, **options)(rows)


def masker(background: Any) -> Any:
    import shap

    return shap.maskers.Independent(np.asarray(background, dtype=float), len(background))


def trees() -> dict[str, tuple[Run, Run]]:
    """30 columns of numbers, 400 background rows, 100 rows."""
    import shap
    from catboost import CatBoostClassifier
    from lightgbm import LGBMClassifier
    from sklearn.datasets import load_breast_cancer
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from xgboost import XGBClassifier

    rows, labels = load_breast_cancer(return_X_y=True)
    background, some = rows[:400], rows[400:500]
    models = [
        RandomForestClassifier(100, random_state=0),
        HistGradientBoostingClassifier(),
        LGBMClassifier(verbose=-1),
        XGBClassifier(),
        CatBoostClassifier(n_estimators=100, verbose=0, allow_writing_files=False),
    ]

    def theirs(model: Any) -> Run:
        return lambda: shap.TreeExplainer(model, masker(background)).shap_values(
            some, check_additivity=False
        )

    return {
        f"trees: {type(model).__name__}, 30 columns, 400 × 100 rows": (
            ours(model.fit(rows, labels), background, some),
            theirs(model),
        )
        for model in models
    }


def numbers_exactly() -> dict[str, tuple[Run, Run]]:
    """All coalitions of 4 and of 10 columns of numbers."""
    import shap
    from sklearn.datasets import load_diabetes, load_iris
    from sklearn.neural_network import MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    iris, diabetes = load_iris(), load_diabetes()
    vectors = SVC().fit(iris.data, iris.target)
    network = make_pipeline(
        StandardScaler(), MLPRegressor(hidden_layer_sizes=(16,), max_iter=50, random_state=0)
    )
    network.fit(diabetes.data, diabetes.target)

    def theirs(says: Any, rows: Any, some: Any) -> Run:
        return lambda: shap.explainers.Exact(says, masker(rows))(some)

    return {
        "exact: SVC, 4 columns, 100 × 50 rows": (
            ours(vectors, iris.data[:100], iris.data[100:]),
            theirs(vectors.decision_function, iris.data[:100], iris.data[100:]),
        ),
        "exact: pipeline of MLPRegressor, 10 columns, 100 × 20 rows": (
            ours(network, diabetes.data[:100], diabetes.data[-20:], method="exact"),
            theirs(network.predict, diabetes.data[:100], diabetes.data[-20:]),
        ),
    }


def words() -> dict[str, tuple[Run, Run]]:
    """Pipelines over text; shap gets codes, and a function that reads them."""
    import shap
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.neighbors import KNeighborsClassifier

    columns = mixed()
    part = {name: column[:100] for name, column in columns.items()}
    some = {name: column[-50:] for name, column in columns.items()}

    def both(final: Any) -> tuple[Run, Run]:
        model = pipeline(final, "pandas")
        model.fit(as_table(columns, "pandas"), target(columns, 2))

        def says(codes: Any) -> Any:
            return model.predict_proba(as_table(decoded(codes, columns), "pandas"))[:, 1]

        return (
            ours(model, as_table(part, "pandas"), as_table(some, "pandas")),
            lambda: shap.explainers.Exact(says, masker(coded(part)))(coded(some)),
        )

    shape = "6 columns with text, 100 × 50 rows"
    return {
        f"pipeline of RandomForestClassifier, {shape}": both(RandomForestClassifier(100)),
        f"pipeline of KNeighborsClassifier, {shape}": both(KNeighborsClassifier()),
    }


def sampled() -> dict[str, tuple[Run, Run]]:
    """20,000 evaluations a row."""
    import shap

    draw = np.random.default_rng(0)
    rows, weights = draw.normal(size=(120, 20)), draw.normal(size=(20, 16))

    def says(given: Any) -> Any:
        return np.tanh(np.asarray(given) @ weights).sum(axis=1)

    def theirs() -> Any:
        explainer = shap.explainers.Permutation(says, masker(rows[:100]))
        return explainer(rows[100:], max_evals=200)

    return {"sampled: 20 columns, 20,000 evaluations a row": (
        ours(says, rows[:100], rows[100:]), theirs
    )}  # fmt: skip


def main() -> int:
    warnings.simplefilter("ignore")
    figures: list[Figure] = []
    for cases in (trees, numbers_exactly, words, sampled):
        for what, (mine, theirs) in cases().items():
            own, peer = alternate([clocked(mine), clocked(theirs)], rounds=ROUNDS)
            figures.append(compare(what, "s", own, peer))
            print(figures[-1], flush=True)
    write(
        "models_and_tables_time",
        "shap on the same rows and background",
        figures,
        command="python -m experiments.models_and_tables.timing",
        seed="0, data of scikit-learn",
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
