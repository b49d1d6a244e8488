"""Cells of protected rows that no program can read never raise: they are missing."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

from voile import Budget, PrivateClassifier, Schema
from voile.python.training.tables import fitted_columns

SCHEMA = Schema({"age": (18, 100), "sex": ["f", "m"]})
LABELS = ["no", "yes"] * 20


class Hostile(float):
    """A number that raises when somebody looks at it."""

    def __ne__(self, other: object) -> bool:
        raise ValueError("seen")

    __eq__ = __ne__
    __hash__ = None  # type: ignore[assignment]

    def __abs__(self) -> float:
        raise ValueError("seen")


FOREIGN = [[1, 2, 3], (1, 2), np.ones(3), b"\xff", Hostile(3.0), {"a": 1}, [[1], [2, 3]], 10**400]


def people(cell: Any, kind: str) -> Any:
    columns: dict[str, Any] = {"age": [50.0] * 40, "sex": ["f"] * 40}
    columns["age"][7] = cell
    if kind == "frame":
        return pd.DataFrame({name: pd.Series(each, dtype=object) for name, each in columns.items()})
    return columns if kind == "dict" else [list(row) for row in zip(*columns.values(), strict=True)]


@pytest.mark.parametrize("kind", ["dict", "frame", "lists"])
@pytest.mark.parametrize("cell", FOREIGN, ids=lambda cell: type(cell).__name__)
def test_a_cell_never_raises(cell: Any, kind: str) -> None:
    found = fitted_columns(people(cell, kind), SCHEMA.feature_names)
    rows = SCHEMA.rows(found)
    assert np.array_equal(np.delete(rows, 7, axis=0), [[50.0, 0.0]] * 39)


class Locked(dict[str, Any]):
    """A record that raises when somebody reads it."""

    def get(self, *_name: object) -> Any:
        raise ValueError("seen")


@pytest.mark.parametrize(
    "odd",
    [{"age": 50.0}, {}, {"age": 50.0, "sex": "f", "zebra": 1}, "zebra", None, 3, Locked(age=1)],
    ids=repr,
)
def test_a_record_of_another_form_decides_nothing(odd: Any) -> None:
    records: list[Any] = [{"age": 50.0, "sex": "f"} for _ in range(40)]
    records[7] = odd
    found = fitted_columns(records, SCHEMA.feature_names)
    assert list(found) == ["age", "sex"]
    assert np.array_equal(np.delete(SCHEMA.rows(found), 7, axis=0), [[50.0, 0.0]] * 39)


@pytest.mark.parametrize("cell", FOREIGN, ids=lambda cell: type(cell).__name__)
def test_a_label_never_raises(cell: Any) -> None:
    labels: list[Any] = list(LABELS)
    labels[3] = cell
    budget = Budget.in_memory("clinic", epsilon=5, delta=1e-6)
    clf = PrivateClassifier(SCHEMA, classes=["no", "yes"], epsilon=5, budget=budget, sure=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf.fit(people(50.0, "dict"), labels)
    assert budget.spent > 0.9
