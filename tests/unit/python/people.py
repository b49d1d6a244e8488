"""People as a data scientist has them, and a pipeline over them; made up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from voile import Schema
from voile.models import Box, WrappedModel, wrap

DECLARED: dict[str, Any] = {"age": (18, 100), "sex": ["f", "m"], "income": (0, 500_000)}
SCHEMA = Schema(DECLARED)


def people(count: int, seed: int = 0) -> Any:
    """A table with numbers and text, as it was read from a file."""
    draw = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": draw.integers(18, 90, count),
            "sex": draw.choice(["f", "m"], count),
            "income": draw.uniform(0, 200_000, count).round(),
        }
    )


def outcome(table: Any) -> Any:
    """Older men with a large income."""
    score = table.age / 90 + 0.3 * (table.sex == "m") + table.income / 400_000
    return np.where(score > 0.95, "yes", "no")


def pipeline(final: Any = None, table: Any = None, target: Any = None) -> Any:
    """Fitted on other people."""
    table = people(400, seed=9) if table is None else table
    coded = make_column_transformer((OneHotEncoder(), ["sex"]), remainder=StandardScaler())
    steps = make_pipeline(coded, LogisticRegression() if final is None else final)
    return steps.fit(table, outcome(table) if target is None else target)


def quick() -> WrappedModel:
    """A model over the numbers of the schema, for tests that are about something else."""

    def risk(rows: Any) -> Any:
        return 0.4 * rows[:, 0] / 100 + 0.3 * rows[:, 1] + 0.3 * rows[:, 2] / 500_000

    return wrap(risk, outputs=Box(0.0, 1.0), output_names=["risk"], treats_rows_independently=True)
