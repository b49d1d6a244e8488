"""A small made-up problem that trains in a second or two."""

from __future__ import annotations

from functools import cache

import numpy as np

from voile.attribution.fastshap import (
    FastShap,
    KernelRegression,
    Surrogate,
    draw_rows,
    train_explainer,
    train_surrogate,
)
from voile.core.randomness import Seeded
from voile.core.schema import Categories, Feature, Numbers, Schema
from voile.models import Outputs, Rows, Simplex, WrappedModel
from voile.training import TrainingPlan

SCHEMA = Schema(
    "made up",
    (
        Feature("age", Numbers(0, 100, whole=True), default=50),
        Feature("colour", Categories(("red", "green", "blue"))),
        Feature("height", Numbers(1.0, 2.0)),
        Feature("kind", Categories((1, 2))),
    ),
)
GROUPS = {"body": ("age", "height")}
PLAN = TrainingPlan(steps=500, batch_rows=128, hidden=(32, 32), peak_rate=1e-2)


def probabilities(rows: Rows) -> Outputs:
    age, colour, height, kind = rows.T
    score = age / 25 - 2 + 1.5 * (colour == 1) - 2 * (height - 1.5) * (kind == 0)
    yes = 1 / (1 + np.exp(-score))
    return np.stack([1 - yes, yes], axis=1)


def model() -> WrappedModel:
    return WrappedModel(
        forward=probabilities,
        identity=lambda: "made up",
        outputs=Simplex(),
        output_names=("no", "yes"),
    )


def rows(count: int, seed: int = 0) -> Rows:
    return draw_rows(SCHEMA, count, np.random.default_rng(seed))


@cache
def surrogate(grouped: bool = False) -> Surrogate:
    return train_surrogate(
        model(),
        rows(4_000),
        source=Seeded(0),
        schema=SCHEMA,
        groups=GROUPS if grouped else None,
        plan=PLAN,
    )


@cache
def explainer(grouped: bool = False) -> FastShap:
    return train_explainer(
        surrogate(grouped), rows(4_000), source=Seeded(1), plan=PLAN, objective=KernelRegression(8)
    )
