"""Made data for the page of Python: adult-like rows, and a pipeline over a DataFrame with text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import voile


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
        "X_train": X[:100],
        "X_test": X[500:520],
        "X_new": X[520:521],
        "X_public": X[600:700],
        "X_private": X[1_000:2_000],
        "df1": people(2_000, 1),
        "df2": people(1_500, 2),
        "labelled_schema": labelled,
    }
