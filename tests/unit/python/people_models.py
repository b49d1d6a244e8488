"""Tables and models as people bring them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

DRAW = np.random.default_rng(0)
COUNT = 120
PEOPLE = pd.DataFrame(
    {
        "age": DRAW.integers(18, 90, COUNT),
        "sex": DRAW.choice(["f", "m"], COUNT),
        "job": pd.Categorical(DRAW.choice(["farm", "office", "trade"], COUNT)),
        "income": DRAW.normal(3e4, 1e4, COUNT).round(),
        "member": DRAW.random(COUNT) < 0.3,
        "joined": pd.Timestamp("2020-01-01")
        + pd.to_timedelta(DRAW.integers(0, 900, COUNT), unit="D"),
    }
)
PEOPLE.loc[DRAW.random(COUNT) < 0.1, "income"] = np.nan
PEOPLE.loc[DRAW.random(COUNT) < 0.1, "sex"] = None
ANSWER = np.where((PEOPLE.age > 50) ^ (PEOPLE.sex == "f") ^ PEOPLE.member, "yes", "no")


def days(column: Any) -> Any:
    return column.to_numpy().astype("datetime64[D]").astype(np.float64)


def pipeline(final: Any) -> Any:
    """Numbers filled in and scaled, words one-hot, truth values as they are, days counted."""
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

    words = make_pipeline(
        SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore")
    )
    columns = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), ["age", "income"]),
        (words, ["sex", "job"]),
        ("passthrough", ["member"]),
        (make_pipeline(FunctionTransformer(days), StandardScaler()), ["joined"]),
    )
    return make_pipeline(columns, final).fit(PEOPLE, ANSWER)
