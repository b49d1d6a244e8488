"""The page of Python as it is written, and made data for it: adult-like rows and a pipeline."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import voile

PAGE: Final = '''
import voile

# 1  ordinary attributions, like shap, on your DataFrame and your pipeline as they are
why = voile.Explainer(model, X_train)(X_test)
why[0].plot(); why.plot("beeswarm"); why.to_frame()

# 2  a schema: from public rows, from a declaration, or drafted for you to confirm
schema = voile.Schema.from_frame(X_public)              # public rows only; says so
schema = voile.Schema({"age": (18, 100), "sex": ["f", "m"], "income": (0, 500_000)})

# 3  a budget; embedded SQLite by default, PostgreSQL by URL, in memory for a try-out
budget = voile.Budget("clinic 2026", epsilon=3, delta=1e-6)             # ./voile.db
budget = voile.Budget.in_memory("try-out", epsilon=3, delta=1e-6)       # says: nothing is kept

# 4  one person explained over private background rows: price first, then pay
explainer = voile.Explainer(model, X_private, protect="background", schema=schema, budget=budget,
                            model_origin="trained-on:clinic 2025")     # refused without it: the promise rests on it
print(explainer.preview(X_new, epsilon=0.1))
why = explainer(X_new, epsilon=0.1)

# 5  which features matter in a protected population
voile.importance(model, X_private, background=X_public, schema=schema, budget=budget, epsilon=0.5,
                 model_origin="trained-on:clinic 2025")

# 6  train privately once, then explain for ever: a scikit-learn estimator
clf = voile.PrivateClassifier(schema=schema, classes=["no", "yes"], epsilon=1, delta=1e-6).fit(X, y)
clf.predict_proba(X_new); clf.explain(X_new); clf.guarantee_
voile.PrivateRegressor(...)                                             # the same for numbers

# 7  several parties, in one process for a trial; the same call takes files or a SuperLink
run = voile.federate({"north": df1, "south": df2}, label="readmitted", schema=schema, epsilon=2, delta=1e-5)
run.model; run.explain(X_new); run.report("report.html")

# 8  proof
why.save("why.voile"); why.receipt.save("why.tlog-proof")
voile.verify("why.voile", "why.tlog-proof", policy="audit-policy.toml")
'''  # fmt: skip  # noqa: E501


def people(count: int, seed: int) -> pd.DataFrame:
    """Rows with what is to be predicted; the older and the poorer are readmitted more often."""
    draw = np.random.default_rng(seed)
    age = draw.integers(18, 101, count)
    income = draw.gamma(2.0, 30_000.0, count).clip(0, 500_000)
    score = (age - 60) / 12 - income / 60_000 + 1
    sick = draw.random(count) < 1 / (1 + np.exp(-score))
    return pd.DataFrame(
        {
            "age": age,
            "sex": draw.choice(["f", "m"], count),
            "income": income,
            "readmitted": np.where(sick, "yes", "no"),
        }
    )


def prepared() -> dict[str, Any]:
    """Every name that the page takes as given."""
    table = people(4_000, 0)
    X, y = table.drop(columns="readmitted"), table["readmitted"]  # noqa: N806
    prepare = make_column_transformer(
        (OneHotEncoder(sparse_output=False), ["sex"]), (StandardScaler(), ["age", "income"])
    )
    model = make_pipeline(prepare, LogisticRegression()).fit(X[:500], y[:500])
    labelled = voile.Schema(
        {
            "age": (18, 100),
            "sex": ["f", "m"],
            "income": (0, 500_000),
            "readmitted": ["no", "yes"],
        }
    )
    return {
        "model": model,
        "X": X,
        "y": y,
        "X_train": X[:60],
        "X_test": X[500:520],
        "X_new": X[520:521],
        "X_public": X[600:630],
        "X_private": X[1_000:1_100],
        "df1": people(2_000, 1),
        "df2": people(1_500, 2),
        "labelled_schema": labelled,
    }
