"""Faithfulness, deletion, insertion, infidelity: on linear models, where the truth is known."""

from __future__ import annotations

import numpy as np
import pytest
from experiments.lib.evaluation.faithfulness import (
    deletion,
    faithfulness,
    faithfulness_difference,
    infidelity,
    insertion,
)
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from voile.core.errors import InvalidInput

WEIGHTS = np.array([2.0, -1.0, 0.5])
BASE = np.zeros(3)


def linear(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(rows @ WEIGHTS)


def rows(seed: int = 0, count: int = 5) -> NDArray[np.float64]:
    return np.random.default_rng(seed).normal(size=(count, 3))


def exact(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(x * WEIGHTS)


def test_exact_attributions_of_a_linear_model_are_perfectly_faithful() -> None:
    assert faithfulness(linear, rows(), exact(rows()), BASE) == pytest.approx(np.ones(5))
    assert faithfulness(linear, rows(), -exact(rows()), BASE) == pytest.approx(-np.ones(5))


def test_by_hand_with_a_baseline_for_each_row() -> None:
    x, base = np.array([[1.0, 1.0, 1.0]]), np.array([[0.0, 2.0, 0.0]])
    drops = np.array([2.0, 1.0, 0.5])  # replacing the second feature by 2 lowers the output by 1
    given_values = np.array([[1.0, 0.0, -1.0]])
    expected = np.corrcoef(given_values[0], drops)[0, 1]
    assert faithfulness(linear, x, given_values, base) == pytest.approx([expected])


def test_the_difference_of_two_faithfulnesses() -> None:
    x = rows()
    difference = faithfulness_difference(linear, x, exact(x), -exact(x), BASE)
    assert difference == pytest.approx(np.full(5, 2.0))


def test_deletion_and_insertion_by_hand() -> None:
    x = np.array([[1.0, 1.0, 1.0]])  # outputs 2, −1, 0.5; total 1.5
    # Deleting in the order 2, 0.5, −1 leaves 1.5, −0.5, −1, 0.
    assert deletion(linear, x, exact(x), BASE) == pytest.approx([(0.75 - 0.5 - 1 + 0) / 3])
    # Inserting in the same order gives 0, 2, 2.5, 1.5.
    assert insertion(linear, x, exact(x), BASE) == pytest.approx([(0 + 2 + 2.5 + 0.75) / 3])


@given(st.integers(0, 1000))
def test_no_other_order_beats_exact_attributions_of_a_linear_model(seed: int) -> None:
    x = rows(seed)
    other = np.random.default_rng(seed + 1).normal(size=x.shape)
    assert (deletion(linear, x, exact(x), BASE) <= deletion(linear, x, other, BASE) + 1e-9).all()
    assert (insertion(linear, x, exact(x), BASE) >= insertion(linear, x, other, BASE) - 1e-9).all()


def test_infidelity_vanishes_exactly_for_the_truth() -> None:
    x, generator = rows(), np.random.default_rng(1)
    good = infidelity(linear, x, exact(x), BASE, generator=generator)
    bad = infidelity(linear, x, exact(x) + 0.1, BASE, generator=generator)
    assert good == pytest.approx(np.zeros(5), abs=1e-20)
    assert (bad > 1e-3).all()


def test_bad_input_is_refused() -> None:
    with pytest.raises(InvalidInput, match="baseline"):
        faithfulness(linear, rows(), exact(rows()), np.zeros(2))
    with pytest.raises(InvalidInput, match="agree"):
        faithfulness(linear, rows(), exact(rows())[:2], BASE)
    with pytest.raises(InvalidInput, match="one finite output"):
        faithfulness(lambda x: np.full(len(x), np.nan), rows(), exact(rows()), BASE)
    with pytest.raises(InvalidInput, match="one finite output"):
        faithfulness(lambda x: x, rows(), exact(rows()), BASE)
