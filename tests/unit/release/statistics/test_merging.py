"""Bins: made from released tables and public facts, and large enough."""

from __future__ import annotations

import doctest
from types import ModuleType

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.unit.release.statistics.examples import SCHEMA, budget, people
from voile.core.guarantee import Relation
from voile.core.schema import Categories, Feature, Label, Numbers, Schema
from voile.models.additive import bins as bins_module
from voile.privacy.sensitivity import statistics as sensitivity_module
from voile.release.statistics import budget as budget_module
from voile.release.statistics.budget import StatisticsBudget
from voile.release.statistics.cells import cell_codes, fine_edges
from voile.release.statistics.merging import MergedTables
from voile.release.statistics.rule import RULE, StatisticsRule
from voile.release.statistics.sums import cell_table


def tables(
    given: StatisticsBudget, rows: NDArray[np.float64], labels: NDArray[np.float64]
) -> list[NDArray[np.int64]]:
    return [
        cell_table(cell_codes(edges, rows[:, place]), labels.astype(int), cells)
        for place, (edges, cells) in enumerate(zip(given.fine_edges, given.fine_cells, strict=True))
    ]


def test_fine_cells_come_from_the_schema() -> None:
    assert fine_edges(Numbers(10.0, 20.0), 4) == (12.5, 15.0, 17.5)
    assert fine_edges(Numbers(1, 4, whole=True), 16) == (1.5, 2.5, 3.5)
    assert fine_edges(Categories(("a", "b")), 16) is None
    bent = fine_edges(Numbers(0.0, 1000.0), 16)
    assert bent is not None
    assert bent[0] < 5  # many cells near 0
    assert all(0 < edge < 1000 for edge in bent)
    assert fine_edges(Numbers(1.0, 51.0), 16) != tuple(np.linspace(1, 51, 17)[1:-1])
    assert fine_edges(Numbers(1.0, 49.0), 16) == tuple(np.linspace(1, 49, 17)[1:-1])


@pytest.mark.parametrize("whole", [True, False])
def test_every_value_has_a_cell(whole: bool) -> None:
    domain = Numbers(-3, 40, whole=whole)
    edges = fine_edges(domain, 16)
    assert edges is not None
    values = np.linspace(-3, 40, 200)
    codes = cell_codes(edges, np.rint(values) if whole else values)
    assert codes.min() == 0
    assert codes.max() == len(edges)
    assert (np.diff(codes) >= 0).all()


def test_bins_of_numbers_hold_about_equal_shares() -> None:
    rows, labels = people(4000)
    given = budget(4000, rho=50.0)
    found = MergedTables(given, tables(given, rows, labels))
    (age,) = [each for each in found.bins if each.name == "age"]
    shares = np.bincount(age.codes(rows[:, 0])) / 4000
    assert age.count == given.bins == RULE.bins.most
    assert shares.min() >= 1 / (RULE.bins.least_mass * given.bins) - 1e-9
    assert shares.max() < 0.15


def test_noise_alone_leaves_few_bins() -> None:
    draw = np.random.default_rng(1)
    given = budget(60, rho=1e-3)
    noise = [
        np.rint(draw.normal(size=(cells, 2)) * given.tables_noise.sigma).astype(np.int64)
        for cells in given.fine_cells
    ]
    found = MergedTables(given, noise)
    assert given.bins == RULE.bins.least
    assert all(each.count <= given.level_bins for each in found.bins)
    assert set(found.dropped) | {each.name for each in found.bins} == set(SCHEMA.feature_names)


def many_levels(count: int) -> StatisticsBudget:
    levels = tuple(f"level {place}" for place in range(count))
    schema = Schema(
        "levels", (Feature("level", Categories(levels)),), Label("ill", Categories(("no", "yes")))
    )
    return StatisticsBudget(schema=schema, rows=10_000, relation=Relation.BLANK_ONE, rho=0.1)


