"""Neighbouring data sets look alike from outside, whatever stands in the row that differs.

The model is a bad neighbour itself: for some rows it raises, warns, or answers NaN. Everything that
can be observed besides the noisy numbers is compared: error, warnings, shapes, names, notes,
standard errors, guarantees, log, ledger.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.protecting import explained_row_of, row_of
from tests.unit.app.budget_examples import House
from tests.unit.app.explain.examples import (
    BACKGROUND,
    ROWS,
    SCHEMA,
    asking,
    balances,
    people,
    records,
    score,
)
from tests.unit.records.ledger.examples import DATASET

from voile.app.explain import ReleasedExplanation
from voile.attribution import ExactShapley
from voile.core.explanation import Explanation
from voile.models import Box, wrap
from voile.records.audit_log import canonical_bytes
from voile.release import (
    PUBLIC,
    ByExplainer,
    ClippedRelease,
    OverItself,
    PrivateBackgroundShapley,
    PrivateGlobalImportance,
    PrivateTopFeatures,
    Release,
    TopFeaturesOfRow,
)
from voile.release.levels import PrivateInteractions

COMMON: dict[str, Any] = {"origins": (PUBLIC,)}
NAMED: dict[str, Any] = {**COMMON, "model": "m", "name": "exact"}
ROW: dict[str, Any] = {"protected": row_of(DATASET), "epsilon": 0.2, "delta": 1e-6}
ITSELF: dict[str, Any] = {"protected": explained_row_of(DATASET), "schema": SCHEMA}
Table = dict[str, list[Any]]


def bad_neighbour(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sound on the public rows of these tests, and rude otherwise."""
    found = score(rows)
    if (rows[:, 0] > 9.5).any():
        raise RuntimeError("an income that I have never seen")
    if (rows[:, 1] > 9.0).any():
        warnings.warn("so much debt", UserWarning, stacklevel=1)
    found[rows[:, 1] == 0] = np.nan
    return found


RUDE = wrap(bad_neighbour, outputs=Box(0, 1), output_names=("approved",), digest="rude")


def exact() -> ExactShapley:
    return ExactShapley(RUDE, BACKGROUND, schema=SCHEMA)


def background(table: Table) -> tuple[Release[Any], Any]:
    return PrivateBackgroundShapley(RUDE, table, schema=SCHEMA, **COMMON, **ROW), ROWS[:1]


def pairs(table: Table) -> tuple[Release[Any], Any]:
    return PrivateInteractions(RUDE, table, schema=SCHEMA, **COMMON, **ROW), ROWS[:1]


def importance(table: Table) -> tuple[Release[Any], Any]:
    by = ByExplainer(exact(), Box(0, 1), SCHEMA)
    return PrivateGlobalImportance(by, **NAMED, **ROW), table


def over_itself(table: Table) -> tuple[Release[Any], Any]:
    return PrivateGlobalImportance(OverItself(RUDE, SCHEMA), **NAMED, **ROW), table


def top(table: Table) -> tuple[Release[Any], Any]:
    release = PrivateTopFeatures(
        exact(), schema=SCHEMA, k=1, output_width=1.0, signed=False, **NAMED, **ROW
    )
    return release, table


def clipped(table: Table) -> tuple[Release[Any], Any]:
    own = NAMED | ITSELF
    return ClippedRelease(exact(), bound=0.5, epsilon=0.5, delta=1e-6, **own), table


def top_of_row(table: Table) -> tuple[Release[Any], Any]:
    return TopFeaturesOfRow(exact(), k=1, epsilon=0.5, **NAMED, **ITSELF), table


RELEASES = [background, pairs, importance, over_itself, top, clipped, top_of_row]
NUMBERS = st.one_of(
    st.floats(),
    st.sampled_from([float("nan"), float("inf"), -0.0, 1e308, 9.99, 0.0, None, "", "abc", "inf"]),
)
CATEGORIES = st.sampled_from(["yes", "no", "perhaps", "", None, float("nan"), 1, b"yes"])
PLAIN: Table = {
    "income": [3.0, 5.0, 8.0, 1.0],
    "debt": [1.0, 4.0, 2.0, 6.0],
    "employed": ["yes", "no", "yes", "no"],
}


