"""Every kind of release, each as a case for the suite: add yours to `CASES`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from voile.attribution import ExactShapley
from voile.core.guarantee import Adversary, Guarantee, ProtectedUnit, Relation
from voile.core.schema import Categories, Feature, Numbers, Schema
from voile.models import Box, wrap
from voile.privacy.sensitivity import Norm, Sensitivity
from voile.release import (
    PUBLIC,
    ClippedRelease,
    NoisyValues,
    PostProcessed,
    PrivateTopFeatures,
    Release,
    TopFeaturesOfRow,
    trained_privately,
)

SCHEMA = Schema(
    "clinic",
    (
        Feature("age", Numbers(0.0, 100.0), semantic="person"),
        Feature("sex", Categories(("f", "m")), semantic="person"),
        Feature("dose", Numbers(0, 10, whole=True), semantic="treatment"),
    ),
)
DRAW = np.random.default_rng(4)
PEOPLE = np.column_stack(
    [DRAW.uniform(0, 100, 40), DRAW.integers(0, 2, 40), DRAW.integers(0, 11, 40)]
)


def risk(rows: Any) -> Any:
    """A probability with interactions between all three features."""
    score = rows[:, 0] / 50 - rows[:, 1] * rows[:, 2] / 5 + rows[:, 2] * rows[:, 0] / 400 - 0.5
    return 1 / (1 + np.exp(-score))


MODEL = wrap(risk, outputs=Box(0, 1), output_names=["risk"], digest="risk of the tests")
TRAINED = trained_privately(
    Guarantee(
        epsilon=1.0,
        delta=1e-6,
        unit=ProtectedUnit.ROW,
        relation=Relation.BLANK_ONE,
        dataset="training rows",
        against=(Adversary.PUBLIC,),
        computational=False,
        mechanism="output perturbation",
        composition="one release",
    )
)


@dataclass(frozen=True)
class Case:
    """A release, and what it is called with.

    Args:
        build: makes it; two calls give equal releases with the same protected rows.
        rows: what `draw` takes.
        count: how many rows that is, as `cost` counts them.
        values_vary: whether two draws give other values (with probability 1 − 1e-9 or more).
        is_choice: values and notes are a choice out of few, which may or may not repeat.
    """

    build: Callable[[], Release]
    rows: Any
    count: int
    values_vary: bool = True
    is_choice: bool = False


CASES: dict[str, Case] = {
    "post-processed, public": Case(
        lambda: PostProcessed(
            ExactShapley(MODEL, PEOPLE[:5], schema=SCHEMA), [PUBLIC], MODEL.digest, "exact"
        ),
        PEOPLE[:3],
        3,
        values_vary=False,
    ),
    "post-processed, trained privately": Case(
        lambda: PostProcessed(
            ExactShapley(MODEL, PEOPLE[:5], schema=SCHEMA), [TRAINED, PUBLIC], MODEL.digest, "exact"
        ),
        PEOPLE[:3],
        3,
        values_vary=False,
    ),
}

OWN_ROWS: dict[str, Any] = {
    "schema": SCHEMA,
    "dataset": "people",
    "origins": [TRAINED, PUBLIC],
    "model": MODEL.digest,
    "name": "exact",
}
"""What releases about the explained rows themselves have in common."""


def exact() -> ExactShapley:
    return ExactShapley(MODEL, PEOPLE[:5], schema=SCHEMA)


def declared(norm: Norm, unit: ProtectedUnit) -> Sensitivity:
    return Sensitivity(value=0.5, norm=norm, unit=unit, relation=Relation.REPLACE_ONE)


CASES |= {
    "clipped": Case(
        lambda: ClippedRelease(exact(), bound=0.5, epsilon=1.0, delta=1e-5, **OWN_ROWS),
        PEOPLE[:3],
        3,
    ),
    "top features, signed": Case(
        lambda: PrivateTopFeatures(
            exact(),
            k=2,
            output_width=1.0,
            epsilon=1.0,
            delta=1e-5,
            relation=Relation.BLANK_ONE,
            **OWN_ROWS,
        ),
        PEOPLE,
        40,
        is_choice=True,
    ),
    "top features, pure and unsigned": Case(
        lambda: PrivateTopFeatures(
            exact(),
            k=1,
            output_width=1.0,
            epsilon=1.0,
            delta=0.0,
            relation=Relation.REPLACE_ONE,
            signed=False,
            **OWN_ROWS,
        ),
        PEOPLE,
        40,
        is_choice=True,
    ),
    "top features of a row": Case(
        lambda: TopFeaturesOfRow(exact(), k=1, epsilon=1.0, **OWN_ROWS),
        PEOPLE[:3],
        3,
        is_choice=True,
    ),
    "noisy values, Gaussian": Case(
        lambda: NoisyValues(
            declared(Norm.L2, ProtectedUnit.ROW),
            epsilon=1.0,
            delta=1e-5,
            dataset="people",
            feature_names=SCHEMA.feature_names,
        ),
        np.ones((4, 3)),
        4,
    ),
    "noisy values, Laplace, row by row": Case(
        lambda: NoisyValues(
            declared(Norm.L1, ProtectedUnit.EXPLAINED_ROW),
            epsilon=1.0,
            delta=0.0,
            dataset="people",
            feature_names=SCHEMA.feature_names,
        ),
        np.ones((4, 3)),
        4,
    ),
}
