"""`voile.Explainer`: which method, which values, which words."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.datasets import load_diabetes, load_iris
from sklearn.decomposition import PCA
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sklearn.svm import SVC

import voile
from tests.unit.python.people_models import PEOPLE, pipeline
from voile.core.errors import InvalidInput
from voile.python.plain.models import read_model
from voile.python.plain.pipelines import split

pytestmark = [
    pytest.mark.filterwarnings("ignore:The set_:PendingDeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Stochastic Optimizer"),
]

IRIS = load_iris(as_frame=True)
X, KINDS = IRIS.data, IRIS.target_names[IRIS.target]
DIABETES = load_diabetes(as_frame=True)
QUICK: dict[str, Any] = {"progress": False}


def explained(model: Any, background: Any, rows: Any, **options: Any) -> Any:
    return voile.Explainer(model, background, **QUICK, **options)(rows)


def adds_up(why: Any, said: Any) -> None:
    total = why.explanation.base_values + why.explanation.values.sum(axis=1)
    assert_allclose(total.squeeze(), said, atol=1e-9)


# --- which method ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("final", "method", "scale"),
    [
        (LogisticRegression(), "linear", "log-odds"),
        (RandomForestClassifier(5, random_state=0), "tree", "probability"),
        (GradientBoostingClassifier(n_estimators=5), "tree", "log-odds"),
        (SVC(), "exact", "score"),
    ],
)
def test_the_method_suits_the_last_step_of_a_pipeline(final: Any, method: str, scale: str) -> None:
    """Over text, categories, truth values, times and missing values."""
    model = pipeline(final)
    explainer = voile.Explainer(model, PEOPLE[:30], **QUICK)
    assert (explainer.method, explainer.scale) == (method, scale)
    forced = voile.Explainer(
        model, PEOPLE[:30], method="exact",
        scale=None if scale == "score" else scale, **QUICK,
    )  # fmt: skip
    rows = PEOPLE[-5:]
    assert_allclose(explainer(rows).values, forced(rows).values, atol=1e-9)


def test_a_part_that_looks_at_several_columns_is_asked_as_a_whole() -> None:
    final = GradientBoostingClassifier(n_estimators=3)
    model = make_pipeline(StandardScaler(), PCA(), final).fit(X, KINDS == "setosa")
    explainer = voile.Explainer(model, X[::10], **QUICK)
    assert explainer.method == "exact"
    assert "mixtures" in explainer.why_method
    adds_up(explainer(X[:4]), model.predict_proba(X[:4])[:, 1])


def test_a_step_that_says_less_than_it_does_is_found_out() -> None:
    """Nothing but a comparison can tell that this scaler looks at all columns of a row."""

    class StandardScaler(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # a known name
        __module__ = "sklearn.preprocessing"

        def fit(self, _rows: Any, _target: Any = None) -> Any:
            self.fitted_ = True
            return self

        def get_feature_names_out(self, names: Any = None) -> Any:
            return np.array(names if names is not None else list(X.columns))

        def transform(self, rows: Any) -> Any:
            found = np.asarray(rows, dtype=float)
            return found - found.mean(axis=1, keepdims=True)

    model = make_pipeline(StandardScaler(), SVC()).fit(X, KINDS == "setosa")
    read = read_model(model, X)
    assert split(read, read.codec.encode(X)) is None


@pytest.mark.parametrize("step", [PCA(2), PolynomialFeatures()])
def test_steps_over_several_columns_are_not_split_off(step: Any) -> None:
    model = make_pipeline(step, SVC()).fit(X, KINDS)
    read = read_model(model, X)
    assert split(read, read.codec.encode(X)) is None


def test_many_columns_are_sampled_with_errors() -> None:
    rows = np.random.default_rng(0).random((60, 17))
    explainer = voile.Explainer(lambda given: given.prod(axis=1), rows, evaluations=500, **QUICK)
    assert explainer.method == "kernel"
    assert "17 columns" in explainer.why_method
    assert explainer(rows[:1]).standard_errors.shape == (1, 17)


@pytest.mark.parametrize("method", ["exact", "kernel", "permutation"])
def test_a_method_can_be_forced(method: str) -> None:
    model = Ridge().fit(X, IRIS.target)
    explainer = voile.Explainer(model, X, method=method, **QUICK)
    assert explainer.method == method
    assert method in explainer.why_method
    assert_allclose(explainer(X[:2]).values, explained(model, X, X[:2]).values, atol=1e-9)


def test_a_learned_explainer(monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    from voile.python.plain import learning

    for name in ("SURROGATE_PLAN", "EXPLAINER_PLAN"):
        monkeypatch.setattr(learning, name, replace(getattr(learning, name), steps=20))
    model = pipeline(LogisticRegression())
    why = explained(model, PEOPLE, PEOPLE[:3], method="learned")
    assert why.values.shape == (3, 6)
    assert any("approximate" in str(note) for note in why.notes)


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("tree", "'tree' does not suit this model: SVC is not made of trees"),
        ("linear", "'linear' does not suit this model: SVC is not linear"),
        ("magic", "expected one of 'linear', 'tree', 'exact'"),
    ],
)
def test_a_method_that_does_not_suit_is_told(method: str, message: str) -> None:
    model = SVC().fit(X, KINDS)
    with pytest.raises(InvalidInput, match=message):
        voile.Explainer(model, X, method=method)


def test_trees_do_without_a_background() -> None:
    model = RandomForestClassifier(5, random_state=0).fit(X, KINDS)
    explainer = voile.Explainer(model)
    assert explainer.method == "tree"
    adds_up(explainer(X[:3]), model.predict_proba(X[:3]))
    with pytest.raises(InvalidInput, match="background: pass typical rows"):
        voile.Explainer(SVC().fit(X, KINDS))


# --- which scale ----------------------------------------------------------------------------------


def test_probabilities_can_be_asked_for() -> None:
    model = LogisticRegression().fit(X, KINDS == "setosa")
    why = explained(model, X[::5], X[:3], scale="probability")
    adds_up(why, model.predict_proba(X[:3])[:, 1])
    assert not why.notes


def test_log_odds_are_noted_and_can_be_asked_for() -> None:
    model = GradientBoostingClassifier(n_estimators=3).fit(X, KINDS == "setosa")
    why = explained(model, X, X[:3], scale="log-odds")
    adds_up(why, model.decision_function(X[:3]))
    assert any("log-odds" in str(note) for note in why.notes)
    with pytest.raises(InvalidInput, match="scale: this SVC has no log-odds; it gives score"):
        voile.Explainer(SVC().fit(X, KINDS), X, scale="log-odds")


def test_both_classes_of_one_score() -> None:
    model = LogisticRegression().fit(X, KINDS == "setosa")
    why = explained(model, X, X[:3], output="all")
    assert why.values.shape == (3, 4, 2)
    assert_allclose(why.values[:, :, 0], -why.values[:, :, 1])


# --- which rows -----------------------------------------------------------------------------------


def test_a_large_background_is_thinned_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    model = MLPRegressor(hidden_layer_sizes=(3,), max_iter=5).fit(X, IRIS.target)
    why = voile.Explainer(model, X, background_rows=40)(X[:2])
    assert "background thinned from 150 to 40 rows" in capsys.readouterr().err
    assert any("40 of 150 rows" in str(note) for note in why.notes)
    again = voile.Explainer(model, X, background_rows=40)(X[:2])
    assert_array_equal(why.values, again.values)


def test_a_linear_model_reads_all_of_a_large_background() -> None:
    model = Ridge().fit(X, IRIS.target)
    why = explained(model, X, X[:2], background_rows=10)
    adds_up(why, model.predict(X[:2]))
    assert_allclose(why.base_values, model.predict(X).mean())


@pytest.mark.parametrize(
    "one",
    [
        PEOPLE.iloc[0],
        PEOPLE.iloc[0].to_dict(),
        PEOPLE.iloc[[0]][PEOPLE.columns[::-1]],
        pl.from_pandas(PEOPLE.iloc[[0]]),
    ],
)
def test_one_person_in_any_form(one: Any) -> None:
    explainer = voile.Explainer(pipeline(LogisticRegression()), PEOPLE[:30])
    assert_array_equal(explainer(one).values, explainer(PEOPLE[:1]).values)


def test_the_rows_are_shown_as_people_wrote_them() -> None:
    why = explained(pipeline(LogisticRegression()), PEOPLE[:30], PEOPLE[:2])
    assert why.display_data[0, 1] == PEOPLE.sex[0]
    assert why.data.shape == (2, 6)
    assert why.feature_names == list(PEOPLE.columns)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (PEOPLE.drop(columns="age"), "rows lacks the column 'age'"),
        (PEOPLE.assign(extra=1), "rows has the column 'extra' that is not known"),
        (PEOPLE.assign(age="old"), "the column 'age' must hold numbers, found 'old'"),
        (PEOPLE[:0], "expected at least one row"),
        (3, "rows: expected a table"),
        ("rows.csv", "rows: expected a table"),
    ],
)
def test_rows_that_do_not_fit_are_told(rows: Any, message: str) -> None:
    explainer = voile.Explainer(pipeline(LogisticRegression()), PEOPLE[:30])
    with pytest.raises(InvalidInput, match=message):
        explainer(rows)


def test_a_background_that_is_no_table_is_told() -> None:
    with pytest.raises(InvalidInput, match="background: expected a table"):
        voile.Explainer(pipeline(LogisticRegression()), "people.csv")


# --- what it says ---------------------------------------------------------------------------------


def test_it_says_what_it_does() -> None:
    text = repr(voile.Explainer(LogisticRegression().fit(X, KINDS == "setosa"), X))
    assert "LogisticRegression over 150 background rows" in text
    assert "method: linear (LogisticRegression is linear in log-odds: exact)" in text
    assert "explains: 'True' (log-odds)" in text
    assert "protects nobody" in text


@pytest.mark.parametrize("field", ["epsilon", "budget", "schema", "noise", "model_origin"])
def test_a_budget_without_protection_is_refused(field: str) -> None:
    model = Ridge().fit(X, IRIS.target)
    with pytest.raises(InvalidInput, match=f"{field}: this explainer protects nobody"):
        voile.Explainer(model, X, **cast(Any, {field: 1}))
    with pytest.raises(InvalidInput, match=f"{field}: this explainer protects nobody"):
        voile.Explainer(model, X)(X, **{field: 1})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"colour": 1}, "colour: Explainer has no such option"),
        ({"background_rows": 0}, "background_rows: expected a whole number from 1"),
        ({"evaluations": 1.5}, "evaluations: expected a whole number"),
        ({"scale": "percent"}, "scale must be one of 'probability'"),
        ({"progress": "yes"}, "progress: expected True, False, None or a function"),
    ],
)
def test_options_that_do_not_exist_are_told(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        voile.Explainer(Ridge().fit(X, IRIS.target), X, **options)


def test_progress_is_told_to_a_function() -> None:
    told: list[tuple[int, int]] = []
    model = SVC().fit(X, KINDS)
    voile.Explainer(model, X[::5], progress=lambda *seen: told.append(seen))(X[:3])
    assert told[-1][0] <= told[-1][1]
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_a_long_call_says_how_long(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from voile.python import progress

    monkeypatch.setattr(progress, "LONG", 0.0)
    voile.Explainer(SVC().fit(X, KINDS), X[::5])(X[:40])
    assert "explaining 40 rows (exact), about" in capsys.readouterr().err


def test_an_infinite_value_is_no_error() -> None:
    rows = X.astype(float).copy()
    rows.iloc[0, 0] = np.inf

    def clipped(given: Any) -> Any:
        return np.clip(np.asarray(given, dtype=float), 0, 10).sum(axis=1)

    why = explained(clipped, rows[:20], rows[:2])
    adds_up(why, clipped(rows[:2]))


def test_missing_numbers_reach_a_model_that_takes_them() -> None:
    rows = DIABETES.data.iloc[:80].copy()
    rows.iloc[::3, 0] = np.nan

    def filled(given: pd.DataFrame) -> Any:
        return given.fillna(0.5)["age"] * given["bmi"]

    adds_up(explained(filled, rows[:20], rows[:3]), filled(rows[:3]))
