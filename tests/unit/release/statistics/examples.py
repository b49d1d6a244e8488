"""A small table of people, and releases about it."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tests.paying import Ledger, as_if_paid
from tests.protecting import row_of
from voile.core.guarantee import Relation
from voile.core.schema import Categories, Feature, Label, Numbers, Schema
from voile.release.charged import paid_artefact
from voile.release.statistics import (
    LabelledRecords,
    PrivateCalibrationTable,
    PrivateFineTables,
    PrivateMoments,
    PrivateStatistics,
    StatisticsBudget,
    joint_guarantee,
)

DELTA: Final = 1e-5
SCHEMA: Final = Schema(
    "people",
    (
        Feature("age", Numbers(18, 90, whole=True)),
        Feature("pressure", Numbers(80.0, 200.0)),
        Feature("income", Numbers(0.0, 100_000.0)),
        Feature("region", Categories(("north", "south", "west"))),
        Feature("smoker", Categories(("no", "yes"))),
    ),
    Label("ill", Categories(("no", "yes"))),
)


def people(count: int, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Rows inside the schema, and labels that depend on age, pressure and smoking."""
    draw = np.random.default_rng(seed)
    age = draw.integers(18, 91, count)
    pressure = np.clip(100 + 0.5 * age + 12 * draw.normal(size=count), 80, 200)
    income = np.minimum(draw.lognormal(9.5, 1.0, count), 100_000)
    region, smoker = draw.integers(0, 3, count), draw.random(count) < 0.3
    score = 0.04 * (age - 55) + 0.03 * (pressure - 128) + 0.9 * smoker - 0.8 + 0.3 * (region == 1)
    labels = draw.random(count) < 1 / (1 + np.exp(-score))
    return np.column_stack([age, pressure, income, region, smoker]), labels.astype(float)


def records(count: int, seed: int = 0) -> LabelledRecords:
    rows, labels = people(count, seed)
    return LabelledRecords.read(rows, SCHEMA, labels)


def budget(rows: int, **settings: Any) -> StatisticsBudget:
    given: dict[str, Any] = {"relation": Relation.BLANK_ONE, "rho": 0.125} | settings
    return StatisticsBudget(schema=SCHEMA, rows=rows, **given)


def terms(given: StatisticsBudget) -> dict[str, Any]:
    return {"protected": row_of("people 1", given.relation), "delta": DELTA}


def released(found: LabelledRecords, given: StatisticsBudget | None = None) -> PrivateStatistics:
    """All three, as if somebody had paid for them."""
    given = given or budget(len(found))
    about = terms(given)
    tables = as_if_paid(PrivateFineTables(found, given, **about))
    moments = as_if_paid(PrivateMoments(found, given, **about, tables=tables))
    calibration = as_if_paid(
        PrivateCalibrationTable(found, given, **about, tables=tables, moments=moments)
    )
    guarantee = joint_guarantee(given, protected=about["protected"], delta=DELTA)
    return PrivateStatistics(given, tables, moments, calibration, guarantee)


def known(kind: str) -> Any:
    """One of the three, over releases before it whose numbers are the same every time."""
    found, given = records(40), budget(40)
    about = terms(given)
    tables = PrivateFineTables(found, given, **about)
    if kind == "tables":
        return tables
    paid_tables = without_noise(tables)
    moments = PrivateMoments(found, given, **about, tables=paid_tables)
    if kind == "moments":
        return moments
    return PrivateCalibrationTable(
        found, given, **about, tables=paid_tables, moments=without_noise(moments)
    )


def without_noise(release: Any) -> Any:
    """As if the noise had been 0, and somebody had paid for it."""
    made = release.made(tuple(release.exact(release._read.present)), event=release.cost(1))
    return paid_artefact(release, "charge 1", Ledger(release.codec.pack(made)))
