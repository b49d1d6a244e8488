"""Several classes and numbers: what one row can cost, and the models that are made."""

from __future__ import annotations

import doctest
import itertools
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.unit.release.statistics.examples import SCHEMA, people, released, terms
from tests.unit.release.statistics.test_releases import BOTH, KINDS, Sampler, noised, spent
from voile.core.guarantee import Relation
from voile.core.schema import Categories, Label, Numbers, Schema
from voile.models.additive import AdditiveModel, links
from voile.privacy.mechanisms import DiscreteGaussian
from voile.privacy.sensitivity.statistics import centred_sums as sums_sensitivity
from voile.privacy.sensitivity.statistics import prediction_products
from voile.release.statistics import (
    LabelledRecords,
    PrivateCalibrationTable,
    PrivateFineTables,
    PrivateMoments,
    StatisticsBudget,
    targets,
)
from voile.release.statistics import releases as releases_module
from voile.release.statistics.sums import centred_sums
from voile.release.statistics.targets import ClassTarget, NumberTarget, target_of

CLASSES = replace(SCHEMA, label=Label("ill", Categories(("no", "some", "much"))))
NUMBER = replace(SCHEMA, label=Label("cost", Numbers(0.0, 200.0), unit="EUR"))
SCHEMAS = {"classes": CLASSES, "number": NUMBER}
ROWS = 40


def labels_for(schema: Schema, rows: NDArray[np.float64], seed: int = 0) -> NDArray[np.float64]:
    """They depend on age, pressure and smoking."""
    draw = np.random.default_rng(seed)
    score = 0.04 * (rows[:, 0] - 55) + 0.03 * (rows[:, 1] - 128) + 0.9 * rows[:, 4]
    if schema is NUMBER:
        number: NDArray[np.float64] = 80 + 25 * score + 8 * draw.normal(size=len(rows))
        return number
    scores = np.column_stack([-score, 0.3 * (rows[:, 3] == 1) + 0.2, score])
    found: NDArray[np.float64] = np.argmax(scores + draw.gumbel(size=scores.shape), axis=1) * 1.0
    return found


def some(schema: Schema, count: int, seed: int = 0) -> LabelledRecords:
    rows = people(count, seed)[0]
    labels = labels_for(schema, rows, seed)
    if schema is NUMBER:  # of the dearest kind
        labels[::3], labels[1::3] = 0.0, 200.0
    return LabelledRecords.read(rows, schema, labels)


def budget(
    schema: Schema, rows: int, relation: Relation = Relation.BLANK_ONE, rho: float = 0.5
) -> Any:
    return StatisticsBudget(schema=schema, rows=rows, relation=relation, rho=rho)


def release(kind: str, found: LabelledRecords, given: StatisticsBudget, before: Any) -> Any:
    about = terms(given)
    if kind == "tables":
        return PrivateFineTables(found, given, **about)
    if kind == "moments":
        return PrivateMoments(found, given, **about, tables=before.tables)
    return PrivateCalibrationTable(
        found, given, **about, tables=before.tables, moments=before.moments
    )


def changed(
    found: LabelledRecords, place: int, other: LabelledRecords, its: int
) -> LabelledRecords:
    rows, labels, null = found.rows.copy(), found.labels.copy(), found.null.copy()
    rows[place], labels[place], null[place] = other.rows[its], other.labels[its], other.null[its]
    return LabelledRecords(rows, labels, null)


def most_spent(schema: Schema, kind: str, relation: Relation) -> float:
    """The largest cost over neighbours of a table, as a share of what is charged."""
    found, others = some(schema, ROWS), some(schema, ROWS, seed=7)
    null = LabelledRecords.read(np.full((1, 5), np.nan), schema, [np.nan])
    given = budget(schema, ROWS, relation)
    before, sampler, worst = released(found, given), Sampler(), 0.0
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(DiscreteGaussian, "randomise", lambda *each: sampler(*each))
        whole = release(kind, found, given, before)
        first = noised(sampler, whole)
        for place in range(0, ROWS, 2):
            neighbours = (
                [changed(found, place, null, 0)]
                if relation is Relation.BLANK_ONE
                else [changed(found, place, others, each) for each in range(0, ROWS, 9)]
            )
            for neighbour in neighbours:
                second = noised(sampler, release(kind, neighbour, given, before))
                worst = max(worst, spent(first, second))
    return worst / float(whole.cost(1).rho)


@pytest.mark.parametrize("relation", BOTH)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("label", SCHEMAS)
def test_no_neighbour_costs_more_than_is_charged(label: str, kind: str, relation: Relation) -> None:
    share = most_spent(SCHEMAS[label], kind, relation)
    assert share <= 1
    # Blanking a row costs all of it, but for a number in the last round: few rows have both a
    # label and a prediction at a bound.
    if relation is Relation.BLANK_ONE and (label, kind) != ("number", "calibration"):
        assert share > 1 - 1e-6


