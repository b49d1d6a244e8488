"""Rows of any table become numbers, and come back as the table they were."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_array_equal
from polars.testing import assert_frame_equal

from voile.core.errors import InvalidInput
from voile.python.plain.codec import TableCodec

FRAME = pd.DataFrame(
    {
        "whole": [1, 2, 3],
        "number": [1.5, np.nan, np.inf],
        "narrow": np.array([1.5, 2, 3], dtype=np.float32),
        "text": ["a", None, "b"],
        "object": pd.Series(["y", None, 1], dtype=object),
        "with_nan": pd.Series(["y", np.nan, "x"], dtype=object),
        "kind": pd.Categorical(["x", "y", None], categories=["y", "x", "z"]),
        "code": pd.Categorical([1, 2, None]),
        "truth": [True, False, True],
        "nullable": pd.array([1, None, 3], dtype="Int64"),
        "time": pd.to_datetime(["2020-01-01", None, "2021-01-01"]),
        "zoned": pd.to_datetime(["2020-01-01"] * 3).tz_localize("Europe/Berlin"),
        "span": pd.to_timedelta([1, 2, None], unit="D"),
        "large": [2**60, 2**60 + 1, 5],
    }
)
POLARS = pl.DataFrame(
    {
        "whole": [1, 2, 3],
        "number": [1.5, None, 2.0],
        "text": ["a", None, "b"],
        "kind": pl.Series(["a", "b", None]).cast(pl.Enum(["a", "b"])),
        "day": pl.Series([1, 2, 3]).cast(pl.Date),
        "truth": [True, None, False],
    }
)


def test_a_pandas_table_comes_back_in_its_types() -> None:
    codec = TableCodec.from_table(FRAME)
    rows = codec.encode(FRAME)
    assert np.isfinite(rows).all()
    pd.testing.assert_frame_equal(codec.decode(rows), FRAME)
    swapped = codec.decode(rows[[2, 0]])
    pd.testing.assert_frame_equal(swapped, FRAME.iloc[[2, 0]].reset_index(drop=True))


def test_what_stands_for_nothing_among_objects_stays_what_it_is() -> None:
    codec = TableCodec.from_table(FRAME)
    found = codec.decode(codec.encode(FRAME))
    assert found["object"][1] is None
    assert isinstance(found["with_nan"][1], float)


def test_a_polars_table_comes_back_in_its_types() -> None:
    codec = TableCodec.from_table(POLARS)
    assert_frame_equal(codec.decode(codec.encode(POLARS)), POLARS)


def test_an_arrow_table_comes_back_in_its_types() -> None:
    table = POLARS.to_arrow()
    codec = TableCodec.from_table(table)
    found = codec.decode(codec.encode(table))
    assert found.to_pydict() == table.to_pydict()
    assert found.schema.types == table.schema.types


def test_arrays_come_back_in_their_type() -> None:
    narrow = np.array([[1.5, np.nan], [2.0, 3.0]], dtype=np.float32)
    codec = TableCodec.from_table(narrow)
    found = codec.decode(codec.encode(narrow))
    assert found.dtype == np.float32
    assert_array_equal(found, narrow)
    objects = np.array([[1, "a"], [2, None]], dtype=object)
    codec = TableCodec.from_table(objects)
    assert codec.decode(codec.encode(objects)).tolist() == objects.tolist()


@pytest.mark.parametrize(
    "person",
    [
        FRAME.iloc[0],
        FRAME.iloc[0].to_dict(),
        FRAME.iloc[[0]],
        FRAME.iloc[[0]][FRAME.columns[::-1]],
        FRAME.iloc[[0]].to_dict(orient="records"),
    ],
)
def test_one_person_in_any_form_is_the_same_row(person: Any) -> None:
    codec = TableCodec.from_table(FRAME)
    assert_array_equal(codec.encode(person), codec.encode(FRAME)[:1])


def test_rows_of_another_kind_of_table_become_the_kind_of_the_first() -> None:
    frame = FRAME[["whole", "number", "text", "time"]].replace(np.inf, 2.0)
    codec = TableCodec.from_table(frame)
    found = codec.decode(codec.encode(pl.from_pandas(frame)))
    pd.testing.assert_frame_equal(found, frame)


def test_a_value_that_was_not_seen_is_added() -> None:
    codec = TableCodec.from_table(FRAME[["text"]])
    before = codec.encode(FRAME[["text"]])
    new = codec.encode({"text": ["new", "a"]})
    assert codec.decode(new)["text"].tolist() == ["new", "a"]
    assert_array_equal(codec.encode(FRAME[["text"]]), before)


def test_plots_get_numbers_times_and_places_of_words() -> None:
    codec = TableCodec.from_table(FRAME)
    shown = codec.numbers(codec.read(FRAME))
    column = dict(zip(codec.names, shown.T, strict=True))
    assert_array_equal(column["kind"], [1, 0, np.nan])
    assert_array_equal(column["nullable"], [1, np.nan, 3])
    assert_array_equal(column["text"], [0, np.nan, 1])
    assert column["time"][2] > column["time"][0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"whole": "x"}, r"the column 'whole' must hold numbers, found 'x' in row 0"),
        ({"kind": "w"}, r"'w' is no category of the column 'kind'; expected one of 'y', 'x', 'z'"),
        ({"text": 3}, r"the column 'text' must hold text, found 3 in row 0"),
        ({"time": "today"}, r"the column 'time' must hold times, found 'today'"),
    ],
)
def test_a_column_of_another_kind_is_named(change: dict[str, Any], message: str) -> None:
    person = {**FRAME.iloc[0].to_dict(), **change}
    with pytest.raises(InvalidInput, match=message):
        TableCodec.from_table(FRAME).encode(person)


def test_columns_that_are_missing_or_too_many_are_named() -> None:
    codec = TableCodec.from_table(FRAME[["whole", "number"]])
    with pytest.raises(InvalidInput, match=r"rows lacks the column 'whole' \(is it 'Whole'\?\)"):
        codec.encode(pd.DataFrame({"Whole": [1], "number": [1.0]}))
    with pytest.raises(InvalidInput, match="has the column 'label' that is not known"):
        codec.encode(FRAME[["whole", "number"]].assign(label=1))
    with pytest.raises(InvalidInput, match=r"expected 2 columns .* an array with 3"):
        codec.encode(np.zeros((1, 3)))


def test_a_table_names_the_columns_of_an_array() -> None:
    codec = TableCodec.from_table(np.zeros((2, 2)))
    assert list(codec.read(pd.DataFrame({"a": [1.0], "b": [2.0]}))) == ["a", "b"]
