"""Public cut points: such features skip the first release, and cost nothing there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.unit.release.statistics.examples import SCHEMA, people, released, terms
from tests.unit.release.statistics.test_releases import Sampler, noised, spent
from voile.core.errors import InvalidInput
from voile.core.guarantee import Relation
from voile.core.schema import Categories, Feature, Label, Numbers, Schema
from voile.privacy.mechanisms import DiscreteGaussian
from voile.release.statistics import (
    FineTables,
    LabelledRecords,
    PrivateCalibrationTable,
    PrivateFineTables,
    PrivateMoments,
    PrivateStatistics,
    StatisticsBudget,
    joint_guarantee,
)
from voile.release.statistics.merging import MergedTables
from voile.release.statistics.rule import RULE

AGE, PRESSURE, *OTHERS = SCHEMA.features
CUT = replace(
    SCHEMA,
    features=(replace(AGE, cuts=(40, 65)), replace(PRESSURE, cuts=(120.0, 140.0)), *OTHERS),
)
ALL_CUT = Schema(
    "cut",
    (
        Feature("age", Numbers(18, 90, whole=True), cuts=(40, 65)),
        Feature("pressure", Numbers(80.0, 200.0), cuts=(120.0, 140.0)),
    ),
    Label("ill", Categories(("no", "yes"))),
)


def budget(schema: Schema, rows: int, rho: float = 0.5) -> StatisticsBudget:
    return StatisticsBudget(schema=schema, rows=rows, relation=Relation.BLANK_ONE, rho=rho)


def test_features_with_cut_points_have_no_table() -> None:
    given = budget(CUT, 400)
    assert given.table_places == (2, 3, 4)
    assert given.tables_sensitivity.value == pytest.approx(np.sqrt(3))
    assert given.tables_rho == budget(SCHEMA, 400).tables_rho
    rows, labels = people(400)
    found = released(LabelledRecords.read(rows, CUT, labels), given)
    assert len(found.tables.blocks) == 3
    age, pressure = MergedTables(given, found.tables.blocks).all_bins[:2]
    assert age.edges == (39.5, 64.5)
    assert pressure.codes(np.array([119.9, 120.0, 139.9, 140.0])).tolist() == [0, 1, 1, 2]
    assert np.isfinite(found.model.predict(rows)).all()


def test_one_row_costs_what_is_charged() -> None:
    rows, labels = people(60)
    one = LabelledRecords.read(rows, CUT, labels)
    nothing = np.vstack([np.full(5, np.nan), rows[1:]])
    two = LabelledRecords.read(nothing, CUT, labels)
    given, sampler = budget(CUT, 60), Sampler()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(DiscreteGaussian, "randomise", lambda *each: sampler(*each))
        releases = [PrivateFineTables(each, given, **terms(given)) for each in (one, two)]
        cost = spent(*[noised(sampler, each) for each in releases])
    assert 1 - 1e-6 < cost / releases[0].cost(1).rho <= 1


def test_without_tables_their_share_goes_to_the_moments() -> None:
    given = budget(ALL_CUT, 3000)
    assert given.tables_rho == 0
    assert given.moments_rho == pytest.approx(0.5 * (1 - RULE.split.calibration))
    rows, labels = people(3000)
    records = LabelledRecords.read(rows[:, :2], ALL_CUT, labels)
    about = terms(given)
    with pytest.raises(InvalidInput, match="no fine tables"):
        PrivateFineTables(records, given, **about)
    none = FineTables((), event=None)
    moments: Any = PrivateMoments(records, given, **about, tables=none)
    assert moments.noise.label_weight == pytest.approx(1 - RULE.cuts.count_weight)
    made = replace(moments.draw(), event=None)
    table = PrivateCalibrationTable(records, given, **about, tables=none, moments=made)
    guarantee = joint_guarantee(given, protected=about["protected"], delta=1e-5)
    found = PrivateStatistics(given, none, made, replace(table.draw(), event=None), guarantee)
    chance = found.model.predict(rows[:, :2])[:, 1]
    assert chance[labels == 1].mean() > chance[labels == 0].mean() + 0.1
