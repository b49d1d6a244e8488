"""`Schema.from_frame`: drafted from tables of every kind, and says that the rows are public."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import voile
from voile.core.errors import InvalidInput
from voile.core.schema import Categories, Label, Numbers

COLUMNS = {
    "age": [21.5, 34.0, 58.5, None],
    "sex": ["f", "m", "f", "n/a"],
    "smokes": [True, False, True, True],
    "ill": ["no", "yes", "no", "no"],
}


@pytest.mark.parametrize("table", [dict, pd.DataFrame, pl.DataFrame, pa.table])
def test_tables_of_every_kind(table: Any) -> None:
    schema = voile.Schema.from_frame(table(COLUMNS), label="ill")
    assert [each.domain for each in schema.features] == [
        Numbers(20, 60),
        Categories(("f", "m", "n/a")),
        Categories((0, 1)),
    ]
    assert schema.label == Label("ill", Categories(("no", "yes")))


def test_the_schema_and_a_message_say_that_the_rows_are_public(
    capsys: pytest.CaptureFixture[str],
) -> None:
    schema = voile.Schema.from_frame({**COLUMNS, "name": [f"p{n}" for n in range(4)] * 1})
    assert schema.name == "drafted from public rows"
    assert schema.label is None
    told = capsys.readouterr()
    assert told.out == ""
    assert "4 rows that you call public" in told.err


def test_what_is_left_out_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    rows = pd.DataFrame(
        {
            "age": np.linspace(20, 60, 30),
            "patient": [f"p{number}" for number in range(30)],
            "admitted": pd.date_range("2026-01-01", periods=30),
        }
    )
    schema = voile.Schema.from_frame(rows, name="ward")
    assert (schema.name, schema.feature_names) == ("ward", ("age",))
    assert "'patient', 'admitted'" in capsys.readouterr().err


def test_a_label_that_is_not_there() -> None:
    with pytest.raises(InvalidInput, match="no column 'sick'; found age, sex"):
        voile.Schema.from_frame(COLUMNS, label="sick")
