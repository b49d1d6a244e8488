"""Calibration: overconfident models get honest probabilities, from unprotected rows alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from voile.core.errors import InvalidInput
from voile.core.schema import Categories, Feature, Label, Numbers, Schema
from voile.evaluation import log_losses
from voile.federation import StageResult
from voile.pipelines.calibration import (
    FEWEST_ROWS,
    MOST_ROWS,
    Calibration,
    calibrate,
    fit_calibration,
    slope_under,
    split_open_rows,
)
from voile.pipelines.objectives import BLACK_BOX, SURROGATE
from voile.pipelines.tables import NetworkModel, OutputHead, TableRecords
from voile.training import arrays_of

NUMBERS = tuple(Feature(name, Numbers(-1, 1)) for name in "abc")
SCHEMA = Schema("rare", NUMBERS, Label("ill", Categories(("no", "yes"))))
TRUE = np.array([2.0, -1.0, 0.0])
RARE = -3.0


def records(count: int, seed: int, schema: Schema = SCHEMA) -> TableRecords:
    """About one in fourteen is ill."""
    draw = np.random.default_rng(seed)
    rows = draw.uniform(-1, 1, (count, 3))
    labels = draw.uniform(size=count) < 1 / (1 + np.exp(-(rows @ TRUE + RARE)))
    return TableRecords(schema, rows, labels.astype(float), np.zeros(count, dtype=bool))


def model(slope: float = 4.0, base: float = 0.0) -> NetworkModel:
    """The truth, but far too sure, and with another base rate."""
    weight = np.stack([-slope * TRUE / 2, slope * TRUE / 2]).astype(np.float32)
    bias = np.array([-base / 2, base / 2], np.float32)
    arrays = {"0.weight": weight, "0.bias": bias}
    return NetworkModel.from_arrays(SCHEMA, OutputHead.of_label(SCHEMA), arrays)


def loss(of: NetworkModel, rows: TableRecords) -> float:
    said = np.asarray(of.predict(rows.rows), float)
    return float(log_losses(said, rows.labels.astype(int)).mean())


def test_an_overconfident_model_becomes_better_than_the_base_rate() -> None:
    judged = records(4_000, seed=1)
    rate = judged.labels.mean()
    constant = -(rate * np.log(rate) + (1 - rate) * np.log(1 - rate))
    found = fit_calibration(model(), records(1_000, seed=0))
    assert found is not None
    assert loss(model(), judged) > 2 * constant
    assert loss(found.apply(model()), judged) < constant
    # Within reach of the model that the rows were drawn from.
    best = loss(model(1.0, RARE), judged)
    assert loss(found.apply(model()), judged) == pytest.approx(best, abs=0.01)
    assert found.rows == 1_000


def test_calibration_keeps_the_order_of_rows() -> None:
    rows = records(500, seed=2)
    found = fit_calibration(model(), rows)
    assert found is not None
    said = found.apply(model()).predict(rows.rows)[:, 1]
    assert (np.diff(said[np.argsort(rows.rows @ TRUE)]) >= -1e-6).all()


def test_what_is_only_noise_says_the_base_rate() -> None:
    rows, judged = records(1_000, seed=3), records(2_000, seed=4)
    shuffled = replace(rows, labels=np.random.default_rng(0).permutation(rows.labels))
    found = fit_calibration(model(), shuffled)
    assert found is not None
    assert found.slope < 0.2
    said = found.apply(model()).predict(judged.rows)[:, 1]
    assert said.mean() == pytest.approx(rows.labels.mean(), abs=0.02)


def test_with_few_rows_more_noise_means_a_smaller_slope() -> None:
    rows = records(FEWEST_ROWS, seed=5)
    quiet, loud = (
        fit_calibration(model(), rows, expected_slope=slope_under(noise)) for noise in (None, 3.0)
    )
    assert quiet is not None
    assert loud is not None
    assert loud.slope < quiet.slope
    assert slope_under(1.0) == slope_under(0.0) / 2


def test_the_fewest_rows_hardly_harm_a_model_that_is_right() -> None:
    """They cannot tell that it is right: what they say weighs less than what is expected."""
    right, judged = model(1.0, RARE), records(2_000, seed=8)
    found = [fit_calibration(right, records(FEWEST_ROWS, seed=seed)) for seed in range(40)]
    losses = [loss(each.apply(right), judged) for each in found if each is not None]
    assert np.mean(losses) - loss(right, judged) < 0.035


def test_one_class_among_the_rows_gives_finite_figures() -> None:
    rows = records(40, seed=6)
    found = fit_calibration(model(), replace(rows, labels=np.zeros(len(rows))))
    assert found is not None
    assert np.isfinite(found.shift).all()
    assert 0 < found.apply(model()).predict(rows.rows)[:, 1].mean() < 0.1


def test_too_few_rows_and_numbers_are_left_alone() -> None:
    assert fit_calibration(model(), records(FEWEST_ROWS - 1, seed=0)) is None
    schema = Schema("numbers", NUMBERS, Label("cost", Numbers(0, 9)))
    of_numbers = NetworkModel.from_arrays(
        schema,
        OutputHead.of_label(schema),
        {"0.weight": np.zeros((1, 3), np.float32), "0.bias": np.zeros(1, np.float32)},
    )
    rows = records(100, seed=0, schema=schema)
    assert fit_calibration(of_numbers, rows) is None
    fitted, judged = split_open_rows(rows)
    assert (len(fitted), len(judged)) == (0, 100)


@pytest.mark.parametrize("count", [21, 22, 101, 5_000])
def test_rows_to_calibrate_on_are_never_judged_by(count: int) -> None:
    rows = records(count, seed=7)
    rows.labels[:] = np.arange(count) > count / 2  # a file that is sorted by its label
    rows.labels[3::10] = np.nan
    fitted, judged = split_open_rows(rows)
    known = int((~np.isnan(rows.labels)).sum())
    assert len(fitted) == (0 if known < 2 * FEWEST_ROWS else min(known // 2, MOST_ROWS))
    together = np.concatenate([fitted.rows, judged.rows])
    assert len(np.unique(together, axis=0)) == len(together) == count
    assert not np.isnan(fitted.labels).any()
    if len(fitted):
        assert 0.3 < fitted.labels.mean() < 0.7


def result(arrays: Any) -> StageResult:
    return StageResult(arrays, (), (), ())


def test_the_surrogate_gets_the_same_map_and_other_stages_none() -> None:
    found = Calibration(0.5, (0.25, -0.25), 100, 0.5)
    arrays = arrays_of(model().network)
    other = {name: array + 1 for name, array in arrays.items()}
    results = {BLACK_BOX: result(arrays), SURROGATE: result(other), "explainer": result(other)}
    made = calibrate(results, BLACK_BOX, found)
    for name in (BLACK_BOX, SURROGATE):
        before, after = results[name].arrays, made[name].arrays
        assert np.array_equal(after["0.weight"], before["0.weight"] / 2)
        assert np.array_equal(after["0.bias"], before["0.bias"] / 2 + [0.25, -0.25])
        assert after["0.bias"].dtype == np.float32
    assert made["explainer"] is results["explainer"]
    assert calibrate(results, BLACK_BOX, None) == results


def test_hidden_layers_stay_as_they_are() -> None:
    found = Calibration(0.5, (1.0, 2.0), 10, 0.5)
    draw = np.random.default_rng(0)
    shapes = {"0.weight": (4, 3), "0.bias": (4,), "2.weight": (2, 4), "2.bias": (2,)}
    arrays = {name: draw.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    folded = found.fold(arrays)
    assert folded["0.weight"] is arrays["0.weight"]
    before = NetworkModel.from_arrays(SCHEMA, OutputHead.of_label(SCHEMA), arrays)
    columns = records(20, seed=0).columns
    wanted = 0.5 * before.network(columns) + np.array([1.0, 2.0])
    assert found.apply(before).network(columns) == pytest.approx(wanted, abs=1e-5)


def test_it_is_read_back_from_plain_values_and_checked() -> None:
    found = Calibration(0.5, (1.0, 2.0), 10, 0.4)
    assert Calibration.from_plain(found.plain) == found
    for odd in ({"slope": -1.0}, {"slope": float("nan")}, {"shift": [float("inf"), 0.0]}):
        with pytest.raises(InvalidInput):
            Calibration.from_plain({**found.plain, **odd})
