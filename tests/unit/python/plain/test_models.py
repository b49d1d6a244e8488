"""What a model is asked, which tables it gets, and how its outputs are called."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.multioutput import MultiOutputClassifier

from tests.unit.python.people_models import ANSWER, PEOPLE, pipeline
from voile.core.errors import InvalidInput, Refused
from voile.python.plain.answers import Scale
from voile.python.plain.models import read_model

IRIS = load_iris(as_frame=True)
X, KINDS = IRIS.data, IRIS.target_names[IRIS.target]
TWO = np.where(KINDS == "setosa", "yes", "no")


def test_a_binary_classifier_explains_its_second_class() -> None:
    read = read_model(LogisticRegression().fit(X, TWO), X)
    assert (read.output_names, read.scale) == (("yes",), Scale.PROBABILITY)
    assert read.names == ("no", "yes")


def test_all_classes_of_three_are_explained() -> None:
    model = LogisticRegression(max_iter=1_000).fit(X, KINDS)
    assert read_model(model, X).output_names == ("setosa", "versicolor", "virginica")
    assert read_model(model, X, output="setosa").output_names == ("setosa",)
    assert read_model(model, X, output=["virginica", 0]).output_names == ("virginica", "setosa")


@pytest.mark.parametrize("output", ["maybe", 7, True])
def test_an_output_that_is_not_there_is_told_with_those_that_are(output: Any) -> None:
    model = LogisticRegression().fit(X, TWO)
    with pytest.raises(InvalidInput, match=r"output: .*expected one of 'no', 'yes', or 'all'"):
        read_model(model, X, output=output)


def test_labels_may_be_numbers_or_truth_values() -> None:
    model = LogisticRegression().fit(X, TWO == "yes")
    assert read_model(model, X).output_names == ("True",)
    assert read_model(model, X, output=False).output_names == ("False",)


def test_a_number_may_be_given_its_name() -> None:
    model = LinearRegression().fit(X, IRIS.target)
    assert read_model(model, X).output_names == ("prediction",)
    assert read_model(model, X, output="kind").output_names == ("kind",)
    assert read_model(model, X, output_names=["kind"]).output_names == ("kind",)


def test_a_pipeline_gets_the_table_it_was_fitted_on() -> None:
    model = pipeline(RandomForestClassifier(5, random_state=0))
    read = read_model(model, PEOPLE)
    found = read.predict(read.codec.encode(PEOPLE))[:, 0]
    assert_array_equal(found, model.predict_proba(PEOPLE)[:, 1])


@pytest.mark.parametrize("fitted_on", ["pandas", "numpy"])
@pytest.mark.parametrize("given", ["pandas", "numpy", "polars", "dict"])
def test_every_table_reaches_the_model_without_a_warning(fitted_on: str, given: str) -> None:
    tables = {
        "pandas": X,
        "numpy": X.to_numpy(),
        "polars": pl.from_pandas(X),
        "dict": X.to_dict(orient="list"),
    }
    model = LogisticRegression().fit(tables[fitted_on], TWO)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read = read_model(model, tables[given])
        found = read.predict(read.codec.encode(tables[given]))[:, 0]
    assert_allclose(found, model.predict_proba(tables[fitted_on])[:, 1], rtol=1e-12)


def test_columns_come_in_the_order_of_the_model() -> None:
    model = LogisticRegression().fit(X, TWO)
    turned = X[X.columns[::-1]]
    assert read_model(model, turned).codec.names == tuple(X.columns)


def test_methods_are_read_as_their_model() -> None:
    model = LogisticRegression().fit(X, TWO)
    assert read_model(model.predict_proba, X).output_names == ("yes",)
    asked = read_model(model.decision_function, X)
    assert (asked.output_names, asked.scale) == (("yes",), Scale.SCORE)
    assert_allclose(asked.predict(asked.codec.encode(X))[:, 0], model.decision_function(X))


def test_scores_where_there_are_no_probabilities() -> None:
    read = read_model(RidgeClassifier().fit(X, TWO), X)
    assert (read.output_names, read.scale) == (("yes",), Scale.SCORE)
    assert read.on_raw_scale() is None


def test_labels_alone_become_one_number_for_each_class() -> None:
    class Labels:
        classes_ = np.array(["no", "yes"])

        def predict(self, rows: Any) -> Any:
            return np.where(np.asarray(rows)[:, 0] > 5, "yes", "no")

    read = read_model(Labels(), X)
    found = read.predict(read.codec.encode(X))[:, 0]
    assert_array_equal(found, X.iloc[:, 0] > 5)


def test_a_search_is_its_best_model() -> None:
    search = GridSearchCV(LogisticRegression(), {"C": [1.0]}, cv=2).fit(X, TWO)
    read = read_model(search, X)
    assert read.output_names == ("yes",)
    assert read.on_raw_scale() is not None


def test_functions_get_the_kind_of_table_they_are_written_for() -> None:
    by_name = read_model(lambda rows: rows["sepal length (cm)"] * 2, X)
    by_place = read_model(lambda rows: rows[:, 0] * 2, X)
    for read in (by_name, by_place):
        assert_array_equal(read.predict(read.codec.encode(X))[:, 0], X.iloc[:, 0] * 2)


def test_probabilities_of_a_function_are_known_by_their_sum() -> None:
    model = LogisticRegression().fit(X, TWO)
    read = read_model(lambda rows: model.predict_proba(rows), X)
    assert (read.output_names, read.scale) == (("class 1",), Scale.PROBABILITY)


def test_a_torch_module() -> None:
    import torch

    network = torch.nn.Sequential(torch.nn.Linear(4, 1)).eval()
    read = read_model(network, X)
    expected = network(torch.tensor(X.to_numpy(), dtype=torch.float32)).detach().numpy()
    assert_array_equal(read.predict(read.codec.encode(X)), expected)
    tensor = torch.tensor(X.to_numpy(), dtype=torch.float32)
    read = read_model(network, tensor)
    assert_array_equal(read.predict(read.codec.encode(tensor)), expected)
    with pytest.raises(InvalidInput, match=r"call `module.eval\(\)` first"):
        read_model(network.train(), X)


def test_boosters_of_their_own() -> None:
    import lightgbm
    import xgboost

    target = (TWO == "yes").astype(int)
    quiet = {"objective": "binary", "verbose": -1}
    light = lightgbm.train(quiet, lightgbm.Dataset(X, target), 3)
    extreme = xgboost.train({"objective": "binary:logistic"}, xgboost.DMatrix(X, target), 3)
    for booster, expected in ((light, light.predict(X)), (extreme, None)):
        read = read_model(booster, X)
        assert (read.output_names, read.scale) == (("1",), Scale.PROBABILITY)
        if expected is not None:
            assert_array_equal(read.predict(read.codec.encode(X))[:, 0], expected)


def test_catboost_with_words() -> None:
    import catboost

    frame = PEOPLE[["age", "job"]].astype({"job": str})
    model = catboost.CatBoostClassifier(
        n_estimators=3, cat_features=["job"], verbose=0, allow_writing_files=False
    ).fit(frame, ANSWER)
    read = read_model(model, frame)
    assert read.output_names == ("yes",)
    assert_array_equal(
        read.predict(read.codec.encode(frame))[:, 0], model.predict_proba(frame)[:, 1]
    )


def test_an_onnx_file_names_its_classes(tmp_path: Path) -> None:
    from skl2onnx import to_onnx

    model = LogisticRegression().fit(X.to_numpy(), TWO)
    graph = to_onnx(model, X.to_numpy().astype(np.float32), options={"zipmap": False})
    path = tmp_path / "model.onnx"
    path.write_bytes(graph.SerializeToString())
    read = read_model(path, X)
    assert (read.output_names, read.scale) == (("yes",), Scale.PROBABILITY)
    found = read.predict(read.codec.encode(X))[:, 0]
    assert np.allclose(found, model.predict_proba(X.to_numpy())[:, 1], atol=1e-5)


# --- what goes wrong ------------------------------------------------------------------------------


def test_pickles_and_files_that_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "model.pkl").write_bytes(b"\x80\x04N.")
    with pytest.raises(Refused, match="pickle"):
        read_model(tmp_path / "model.pkl", X)
    with pytest.raises(InvalidInput, match="there is no file"):
        read_model("nowhere.onnx", X)


def several_targets() -> Any:
    return MultiOutputClassifier(LogisticRegression()).fit(X, np.column_stack([TWO, TWO]))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (RandomForestClassifier(), "not fitted yet; call its `fit` first"),
        (3, "cannot read a int"),
        (lambda rows: ["a"] * len(rows), "must return numbers"),
        (
            lambda rows: len(rows) / 0,
            "function raised ZeroDivisionError for rows like the background",
        ),
        (lambda rows: np.zeros((len(rows), 2, 2)), r"must return an array \(rows,\)"),
    ],
)
def test_models_that_cannot_be_read(model: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_model(model, X)


def test_several_targets_are_asked_for_one() -> None:
    with pytest.raises(InvalidInput, match="2 targets at once"):
        read_model(several_targets(), X)


def test_a_background_with_other_columns_names_them() -> None:
    model = LogisticRegression().fit(X, TWO)
    with pytest.raises(InvalidInput, match=r"background lacks the column 'petal width \(cm\)'"):
        read_model(model, X.drop(columns="petal width (cm)"))
    with pytest.raises(InvalidInput, match="background has the column 'kind' that is not known"):
        read_model(model, pd.concat([X, pd.Series(KINDS, name="kind")], axis=1))
