"""Tables as people have them, and the errors about wrong ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal

from voile.core.errors import InvalidInput
from voile.datasets.frames import check_names, columns_of, is_frame, is_one_row, row_count

FRAME = pd.DataFrame(
    {
        "whole": [1, 2, 3],
        "number": [1.5, np.nan, 2.0],
        "text": ["a", None, "b"],
        "kind": pd.Categorical(["x", "y", None]),
        "truth": [True, False, True],
        "nullable": pd.array([1, None, 3], dtype="Int64"),
        "nullable_truth": pd.array([True, None, False], dtype="boolean"),
        "string": pd.array(["a", pd.NA, "c"], dtype="string"),
        "time": pd.to_datetime(["2020-01-01", None, "2021-01-01"]),
        "zoned": pd.to_datetime(["2020-01-01"] * 3).tz_localize("Europe/Berlin"),
        "code": pd.Categorical([1, 2, None]),
    }
)
WANTED: dict[str, tuple[str, list[Any]]] = {
    "whole": ("i", [1, 2, 3]),
    "number": ("f", [1.5, np.nan, 2.0]),
    "text": ("O", ["a", None, "b"]),
    "kind": ("O", ["x", "y", None]),
    "truth": ("b", [True, False, True]),
    "nullable": ("O", [1, None, 3]),
    "nullable_truth": ("O", [True, None, False]),
    "string": ("O", ["a", None, "c"]),
    "code": ("O", [1, 2, None]),
}


def tables() -> dict[str, Any]:
    polars = pl.from_pandas(FRAME)
    return {
        "pandas": FRAME,
        "pandas on arrow": FRAME.drop(columns="code").convert_dtypes(dtype_backend="pyarrow"),
        "polars": polars,
        "lazy": polars.lazy(),
        "arrow": polars.to_arrow(),
        "dict": {name: FRAME[name].tolist() for name in FRAME},
        "records": FRAME.to_dict(orient="records"),
    }


@pytest.mark.parametrize("kind", tables())
def test_every_kind_of_table_holds_the_same_cells(kind: str) -> None:
    table = tables()[kind]
    columns = columns_of(table)
    assert is_frame(table)
    assert row_count(table) == 3
    for name, (_, cells) in WANTED.items():
        if name in columns and name != "number":
            assert columns[name].tolist() == cells, name
    assert columns["number"].tolist()[0] == 1.5
    assert columns["number"][1] is None or np.isnan(columns["number"][1])
    assert columns["time"].dtype.kind == "M"
    assert_array_equal(np.isnat(columns["time"]), [False, True, False])
    assert columns["zoned"][0] == np.datetime64("2019-12-31T23:00")


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
def test_types_stay_what_they_are(kind: str) -> None:
    columns = columns_of(tables()[kind])
    assert {name: columns[name].dtype.kind for name in WANTED} == {
        name: found for name, (found, _) in WANTED.items()
    }


def test_a_large_whole_number_beside_a_missing_one_keeps_its_digits() -> None:
    large = 2**60 + 1
    for table in (
        pd.DataFrame({"id": pd.array([large, None], dtype="Int64")}),
        pl.DataFrame({"id": [large, None]}),
        pa.table({"id": [large, None]}),
    ):
        assert columns_of(table)["id"].tolist() == [large, None]


@pytest.mark.parametrize(
    "person",
    [FRAME.iloc[0], FRAME.iloc[0].to_dict(), {name: FRAME[name].iloc[0] for name in FRAME}],
)
def test_one_person_is_one_row(person: Any) -> None:
    assert is_one_row(person)
    assert row_count(person) == 1
    columns = columns_of(person)
    assert columns["whole"].tolist() == [1]
    assert columns["text"].tolist() == ["a"]
    assert columns["zoned"][0] == np.datetime64("2019-12-31T23:00")


def test_arrays_get_the_names_that_are_given() -> None:
    assert list(columns_of(np.zeros((2, 2)), ["a", "b"])) == ["a", "b"]
    assert columns_of(np.array([1.0, 2.0]), ["a", "b"])["b"].tolist() == [2.0]
    assert columns_of([[1, "x"], [2, "y"]])["feature 1"].tolist() == ["x", "y"]
    assert row_count([[1, 2], [3, 4], [5, 6]]) == 3
    assert not is_frame(np.zeros(2))


def test_names_choose_and_order() -> None:
    assert list(columns_of(FRAME, ["text", "whole"])) == ["text", "whole"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (5, "expected a table .* found int"),
        ("rows.csv", "expected a table"),
        (np.zeros((2, 2, 2)), "found ndarray with 3 axes"),
        ({"a": [1], "b": 2}, "single values in 'b' only"),
        ({"a": [1], "b": [1, 2]}, "one length, found 'a': 1, 'b': 2"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "'a' more than once"),
        (pa.table([[1], [2]], names=["a", "a"]), "'a' more than once"),
        ([[1], [1, 2]], "rows of one length"),
        ({}, "at least one column"),
    ],
)
def test_what_is_no_table_is_told_apart(given: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        columns_of(given)


def test_wrong_columns_are_named() -> None:
    with pytest.raises(InvalidInput, match=r"lacks the column 'b' and has the column 'c' that is"):
        check_names(["a", "c"], ["a", "b"])
    with pytest.raises(InvalidInput, match=r"lacks the column 'age' \(is it 'Age'\?\)"):
        columns_of({"Age": [1]}, ["age"])
    with pytest.raises(InvalidInput, match=r"expected 3 columns .* array with 2"):
        columns_of(np.zeros((1, 2)), ["a", "b", "c"])
    check_names(["b", "a"], ["a", "b"])
