"""What the tests of releases about protected rows share: a schema, explainers good and nasty."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.protecting import explained_row_of
from voile.core.explanation import Explanation
from voile.core.schema import Categories, Feature, Numbers, Schema
from voile.release import PUBLIC

Array = NDArray[np.float64]
SCHEMA = Schema(
    "three",
    (
        Feature("a", Numbers(-10.0, 10.0), 0.0, "left"),
        Feature("b", Numbers(-10.0, 10.0), 0.0, "left"),
        Feature("c", Categories(("no", "yes")), "no", "right"),
    ),
)
COMMON: dict[str, Any] = {
    "schema": SCHEMA,
    "protected": explained_row_of("people"),
    "origins": [PUBLIC],
    "model": "digest",
    "name": "itself",
}


def itself(rows: Array) -> Explanation:
    """An explainer whose attributions are the row: whatever a row may hold, a vector may be."""
    return Explanation(
        values=rows, base_values=np.array(0.25), feature_names=SCHEMA.feature_names, data=rows
    )


def with_its_base(rows: Array) -> Explanation:
    """The base value gives the row away."""
    return Explanation(
        values=rows, base_values=rows[:, :1], feature_names=SCHEMA.feature_names, data=rows
    )


def nasty(rows: Array) -> Explanation:
    """Raises, warns, prints NaN or changes its shape, depending on what the row holds."""
    first = rows[0, 0]
    if first > 5:
        raise ZeroDivisionError("the protected value is above five")
    if first > 2:
        warnings.warn(f"the protected value is {first}", stacklevel=1)
    if first < -5:
        return Explanation(
            values=np.ones((1, 2)), base_values=np.array(0.25), feature_names=("a", "b")
        )
    values = rows.copy()
    if first < -2:
        values /= np.zeros_like(values)
    return Explanation(
        values=values, base_values=np.array(0.25), feature_names=SCHEMA.feature_names
    )