def replaced(income: Any, debt: Any, employed: Any) -> Table:
    """The neighbour: another record in the third place."""
    changed = {"income": income, "debt": debt, "employed": employed}
    return {name: [*column[:2], changed[name], column[3]] for name, column in PLAIN.items()}


def observed(
    folder: Path, build: Callable[[Table], tuple[Release[Any], Any]], table: Table
) -> tuple[Any, ...]:
    """Everything that can be seen from outside but the noise."""
    house = House.create("memory:", folder)
    people(house, epsilon=9.0)
    house.open("clinic", epsilon=9.0, unit="row")
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            release, rows = build(table)
            account = "clinic" if release.guarantees(1)[0].protected.unit == "row" else "people"
            names = [f"person {n}" for n in range(4)] if rows is table else None
            explained = asking(house, release, account)(rows, identifiers=names)
            outcome: Any = outside(explained)
        except Exception as error:
            outcome = (type(error), str(error))
    return outcome, [str(each.message) for each in heard], log_of(house), balances(house)


def outside(explained: ReleasedExplanation) -> object:
    shown = explained.explanation
    notes = [note for note in shown.notes if not str(note).startswith("named in this order")]
    return (
        shown.shape,
        shown.feature_names,
        shown.output_names,
        shown.guarantees,
        notes,
        widths(shown),
        None if shown.data is None else shown.data.tolist(),
        explained.charges,
        explained.records,
    )


def widths(shown: Explanation) -> object:
    return [
        None if array is None else array.tolist()
        for array in (shown.standard_errors, shown.half_widths)
    ]


def log_of(house: House) -> list[bytes]:
    """Records without their time and without commitments, which are random."""
    hidden: dict[str, Any] = {"time": 0, "query": bytes(32), "answer": bytes(32)}

    def cleared(record: Any) -> Any:
        return replace(record, **{n: value for n, value in hidden.items() if hasattr(record, n)})

    return [canonical_bytes(cleared(each)) for each in records(house)]


@pytest.mark.parametrize("build", RELEASES, ids=lambda build: build.__name__)
@settings(max_examples=30)
@given(income=NUMBERS, debt=NUMBERS, employed=CATEGORIES)
def test_neighbours_look_alike(
    tmp_path: Path,
    build: Callable[[Table], tuple[Release[Any], Any]],
    income: Any,
    debt: Any,
    employed: Any,
) -> None:
    plain = observed(tmp_path, build, PLAIN)
    assert observed(tmp_path, build, replaced(income, debt, employed)) == plain
    outcome, heard, _, _ = plain
    assert not heard
    assert isinstance(outcome[0], tuple), outcome


@pytest.mark.parametrize("build", RELEASES, ids=lambda build: build.__name__)
def test_the_worst_neighbours_look_alike(
    tmp_path: Path, build: Callable[[Table], tuple[Release[Any], Any]]
) -> None:
    plain = observed(tmp_path, build, PLAIN)
    for worst in [(10.0, 1.0, "yes"), (3.0, 10.0, "no"), (3.0, 0.0, "no"), (None, None, None)]:
        assert observed(tmp_path, build, replaced(*worst)) == plain


def test_the_fuzzer_can_tell(tmp_path: Path) -> None:
    """A release that hands on what a row provokes is seen at once."""

    def naive(table: Table) -> tuple[Release[Any], Any]:
        release, rows = clipped(table)
        explainer, whole = exact(), np.asarray(SCHEMA.rows(table))

        class Naive(ClippedRelease):
            def draw(self, rows: Any) -> Explanation:
                explainer(whole)
                return super().draw(rows)

        object.__setattr__(release, "__class__", Naive)
        return release, rows

    plain = observed(tmp_path, naive, PLAIN)
    for worst in [(10.0, 1.0, "yes"), (3.0, 9.9, "no"), (3.0, 0.0, "no")]:
        assert observed(tmp_path, naive, replaced(*worst)) != plain
