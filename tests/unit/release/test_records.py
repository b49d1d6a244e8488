"""Protected records and models that always answer."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contract.releases import SCHEMA
from voile.core.errors import InvalidInput, Refused
from voile.models import Box, Simplex, wrap
from voile.release.output_sets import BoundedModel, declared_set, predicted_or_nan
from voile.release.records import Records
from voile.release.silence import silenced

# --- Records --------------------------------------------------------------------------------------


def test_a_table_and_an_array_of_the_same_records_are_read_alike() -> None:
    table = {"age": [30, None, "x"], "sex": ["m", "?", None], "dose": [2.6, 99, math.nan]}
    array = np.array([[30, 1, 2.6], [math.nan, 7, 99], [math.nan] * 3])
    one, two = (Records.read(given, SCHEMA, "records") for given in (table, array))
    assert np.array_equal(one.rows, two.rows)
    assert one.blank.tolist() == two.blank.tolist() == [False, False, True]
    assert np.array_equal(one.rows[2], SCHEMA.null_row)


@given(st.lists(st.tuples(*[st.floats() | st.integers(-5, 5)] * 3), min_size=1, max_size=5))
def test_records_lie_inside_the_schema_whatever_they_hold(rows: list[Any]) -> None:
    found = Records.read(np.array(rows, dtype=np.float64), SCHEMA, "records")
    assert np.array_equal(SCHEMA.clamp(found.rows), found.rows)
    assert np.isfinite(found.rows).all()


def test_a_null_record_is_not_taken_for_the_defaults() -> None:
    both = np.array([SCHEMA.null_row, [math.nan] * 3, SCHEMA.null_row])
    few, counts = Records.read(both, SCHEMA, "records").distinct()
    assert sorted(zip(few.blank.tolist(), counts.tolist(), strict=True)) == [(False, 2), (True, 1)]


@pytest.mark.parametrize("wrong", [np.zeros((0, 3)), np.zeros((2, 2)), {"age": [1]}, "abc", 5])
def test_only_public_structure_raises(wrong: Any) -> None:
    with pytest.raises(InvalidInput):
        Records.read(wrong, SCHEMA, "records")


@pytest.mark.parametrize(
    "cell",
    [
        *(None, "x", b"\xff", 10**30, -(10**400), math.nan, Decimal("sNaN"), 1j, object(), [1]),
        *(pd.NaT, np.datetime64("2020-01-01"), np.timedelta64(3, "s"), pd.Timestamp(0)),
    ],
)
@pytest.mark.parametrize("make", [list, tuple, iter, lambda rows: np.array(rows, dtype=object)])
def test_one_cell_of_an_array_or_a_list_never_raises_and_moves_no_other(
    cell: Any, make: Any
) -> None:
    usual = [30, 1, 2.6]
    expected = Records.read(np.array([usual] * 2), SCHEMA, "records").rows
    found = Records.read(make([usual, [cell, 1, 2.6], usual]), SCHEMA, "records")
    assert np.array_equal(found.rows[::2], expected)
    assert not found.blank.any()
    assert np.array_equal(SCHEMA.clamp(found.rows), found.rows)


@pytest.mark.parametrize("row", [[], [1, 2], [1, 2, 3, 4], None, 7, "abc", b"abc", [None] * 3])
def test_a_row_of_a_list_that_has_not_one_value_for_each_feature_is_null(row: Any) -> None:
    found = Records.read([[30, 1, 2.6], row], SCHEMA, "records")
    assert found.blank.tolist() == [False, True]


@given(st.lists(st.lists(st.sampled_from(["1", b"2", -0.0, True, None, 10**30, "m"]), max_size=4)))
def test_a_list_is_read_as_each_of_its_rows_alone(rows: list[list[Any]]) -> None:
    together = Records.read_any(rows, SCHEMA)
    for place, row in enumerate(rows):
        alone = Records.read_any([row], SCHEMA)
        assert together.rows[place].tobytes() == alone.rows[0].tobytes()
        assert together.blank[place] == alone.blank[0]


# --- Models ---------------------------------------------------------------------------------------


def moody(rows: Any) -> Any:
    if (rows[:, 0] > 90).any():
        raise RuntimeError("too old")
    return np.where(rows[:, 0] > 80, np.nan, rows[:, 0] / 40)


def test_a_row_that_makes_the_model_fail_gets_the_centre_and_no_other_row_does() -> None:
    bounded = BoundedModel.from_model(wrap(moody, outputs=Box(0, 1), digest="moody"), SCHEMA)
    rows = np.array([[95.0, 0, 0], [10.0, 0, 0], [85.0, 0, 0], [70.0, 0, 0]])
    with silenced():
        assert bounded.model.predict(rows)[:, 0].tolist() == [0.5, 0.25, 0.5, 1.0]


@pytest.mark.parametrize(
    "answer", ["text", [["a"]], [1.0, 2.0, 3.0], None, [[1j]], [[1.0, 2.0, 3.0]]]
)
def test_an_answer_in_another_form_is_no_answer(answer: Any) -> None:
    found = predicted_or_nan(lambda _: answer, 2, np.zeros((2, 3)))
    assert found.shape == (2, 2)
    assert np.isnan(found).all()


def test_a_model_that_cannot_answer_a_public_row_says_so() -> None:
    def broken(_: Any) -> Any:
        raise RuntimeError("always")

    with pytest.raises(RuntimeError, match="always"):
        BoundedModel.from_model(wrap(broken, outputs=Box(0, 1), digest="broken"), SCHEMA)


def test_declared_sets() -> None:
    box = declared_set(Box((0.0, -1.0), (1.0, 1.0)), 2)
    assert box.diameter == pytest.approx(math.sqrt(5))
    assert box.radius == pytest.approx(math.sqrt(5) / 2)
    simplex = declared_set(Simplex(), 4)
    # Sums within 1e-5 of 1 are left as they are; the set must hold them.
    loose = np.array([[1 + 9e-6, 0, 0, 0], [0, 1 + 9e-6, 0, 0]])
    assert np.array_equal(Simplex().clamp(loose)[0], loose)
    assert np.linalg.norm(loose[0] - loose[1]) <= simplex.diameter < math.sqrt(2) + 1e-4
    assert np.linalg.norm(loose[0] - 0.25) <= simplex.radius
    with pytest.raises(Refused, match="complement"):
        declared_set(Simplex(), 2)
    with pytest.raises(Refused, match="finite width"):
        declared_set(Simplex(), 1)
