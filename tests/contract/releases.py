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
from voile.release import PUBLIC, PostProcessed, Release, trained_privately

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
    """

    build: Callable[[], Release]
    rows: Any
    count: int
    values_vary: bool = True


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
