"""Predictions are judged beside those of somebody who knows the frequencies only."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from voile.core.errors import InvalidInput
from voile.evaluation import fidelity, is_constant, judge_classes, judge_numbers

DRAW = np.random.default_rng(5)


def two(chance: np.ndarray) -> np.ndarray:
    return np.column_stack([1 - chance, chance])


def test_figures_are_those_of_the_definitions() -> None:
    chance = np.round(DRAW.uniform(size=600), 2)  # with ties
    labels = (DRAW.uniform(size=600) < chance).astype(float)
    found = judge_classes(two(chance), labels)
    assert found.auc is not None
    assert found.auc.figure == pytest.approx(roc_auc_score(labels, chance))
    assert found.accuracy.figure == pytest.approx(np.mean((chance > 0.5) == labels), abs=0.02)
    assert found.accuracy.baseline == pytest.approx(max(labels.mean(), 1 - labels.mean()))
    assert found.accuracy.low < found.accuracy.figure < found.accuracy.high
    assert sum(each.rows for each in found.calibration) == 600
    assert found.calibration_error.figure < 0.1
    assert not found.constant
    assert not found.no_better_than_baseline


def test_auc_of_several_classes_is_the_mean_of_each_against_the_rest() -> None:
    said = DRAW.dirichlet(np.ones(3), size=300)
    labels = np.array([DRAW.choice(3, p=p) for p in said], float)
    found = judge_classes(said, labels)
    assert found.auc is not None
    assert found.auc.figure == pytest.approx(roc_auc_score(labels, said, multi_class="ovr"))


def test_a_constant_model_is_no_better_than_its_baseline_however_accurate() -> None:
    labels = (DRAW.uniform(size=500) < 0.1).astype(float)
    found = judge_classes(two(np.full(500, 0.1) + DRAW.normal(0, 1e-3, 500)), labels)
    assert found.accuracy.figure > 0.85
    assert found.constant
    assert found.no_better_than_baseline
    assert found.majority == 0


def test_overconfidence_is_an_error_of_calibration() -> None:
    labels = (DRAW.uniform(size=2000) < 0.7).astype(float)
    found = judge_classes(two(np.full(2000, 0.99)), labels)
    assert found.calibration_error.figure == pytest.approx(0.29, abs=0.04)
    assert found.calibration_error.low > 0.2


def test_intervals_hold_the_truth_most_of_the_time() -> None:
    """A share of 0.7 by 200 coins: of 20 intervals that miss with 6 %, ten do with < 1e-6."""
    missed = 0
    for seed in range(20):
        hits = np.random.default_rng(seed).uniform(size=200) < 0.7
        found = judge_classes(two(np.full(200, 0.9)), hits.astype(float), seed=seed)
        missed += not found.accuracy.low <= 0.7 <= found.accuracy.high
    assert missed < 10


def test_rows_without_a_label_do_not_count_and_some_must_have_one() -> None:
    labels = np.array([1.0, np.nan, 0.0, np.nan])
    assert judge_classes(two(np.array([0.9, 0.9, 0.1, 0.1])), labels).rows == 2
    assert judge_classes(two(np.array([0.9, 0.8])), np.ones(2)).auc is None
    with pytest.raises(InvalidInput, match="no row has a label"):
        judge_classes(two(np.array([0.9])), np.array([np.nan]))


def test_numbers_are_compared_with_their_median() -> None:
    true = DRAW.normal(size=400)
    good = judge_numbers(true + 0.1, np.append(true[:-1], np.nan))
    assert good.figure == pytest.approx(0.1)
    assert good.baseline == pytest.approx(np.mean(np.abs(true - np.median(true))), abs=0.02)
    assert good.high < good.baseline


def test_constant_is_relative_to_what_is_possible() -> None:
    outputs = np.linspace(0, 1, 100)[:, np.newaxis]
    assert not is_constant(outputs)
    assert is_constant(outputs, width=100.0)


def test_fidelity_is_the_share_of_equal_classes() -> None:
    assert fidelity([1, 0, 1, 1], [1, 1, 1, 0]) == 0.5
    with pytest.raises(InvalidInput):
        fidelity([1], [1, 0])