VALUES = st.one_of(st.floats(), st.sampled_from([0.0, 1.0, 2.0, 90.0, 200.0]))
ANY_ROW = st.lists(VALUES, min_size=5, max_size=5)
_KEPT: dict[str, Any] = {}


@settings(max_examples=40, deadline=None)
@given(ANY_ROW, ANY_ROW, VALUES, VALUES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("label", SCHEMAS)
def test_whatever_a_row_holds_it_costs_no_more(
    label: str, kind: str, one: list[float], two: list[float], first: float, second: float
) -> None:
    schema = SCHEMAS[label]
    rows = people(20)[0]
    labels, given = labels_for(schema, rows), budget(schema, 21, Relation.REPLACE_ONE)
    if label not in _KEPT:
        _KEPT[label] = released(some(schema, 21), given)
    found, sampler = [], Sampler()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(DiscreteGaussian, "randomise", lambda *each: sampler(*each))
        for row, its in ((one, first), (two, second)):
            read = LabelledRecords.read(np.vstack([rows, row]), schema, np.append(labels, its))
            made = release(kind, read, given, _KEPT[label])
            found.append(noised(sampler, made))
    assert spent(*found) <= made.cost(1).rho * (1 + 1e-9)


def codes_of(
    bins: tuple[int, ...], labels: list[NDArray[np.float64]], weight: float, v: float
) -> Any:
    """What a row adds, weighted: of every row there could be."""
    found = []
    for places in itertools.product(*map(range, bins)):
        z = np.concatenate(
            [np.eye(k)[place] - 1 / k for k, place in zip(bins, places, strict=True)]
        )
        for t in labels:
            parts = [np.sqrt(1 - weight) * z, np.sqrt(weight) * np.outer(z, t).ravel()]
            squares = [np.sqrt(v) * (t**2 - 0.5)] if v else []
            found.append(np.concatenate([*parts, np.sqrt(weight) * t, *squares]))
    return np.array(found)


@pytest.mark.parametrize("weight", [0.15, 0.5, 0.7, 0.85])
@pytest.mark.parametrize("bins", [(2, 2), (2, 3), (3, 5), (2, 2, 4)])
@pytest.mark.parametrize("classes", [2, 3, 5])
def test_sums_of_classes_move_so_far_and_no_further(
    classes: int, bins: tuple[int, ...], weight: float
) -> None:
    even = [(row - 1 / classes) / np.sqrt(1 - 1 / classes) for row in np.eye(classes)]
    added = codes_of(bins, even, weight, 0.0)
    apart = max(float(((added - each) ** 2).sum(axis=1).max()) for each in added)
    about: Any = {"bins": bins, "label_weight": weight, "classes": classes}
    zero, other = (sums_sensitivity(**about, relation=each).value ** 2 for each in BOTH)
    assert float((added**2).sum(axis=1).max()) == pytest.approx(zero)
    assert apart == pytest.approx(other)


@pytest.mark.parametrize("weight", [0.3, 0.7, 0.85])
@pytest.mark.parametrize("bins", [(2, 3), (2, 2, 4)])
def test_sums_of_a_number_move_no_further(bins: tuple[int, ...], weight: float) -> None:
    grid = [np.array([t]) for t in np.linspace(-1, 1, 9)]
    added = codes_of(bins, grid, weight, 0.5)
    apart = max(float(((added - each) ** 2).sum(axis=1).max()) for each in added)
    about: Any = {"bins": bins, "label_weight": weight, "square_weight": 0.5}
    zero, other = (sums_sensitivity(**about, relation=each).value ** 2 for each in BOTH)
    assert float((added**2).sum(axis=1).max()) == pytest.approx(zero)
    assert apart <= other * (1 + 1e-9)
    assert other < apart + 0.6  # not tight: a square moves by 1 at most, but not with all else


def test_products_with_a_prediction_move_so_far() -> None:
    t, p = (part.ravel() for part in np.meshgrid(*[np.linspace(-1, 1, 21)] * 2))
    added = np.column_stack([t * p, p**2 - 0.5])
    apart = max(float(((added - each) ** 2).sum(axis=1).max()) for each in added)
    zero, other = (prediction_products(relation=each).value ** 2 for each in BOTH)
    assert (float((added**2).sum(axis=1).max()), apart) == pytest.approx((zero, other))


# --- planted faults -------------------------------------------------------------------------------


def test_classes_that_are_not_centred_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        ClassTarget, "signs", property(lambda self: self.count * np.eye(self.count, dtype=np.int64))
    )
    assert most_spent(CLASSES, "moments", Relation.BLANK_ONE) > 1.2