def test_many_levels_are_sorted_by_their_label_rate() -> None:
    given = many_levels(40)
    draw = np.random.default_rng(0)
    order, counts = draw.permutation(38), draw.integers(150, 350, 38)
    positive = counts * order // 38  # levels of rate 0/38, 1/38, ... in any order
    table = np.vstack([np.column_stack([counts - positive, positive]), [[3, 2], [0, 0]]])
    (found,) = MergedTables(given, [table]).all_bins
    groups = np.array(found.groups)
    assert (np.diff(groups[np.argsort(order)]) >= 0).all()
    assert found.count == RULE.bins.levels_most + 1
    assert groups[38] == groups[39] == found.count - 1  # too rare to have a rate


def test_null_rows_do_not_thin_out_the_upper_bins() -> None:
    """The sum is known to be the public number of rows, whatever the counts add up to."""
    given = budget(4000, rho=50.0)
    half = [np.full((cells, 2), 1000 // cells) for cells in given.fine_cells]
    age = MergedTables(given, half).all_bins[0]
    assert age.count == given.bins


def test_rare_levels_are_pooled_or_join_the_largest() -> None:
    given = many_levels(4)
    (found,) = MergedTables(
        given, [np.array([[3000, 3000], [2000, 1990], [5, 1], [2, 2]])]
    ).all_bins
    assert found.groups == (0, 1, 0, 0)
    (found,) = MergedTables(
        given, [np.array([[3000, 2800], [1500, 1500], [200, 200], [400, 400]])]
    ).all_bins
    assert found.count == 4
    (found,) = MergedTables(
        given, [np.array([[3000, 2800], [1900, 1900], [60, 60], [50, 50]])]
    ).all_bins
    assert found.groups == (0, 1, 2, 2)
    (found,) = MergedTables(given, [np.array([[-3, 5], [2, 1], [0, 0], [1, 2]])]).all_bins
    assert found.count == 1


def test_merged_tables_keep_every_count() -> None:
    rows, labels = people(1000)
    given = budget(1000)
    found = MergedTables(given, tables(given, rows, labels))
    for (sums, cells), feature in zip(found.merged, found.bins, strict=True):
        assert sums.shape == (feature.count, 2)
        assert sums.sum() == 1000
        place = SCHEMA.feature_names.index(feature.name)
        assert (
            sums.sum(axis=1).tolist()
            == np.bincount(feature.codes(rows[:, place]), minlength=feature.count).tolist()
        )
        assert cells.sum() == given.fine_cells[place]


def test_the_rule_is_read_whole() -> None:
    assert RULE.version == 1
    with pytest.raises(KeyError):
        StatisticsRule.loads("version = 1")
    digests = {RULE.digest("split"), RULE.digest("split", "bins"), RULE.digest("bins")}
    assert len(digests) == 3


@pytest.mark.parametrize("module", [budget_module, bins_module, sensitivity_module])
def test_examples_in_docstrings_are_true(module: ModuleType) -> None:
    found = doctest.testmod(module)
    assert found.attempted > 0
    assert found.failed == 0


def test_a_tail_above_a_value_that_most_rows_share_is_divided() -> None:
    """Of 92 % zeros, quantiles leave one cut; the rest would be one bin."""
    given = budget(10_000, rho=50.0)
    rows, labels = people(10_000)
    draw = np.random.default_rng(0)
    rows[:, 2] = np.where(draw.random(10_000) < 0.92, 0, draw.uniform(2000, 90_000, 10_000))
    found = MergedTables(given, tables(given, rows, labels))
    income = next(each for each in found.all_bins if each.name == "income")
    assert income.count == 4
    shares = np.bincount(income.codes(rows[:, 2])) / 10_000
    assert shares[0] == pytest.approx(0.92, abs=0.01)
    least = RULE.tails.least / (RULE.tails.mass * given.bins)
    assert shares.min() > least - 0.002
    assert found.sections == ("tails",)


def test_without_such_a_value_bins_are_as_they_were() -> None:
    rows, labels = people(4000)
    given = budget(4000, rho=50.0)
    assert MergedTables(given, tables(given, rows, labels)).sections == ()
