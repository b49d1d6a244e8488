"""Models as people have them, over rows of a schema: the same predictions, public rows alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression

from tests.unit.python.people import DECLARED, SCHEMA, outcome, people, pipeline
from voile import Schema
from voile.core.errors import InvalidInput
from voile.models import Box, Simplex, Unbounded, WrappedModel, row_wise
from voile.python.protected.model import model_over_schema, probe_rows

TABLE = people(60, seed=2)


def wrapped(model: Any, **more: Any) -> WrappedModel:
    return model_over_schema(model, SCHEMA, **more)


def predictions(model: WrappedModel, schema: Schema = SCHEMA) -> Any:
    return model.predict(schema.rows(TABLE))


def test_a_pipeline_is_known_to_keep_rows_apart() -> None:
    model = pipeline()
    found = wrapped(model)
    assert np.array_equal(predictions(found), model.predict_proba(TABLE))
    assert (found.output_names, type(found.outputs)) == (("no", "yes"), Simplex)
    assert row_wise(found) is not None
    assert wrapped(pipeline()).digest == found.digest
    assert wrapped(found) is found


def test_a_method_and_a_function_are_what_they_answer() -> None:
    model = pipeline()
    method = wrapped(model.predict_proba)
    assert np.array_equal(predictions(method), model.predict_proba(TABLE))
    assert row_wise(method) is not None
    function = wrapped(lambda table: model.predict_proba(table)[:, 1])
    assert np.array_equal(predictions(function)[:, 0], model.predict_proba(TABLE)[:, 1])
    assert isinstance(function.outputs, Unbounded)
    assert row_wise(function) is None
    assert row_wise(wrapped(lambda table: table["age"], row_wise=True)) is not None


def test_numbers_go_to_a_model_of_arrays() -> None:
    schema = Schema({"age": (18, 100), "income": (0, 500_000)})
    rows = TABLE[["age", "income"]].to_numpy()
    model = LogisticRegression(max_iter=1_000).fit(rows / [1, 1e5], outcome(TABLE))
    found = model_over_schema(model, schema)
    assert np.array_equal(found.predict(rows), model.predict_proba(rows))


def test_whole_number_categories_are_values_and_not_places() -> None:
    schema = Schema({"grade": [3, 5, 9], "age": (18, 100)})
    rows = np.column_stack([np.tile([3, 5, 9], 20), TABLE.age])
    model = LinearRegression().fit(rows, rows[:, 0])
    found = model_over_schema(model, schema)
    read = schema.rows({"grade": rows[:, 0], "age": rows[:, 1]})
    assert found.predict(read)[:, 0] == pytest.approx(rows[:, 0])


def test_a_polars_function() -> None:
    found = wrapped(lambda table: table["age"].to_numpy() / 100, like=pl.from_pandas(TABLE))
    assert np.array_equal(predictions(found)[:, 0], TABLE.age / 100)


def test_categories_in_a_type_of_their_own() -> None:
    lightgbm = pytest.importorskip("lightgbm")
    table = people(300, seed=3)
    typed = table.assign(sex=pd.Categorical(table.sex))
    model = lightgbm.LGBMClassifier(n_estimators=5, verbose=-1).fit(typed, outcome(table))
    own = model.predict_proba(TABLE.assign(sex=pd.Categorical(TABLE.sex, categories=["f", "m"])))
    assert np.array_equal(predictions(wrapped(model)), own)


def test_a_score_without_a_range() -> None:
    found = wrapped(pipeline(LinearRegression(), TABLE, TABLE.age))
    assert isinstance(found.outputs, Unbounded)
    assert predictions(found)[:, 0] == pytest.approx(TABLE.age)


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"age": (18, 100)}, "the schema lacks the columns 'sex', 'income'"),
        ({**DECLARED, "job": ["a"]}, "the schema has the column 'job' that is not known"),
        ({**DECLARED, "sex": ["f", "m", "x"]}, "for a row that the schema allows: .*'x'"),
    ],
)
def test_a_schema_that_does_not_fit(declared: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        model_over_schema(pipeline(), Schema(declared))


def test_a_model_that_would_be_fed_something_else_is_refused() -> None:
    """Blanks at the end of a text: the model tells "m " from "m", the schema does not."""
    table = people(200, seed=4)
    blank = np.where((table.sex == "m") & (table.age > 50), "m ", table.sex)
    model = pipeline(table=table.assign(sex=blank), target=outcome(table))
    with pytest.raises(InvalidInput, match="differ in blanks alone"):
        wrapped(model)


def test_what_is_no_model() -> None:
    with pytest.raises(InvalidInput, match="model: cannot read a int"):
        wrapped(3)
    with pytest.raises(InvalidInput, match="not fitted"):
        wrapped(LogisticRegression())


def test_rows_to_try_hold_every_category_and_every_end() -> None:
    rows = probe_rows(SCHEMA)
    assert set(rows[:, 1]) == {0.0, 1.0}
    for place, (lowest, highest) in ((0, (18, 100)), (2, (0, 500_000))):
        assert (rows[:, place].min(), rows[:, place].max()) == (lowest, highest)
    assert np.array_equal(SCHEMA.clamp(rows), rows)


def test_a_forest_of_one_probability_is_between_0_and_1() -> None:
    model = pipeline(RandomForestClassifier(3, random_state=0))
    one = wrapped(model).only("yes")
    assert one.outputs == Box(0.0, 1.0)