def test_squares_that_count_null_rows_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = centred_sums

    def uncentred(codes: Any, labels: Any, bins: Any, target: Any) -> Any:
        found = plain(codes, labels, bins, target)
        return [*found[:-1], found[-1] + len(labels) * target.steps**2 // 2]

    monkeypatch.setattr(releases_module, "centred_sums", uncentred)
    assert most_spent(NUMBER, "moments", Relation.BLANK_ONE) > 1.02


def test_numbers_outside_the_bounds_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """If nothing clipped them: 100 more than a bound is twice as far from the middle."""
    plain = NumberTarget.table

    def wide(self: NumberTarget, codes: Any, labels: Any, cells: int) -> Any:
        return plain(self, codes, np.where(labels == self.steps, 2 * labels, labels), cells)

    monkeypatch.setattr(NumberTarget, "table", wide)
    assert most_spent(NUMBER, "tables", Relation.BLANK_ONE) > 2


def test_noise_for_two_classes_on_a_number_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NumberTarget, "unit", 128)
    assert most_spent(NUMBER, "tables", Relation.BLANK_ONE) > 2


# --- reading --------------------------------------------------------------------------------------


def test_numbers_are_clipped_and_rounded_to_the_grid() -> None:
    rows = people(5)[0]
    found = LabelledRecords.read(rows, NUMBER, [-50.0, 100.3, 1e9, None, float("nan")])
    assert found.labels.tolist() == [0, 128, 256, 0, 0]
    assert found.null.tolist() == [False, False, False, True, True]
    again = LabelledRecords.read(found, NUMBER)
    assert again.labels.tolist() == found.labels.tolist()
    assert again.null.tolist() == found.null.tolist()
    table = {name: [50] for name in SCHEMA.feature_names} | {"cost": ["70.4"]}
    assert LabelledRecords.read(table, NUMBER).labels.tolist() == [90]


def test_a_schema_says_what_is_learned() -> None:
    assert target_of(SCHEMA) == ClassTarget(2)
    assert target_of(CLASSES) == ClassTarget(3)
    assert target_of(NUMBER) == NumberTarget(0.0, 200.0, 256)


# --- models ---------------------------------------------------------------------------------------


def model_of(schema: Schema, rows: int, rho: float = 0.5) -> AdditiveModel:
    found = people(rows, seed=1)[0]
    read = LabelledRecords.read(found, schema, labels_for(schema, found, 1))
    return released(read, budget(schema, rows, rho=rho)).model


def test_several_classes_are_predicted() -> None:
    found, rows = model_of(CLASSES, 4000), people(2000, seed=5)[0]
    labels = labels_for(CLASSES, rows, 5).astype(int)
    chances = found.predict(rows)
    shares = np.bincount(labels) / len(labels)
    constant = float(-(shares * np.log(shares)).sum())
    assert chances.shape == (2000, 3)
    assert chances.sum(axis=1) == pytest.approx(np.ones(2000))
    assert -np.log(chances[np.arange(2000), labels]).mean() < constant - 0.1
    assert chances.mean(axis=0) == pytest.approx(shares, abs=0.07)


def test_a_number_is_predicted_in_its_own_unit() -> None:
    found, rows = model_of(NUMBER, 4000), people(2000, seed=5)[0]
    labels = np.clip(labels_for(NUMBER, rows, 5), 0, 200)
    predicted = found.predict(rows)
    assert predicted.shape == (2000, 1)
    off = labels - predicted[:, 0]
    assert off.var() < 0.35 * labels.var()
    assert abs(off.mean()) < 4
    assert found.output_names == ("cost",)


@pytest.mark.parametrize("label", SCHEMAS)
def test_values_add_up_to_the_score(label: str) -> None:
    found, rows = model_of(SCHEMAS[label], 600), people(50, seed=5)[0]
    explained = found.explain(rows)
    total = explained.values.sum(axis=1) + explained.base_values
    assert total == pytest.approx(found.row_scores(rows).reshape(50, -1))
    if label == "classes":
        assert explained.values.sum(axis=2) == pytest.approx(np.zeros((50, 5)), abs=1e-9)
        assert np.log(found.predict(rows)) - np.log(found.predict(rows)).mean(
            axis=1, keepdims=True
        ) == pytest.approx(total)
    again = AdditiveModel.from_bytes(found.to_bytes())
    assert again.to_bytes() == found.to_bytes()
    assert np.array_equal(again.predict(rows), found.predict(rows))
    assert "score" in found.to_json()


@pytest.mark.parametrize("label", SCHEMAS)
@pytest.mark.parametrize("rows", [2, 40])
def test_little_data_and_much_noise_still_make_a_model(label: str, rows: int) -> None:
    for _ in range(3):
        model = model_of(SCHEMAS[label], rows, rho=0.01)
        assert np.isfinite(model.predict(people(10)[0])).all()
        assert (model.standard_errors >= 0).all()


@pytest.mark.parametrize("module", [targets, links])
def test_examples_in_docstrings_are_true(module: ModuleType) -> None:
    found = doctest.testmod(module)
    assert found.attempted > 0
    assert found.failed == 0
