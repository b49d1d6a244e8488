"""Private estimators: as scikit-learn's people use them, and what they may never tell."""

from __future__ import annotations

import copy
import inspect
import pickle
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer

import voile
from voile import Budget, PrivateClassifier, PrivateRegressor, Schema
from voile.app.calls import handle
from voile.app.commands.explain import Explain
from voile.app.commands.federate import WriteReport
from voile.core.errors import BudgetExceeded, InvalidInput, Refused, VoileError
from voile.core.explanation import Explanation
from voile.core.schema import Categories, Feature, Label, Numbers
from voile.python.training.declaring import class_labels
from voile.python.training.estimator import FitWarning, NotFitted

COLUMNS = {"age": (18, 100), "sex": ["f", "m"], "income": (0, 500_000)}
SCHEMA = Schema(COLUMNS)
TERMS: dict[str, Any] = {"schema": SCHEMA, "classes": ["no", "yes"], "epsilon": 2, "delta": 1e-6}


def people(count: int, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray[Any, Any]]:
    draw = np.random.default_rng(seed)
    found = pd.DataFrame(
        {
            "age": draw.integers(18, 100, count),
            "sex": draw.choice(["f", "m"], count),
            "income": draw.uniform(0, 500_000, count),
        }
    )
    chance = 1 / (1 + np.exp(-(found["age"] - 60) / 8 - 1.5 * (found["sex"] == "m")))
    return found, np.where(draw.random(count) < chance, "yes", "no")


X, Y = people(1200)
FRESH, TRUE = people(300, seed=1)


def fitted(**changes: Any) -> PrivateClassifier:
    with warnings.catch_warnings(action="ignore", category=FitWarning):
        return PrivateClassifier(**(TERMS | changes)).fit(X, Y)


@pytest.fixture(scope="module")
def clf() -> PrivateClassifier:
    return fitted()


@pytest.fixture
def budget() -> Iterator[Budget]:
    with Budget.in_memory("people 1", epsilon=9, delta=1e-6) as opened:
        yield opened


def told(caught: Any) -> list[str]:
    return [str(each.message) for each in caught if issubclass(each.category, FitWarning)]


# --- the page -------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::voile.python.training.estimator.FitWarning")
def test_the_snippet_works_as_written() -> None:
    X_new, X, y, schema = FRESH, globals()["X"], Y, SCHEMA  # noqa: N806
    clf = voile.PrivateClassifier(schema=schema, classes=["no", "yes"], epsilon=1, delta=1e-6).fit(
        X, y
    )
    clf.predict_proba(X_new)
    clf.explain(X_new)
    clf.guarantee_  # noqa: B018
    assert 0.99 < clf.guarantee_.epsilon <= 1
    assert clf.score(FRESH, TRUE) > 0.75
    reg = voile.PrivateRegressor(schema=schema, target_range=(0, 100), epsilon=1, delta=1e-6)
    reg.fit(X.assign(sex="f"), X["age"])
    assert np.abs(reg.predict(FRESH) - FRESH["age"]).mean() < 15


def test_importing_voile_loads_no_scikit_learn() -> None:
    script = "import sys, voile; dir(voile); print('sklearn' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"


def test_no_seed_makes_a_release() -> None:
    for kind in (PrivateClassifier, PrivateRegressor):
        assert not {"random_state", "seed", "source"} & set(inspect.signature(kind).parameters)
    one, two = fitted(), fitted()
    assert one.predict_proba(FRESH).tolist() != two.predict_proba(FRESH).tolist()


# --- tables as they are ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        FRESH,
        FRESH[["income", "age", "sex"]],
        pl.from_pandas(FRESH),
        pa.table(dict(FRESH.items())),
        dict(FRESH.items()),
        FRESH.to_numpy(),
        FRESH.astype({"sex": "category", "age": "Float64"}),
        FRESH.to_numpy().tolist(),
    ],
    ids=["pandas", "other order", "polars", "arrow", "dict", "array", "kinds", "lists"],
)
def test_any_table_gives_the_same_predictions(clf: PrivateClassifier, given: Any) -> None:
    assert clf.predict_proba(given).tolist() == clf.predict_proba(FRESH).tolist()
    assert clf.explain(given).values.tolist() == clf.explain(FRESH).values.tolist()


@pytest.mark.parametrize("one", [FRESH.iloc[0], dict(FRESH.iloc[0]), FRESH.to_numpy()[0]])
def test_one_person_by_itself(clf: PrivateClassifier, one: Any) -> None:
    assert clf.predict_proba(one).tolist() == clf.predict_proba(FRESH[:1]).tolist()


@pytest.mark.filterwarnings("ignore::voile.python.training.estimator.FitWarning")
@pytest.mark.parametrize(
    ("table", "labels"),
    [
        (pl.from_pandas(X), pl.Series("ill", Y)),
        (pa.table(dict(X.items())), pa.chunked_array([Y])),
        (dict(X.items()), list(Y)),
        (X.to_numpy(), pd.Series(Y, dtype="category")),
    ],
    ids=["polars", "arrow", "dict", "array"],
)
def test_any_table_can_be_fitted(table: Any, labels: Any) -> None:
    found = PrivateClassifier(**TERMS).fit(table, labels)
    assert found.score(FRESH, TRUE) > 0.75
    assert hasattr(found, "feature_names_in_") == (not isinstance(table, np.ndarray))
    assert found.n_features_in_ == 3


@pytest.mark.filterwarnings("ignore::voile.python.training.estimator.FitWarning")
def test_sparse_tables_are_read() -> None:
    dense = np.random.default_rng(0).integers(0, 2, (500, 3)).astype(float)
    terms: dict[str, Any] = {"bounds": (0, 1), "classes": [0, 1], "epsilon": 2, "delta": 1e-6}
    found = PrivateClassifier(**terms).fit(sparse.csr_array(dense), dense[:, 0])
    assert found.predict(sparse.coo_matrix(dense)).tolist() == dense[:, 0].tolist()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (X.drop(columns="sex"), "lacks the column 'sex'"),
        (X.assign(extra=1), "has the column 'extra' that is not known"),
        (X.rename(columns={"sex": "Sex"}), r"'sex' \(is it 'Sex'\?\)"),
        (X.assign(sex=1.0), "column 'sex' holds numbers, and its categories are texts"),
        (np.zeros((3, 2)), "X has 2 features, but the schema has 3"),
        (X[:0], "at least one row"),
        (np.zeros(3), "Expected 2D array, got 1D array instead. Reshape your data"),
    ],
)
def test_a_wrong_table_says_what_is_wrong(given: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        PrivateClassifier(**TERMS).fit(given, Y[: len(given)])


def test_rows_and_labels_must_be_as_many() -> None:
    with pytest.raises(InvalidInput, match="X has 1200 rows and y has 3"):
        PrivateClassifier(**TERMS).fit(X, Y[:3])
    with pytest.raises(InvalidInput, match="requires y to be passed"):
        PrivateClassifier(**TERMS).fit(X)


# --- what is public -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"schema": None}, "what values the columns may take must be public"),
        ({"classes": None}, "never read off protected labels"),
        ({"classes": ["yes"]}, "at least two classes"),
        ({"epsilon": None}, "state epsilon= before you fit"),
        ({"delta": None}, "state delta= before you fit"),
        ({"bounds": (0, 1)}, "state a schema, or bounds= and categories=, not both"),
        ({"schema": Schema(COLUMNS, label={"ill": ["no", "yes", "maybe"]})}, "leave classes= out"),
        ({"schema": Schema(COLUMNS, label={"ill": (0, 1)})}, "use PrivateRegressor"),
        ({"model": "forest"}, "model must be one of"),
        ({"held_out": FRESH}, r"held_out: expected public rows with their labels, as \(X, y\)"),
        ({"progress": 3}, "progress: expected True, False, None or a function"),
    ],
)
def test_what_must_be_stated_is_never_guessed(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        fitted(**changes)


def test_a_range_of_targets_is_never_guessed() -> None:
    terms: dict[str, Any] = {"schema": SCHEMA, "epsilon": 1, "delta": 1e-6}
    with pytest.raises(InvalidInput, match="never read off protected labels"):
        PrivateRegressor(**terms).fit(X, X["age"])
    with pytest.raises(InvalidInput, match="use PrivateClassifier"):
        PrivateRegressor(**terms | {"schema": Schema(COLUMNS, label={"ill": ["a", "b"]})}).fit(X, Y)
    declared = Schema(COLUMNS, label={"cost": (0, 9)})
    with pytest.raises(InvalidInput, match="leave target_range= out"):
        PrivateRegressor(**terms | {"schema": declared}, target_range=(0, 8)).fit(X, X["age"])


@pytest.mark.filterwarnings("ignore::voile.python.training.estimator.FitWarning")
def test_bounds_and_categories_stand_for_a_schema() -> None:
    terms: dict[str, Any] = {"classes": ["no", "yes"], "epsilon": 2, "delta": 1e-6}
    by_name: dict[str, Any] = {
        "bounds": {"age": (18, 100), "income": (0, 5e5)},
        "categories": {"sex": ["f", "m"]},
    }
    by_place: dict[str, Any] = {
        "bounds": {0: (18, 100), 2: (0, 5e5)},
        "categories": {1: ["f", "m"]},
    }
    per_column: dict[str, Any] = {
        "bounds": ([18, 0, 0], [100, 1, 5e5]),
        "categories": {"sex": ["f", "m"]},
    }
    expected = [each.domain for each in SCHEMA.features]
    for given in (by_name, by_place, per_column):
        found = PrivateClassifier(**terms, **given).fit(X, Y)
        assert [each.domain for each in found.schema_.features] == expected
    one_pair = PrivateClassifier(**terms, bounds=(0, 1)).fit(X[["age"]] / 100, Y)
    assert one_pair.schema_.features[0].domain == Numbers(0.0, 1.0)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"bounds": {"age": (18, 100)}}, "no bounds and no categories for 'sex', 'income'"),
        ({"bounds": {"agee": (1, 2)}}, "there is no column 'agee'"),
        ({"bounds": {7: (1, 2)}}, "there is no column 7 of 3"),
        ({"bounds": ([1, 2], [3, 4])}, "one number or one for each of 3 columns"),
        ({"bounds": 3}, "expected a pair"),
        ({"categories": {"sex": ["f", "m"]}}, "no bounds and no categories for 'age', 'income'"),
    ],
)
def test_what_is_not_declared_is_named(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        fitted(schema=None, **given)


@pytest.mark.filterwarnings("ignore::voile.python.training.estimator.FitWarning")
def test_the_schema_may_hold_the_label() -> None:
    schema = Schema("people", SCHEMA.features, Label("ill", Categories(("yes", "no"))))
    found = PrivateClassifier(schema, epsilon=2, delta=1e-6).fit(X, Y)
    assert found.classes_.tolist() == ["no", "yes"]
    assert found.score(FRESH, TRUE) > 0.75
    assert found.explain(FRESH[:2]).output_names == "log-odds of no", "the last that is declared"


@pytest.mark.filterwarnings("ignore::voile.python.training.estimator.FitWarning")
@pytest.mark.parametrize("kinds", [(0, 1), (False, True), (2.5, 7.5), ("b", "a"), (1, 2, 3)])
def test_classes_of_any_kind(kinds: tuple[Any, ...]) -> None:
    classes = list(kinds)
    labels = np.asarray(classes)[(X["age"] > 60).astype(int)]
    found = fitted_on(labels, classes)
    assert found.classes_.tolist() == sorted(classes)
    said = found.predict_proba(FRESH)
    assert said.sum(axis=1) == pytest.approx(np.ones(300))
    old = FRESH["age"] > 80
    place = found.classes_.tolist().index(classes[1])
    assert (said[old, place] > 0.5).all()
    assert found.predict(FRESH).dtype == found.classes_.dtype


def fitted_on(labels: Any, classes: Any) -> PrivateClassifier:
    return PrivateClassifier(**(TERMS | {"classes": classes})).fit(X, labels)


def test_a_label_means_the_class_of_its_kind() -> None:
    cells = np.array([True, 1, 1.0, np.int64(1), "1", None, np.nan, [1], 10**400], dtype=object)
    assert class_labels(cells, np.array([0, 1])).tolist() == [None, 1, 1, 1, *[None] * 5]
    assert class_labels(cells[:2], np.array([False, True])).tolist() == ["True", None]


# --- protected rows are never told ----------------------------------------------------------------


@pytest.mark.parametrize("column", ["age", "sex", "label"])
def test_nothing_in_a_row_raises_or_is_told(column: str) -> None:
    table, labels = X.astype(object), Y.astype(object)
    for place, odd in enumerate(("SECRET", None, np.nan, np.inf, [1], object(), 10**400, b"x")):
        if column == "label":
            labels[place] = odd
        else:
            table.at[place, column] = odd
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = PrivateClassifier(**TERMS).fit(table, labels)
    assert all("charges no budget" in each for each in told(caught))
    assert found.score(FRESH, TRUE) > 0.75
    assert "SECRET" not in repr((found.quality_, found.schema_, found.curves()))


def test_labels_that_are_no_class_are_null_records_and_an_alarm_says_so() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        PrivateClassifier(**TERMS).fit(X, np.where(Y == "yes", "ja", "nein"))
    assert any("rows have a label and features that can be read" in each for each in told(caught))


# --- what a fit costs -----------------------------------------------------------------------------


def test_without_a_budget_a_warning_says_that_nobody_keeps_count() -> None:
    with pytest.warns(FitWarning, match=r"charges no budget.*Pass budget=voile.Budget"):
        found = PrivateClassifier(**TERMS).fit(X, Y)
    assert 1.98 < found.guarantee_.epsilon <= 2
    assert found.guarantee_.delta == 1e-6
    assert not found.replayed_


def test_a_budget_pays_once_and_gives_again(budget: Budget) -> None:
    asked = PrivateClassifier(**TERMS | {"delta": None}, budget=budget)
    with warnings.catch_warnings(action="error"):
        first = asked.fit(X, Y).predict_proba(FRESH)
    spent = budget.spent
    assert asked.charges_ == ("people 1#1", "people 1#2", "people 1#3")
    assert asked.guarantee_.protected.dataset == "people 1"
    assert budget.epsilon_spent == pytest.approx(2, rel=1e-3)
    other = PrivateClassifier(**TERMS, budget=budget)
    with pytest.warns(FitWarning, match="nothing was charged, and these rows were not looked at"):
        other.fit(X[::-1], Y)
    assert other.replayed_
    assert other.predict_proba(FRESH).tolist() == first.tolist()
    with pytest.warns(FitWarning, match="pass redraw=True"):
        asked.fit(X, Y)
    assert budget.spent == spent


def test_a_new_model_is_paid_for(budget: Budget) -> None:
    asked = PrivateClassifier(**TERMS, budget=budget).fit(X, Y)
    spent, before = budget.spent, asked.predict_proba(FRESH)
    asked.set_params(redraw=True).fit(X, Y)
    assert budget.spent == pytest.approx(2 * spent)
    assert asked.predict_proba(FRESH).tolist() != before.tolist()
    PrivateClassifier(**TERMS, budget=budget).fit(X[:1000], Y[:1000])  # another question
    assert budget.spent == pytest.approx(3 * spent)


def test_folds_pay_and_a_warning_says_so_once(budget: Budget) -> None:
    asked = PrivateClassifier(**TERMS, budget=budget)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        scores = cross_val_score(asked, X, Y, cv=3, scoring="roc_auc")
    (said,) = told(caught)
    assert "each fold of a cross-validation is a release of its own" in said
    assert "Scores on protected rows are not private" in said
    assert (scores > 0.8).all()
    assert budget.spent == pytest.approx(3 * one_fit(), rel=1e-6)


def one_fit() -> float:
    """Of a budget like that of the tests."""
    with Budget.in_memory("people 1", epsilon=9, delta=1e-6) as other:
        PrivateClassifier(**TERMS, budget=other).fit(X, Y)
        return other.spent


@pytest.mark.filterwarnings("ignore::voile.python.training.estimator.FitWarning")
def test_a_search_pays_for_every_candidate(budget: Budget) -> None:
    asked = PrivateClassifier(**TERMS | {"epsilon": 0.5}, budget=budget)
    grid = {"label": ["ill", "sick"]}
    with pytest.warns(FitWarning, match="each fold"):
        found = GridSearchCV(asked, grid, cv=2).fit(X, Y)
    assert found.best_estimator_.charges_[0] == "people 1#13"


def test_what_does_not_fit_is_refused_and_costs_nothing(budget: Budget) -> None:
    with pytest.raises(BudgetExceeded):
        PrivateClassifier(**TERMS | {"epsilon": 9.5}, budget=budget).fit(X, Y)
    assert budget.spent == 0


@pytest.mark.filterwarnings("ignore::voile.python.training.estimator.FitWarning")
def test_a_budget_is_not_wasted_on_noise(budget: Budget) -> None:
    asked = PrivateClassifier(**TERMS | {"epsilon": 0.01}, budget=budget)
    with pytest.raises(Refused, match=r"Too little signal.*pass sure=True; nothing was charged"):
        asked.fit(X, Y)
    assert budget.spent == 0
    with pytest.warns(FitWarning, match="cannot be told from always stating the label rate"):
        asked.set_params(sure=True).fit(X, Y)
    assert budget.spent > 0
    with pytest.warns(FitWarning, match="Too little signal"):
        PrivateClassifier(**TERMS | {"epsilon": 0.01}).fit(X, Y)


def test_a_preview_charges_nothing_and_needs_no_labels(budget: Budget) -> None:
    found = PrivateClassifier(**TERMS, budget=budget).preview(X)
    assert "guarantee: (ε = 2, δ = 1e-6) for each row of 'people 1'" in str(found)
    assert "fits: uses" in str(found)
    assert budget.spent == 0


# --- explanations, pages, files -------------------------------------------------------------------


def test_explanations_are_exact_free_and_carry_the_guarantee(clf: PrivateClassifier) -> None:
    why = clf.explain(FRESH)
    assert isinstance(why, Explanation)
    assert why.explanation.guarantees == (clf.guarantee_,)
    said = clf.predict_proba(FRESH)[:, 1]
    total = why.base_values + why.values.sum(axis=1)
    assert total == pytest.approx(np.log(said / (1 - said)), abs=1e-6)
    assert why.display_data[0].tolist() == FRESH.iloc[0].tolist()
    assert why.method == "closed form"
    assert why[0].feature_names == ["age", "sex", "income"]


def test_with_a_budget_explanations_are_free_and_on_record(budget: Budget) -> None:
    asked = PrivateClassifier(**TERMS, budget=budget).fit(X, Y)
    spent = budget.spent
    why = asked.explain(FRESH[:5])
    assert budget.spent == spent
    assert why.released is not None
    assert why.released.charges == ()
    assert why.receipt is not None


def test_curves_are_drawn(clf: PrivateClassifier) -> None:
    assert {each["name"] for each in clf.curves()["features"]} >= {"age", "sex"}
    assert len(clf.plot().axes) >= 2


def test_a_report_is_confirmed_by_the_budget(budget: Budget, tmp_path: Path) -> None:
    asked = PrivateClassifier(**TERMS, budget=budget).fit(X, Y)
    page = asked.report(tmp_path / "page.html")
    assert "the ledger that paid confirms charges" in page.read_text().lower()
    with pytest.raises(InvalidInput, match="exists already"):
        asked.report(page)
    asked.report(page, overwrite=True)
    alone = fitted().report(tmp_path / "alone.html")
    assert "nothing here was compared with one" in alone.read_text()


def test_what_was_saved_is_opened_everywhere(tmp_path: Path) -> None:
    with Budget("people 1", epsilon=3, delta=1e-6, database=tmp_path / "voile.db") as budget:
        asked = PrivateClassifier(**TERMS, budget=budget).fit(X, Y)
        folder = asked.save(tmp_path / "model")
    loaded = PrivateClassifier.load(folder)
    assert loaded.predict_proba(FRESH).tolist() == asked.predict_proba(FRESH).tolist()
    assert loaded.guarantee_ == asked.guarantee_
    assert loaded.classes_.tolist() == ["no", "yes"]
    assert loaded.explain(FRESH[:2]).values.tolist() == loaded.explain(FRESH[:2]).values.tolist()
    asks = {"model": str(folder), "data": FRESH[:2], "database": str(tmp_path / "voile.db")}
    found = handle(Explain.read(asks)).explained
    assert found.explanation.guarantees == (asked.guarantee_,)
    assert handle(WriteReport(artefact=folder)).path.exists()
    other = fitted()
    with pytest.raises(InvalidInput, match="Existing models are kept unless"):
        other.save(folder)
    other.save(folder, overwrite=True)
    assert not (folder / "report.html").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").touch()
    with pytest.raises(InvalidInput, match="holds other files"):
        other.save(tmp_path / "mine")


def test_a_number_is_not_loaded_as_a_classifier(tmp_path: Path) -> None:
    with warnings.catch_warnings(action="ignore"):
        reg = PrivateRegressor(SCHEMA, target_range=(0, 100), epsilon=2, delta=1e-6)
        reg.fit(X, X["age"]).save(tmp_path / "model")
    with pytest.raises(InvalidInput, match="use PrivateRegressor"):
        PrivateClassifier.load(tmp_path / "model")
    assert PrivateRegressor.load(tmp_path / "model").predict(FRESH).shape == (300,)


@pytest.mark.parametrize("way", [lambda e: pickle.loads(pickle.dumps(e)), copy.deepcopy])
def test_copies_predict_and_explain(clf: PrivateClassifier, way: Any) -> None:
    clf.explain(FRESH[:1])
    other = way(clf)
    assert other.predict_proba(FRESH).tolist() == clf.predict_proba(FRESH).tolist()
    assert other.explain(FRESH[:2]).values.tolist() == clf.explain(FRESH[:2]).values.tolist()


def test_before_a_fit_there_is_nothing_to_ask() -> None:
    for asking in ("predict", "predict_proba", "explain"):
        with pytest.raises(NotFitted) as raised:
            getattr(PrivateClassifier(**TERMS), asking)(X)
        assert isinstance(raised.value, NotFittedError)
        assert isinstance(raised.value, VoileError)


# --- as a part of something larger ----------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::voile.python.training.estimator.FitWarning")
def test_it_works_in_a_pipeline_and_with_parameters() -> None:
    rounded = FunctionTransformer(lambda table: table.assign(age=table["age"].round(-1)))
    whole: Pipeline = make_pipeline(rounded, PrivateClassifier(**TERMS))
    assert whole.fit(X, Y).score(FRESH, TRUE) > 0.7
    whole.set_params(privateclassifier__epsilon=0.5)
    assert whole.get_params()["privateclassifier__epsilon"] == 0.5
    assert 0.495 < whole.fit(X, Y)[-1].guarantee_.epsilon <= 0.5
    fresh = clone(whole)
    assert not hasattr(fresh[-1], "guarantee_")
    assert fresh[-1].schema == SCHEMA


def test_a_budget_is_shared_by_clones(budget: Budget) -> None:
    assert clone(PrivateClassifier(**TERMS, budget=budget)).budget is budget


# --- numbers, networks, open rows -----------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::voile.python.training.estimator.FitWarning")
def test_open_rows_say_how_good_it_is() -> None:
    found = fitted(held_out=(FRESH, TRUE))
    assert found.quality_["held_out"]["figures"]["AUC"]["figure"] > 0.8
    assert fitted().quality_["held_out"] is None


def test_a_network_is_another_model(budget: Budget) -> None:
    asked = PrivateClassifier(**TERMS, budget=budget, model="network", held_out=(FRESH, TRUE))
    asked.fit(X, Y)
    assert len(asked.charges_) == 2
    assert asked.score(FRESH, TRUE) > 0.75
    why = asked.explain(FRESH[:5])
    assert why.base_values + why.values.sum(axis=1) == pytest.approx(
        asked.predict_proba(FRESH[:5])[:, 1], abs=1e-6
    )
    with pytest.raises(Refused, match="a network has no curves"):
        asked.plot()


def test_progress_is_told(budget: Budget) -> None:
    seen: list[tuple[int, int]] = []
    terms = TERMS | {"model": "network", "progress": lambda done, of: seen.append((done, of))}
    with warnings.catch_warnings(action="ignore"):
        PrivateClassifier(**terms, budget=budget).fit(X, Y)
    assert seen == [(done, 10) for done in range(1, 11)]


def test_other_features_make_no_schema_error_of_pydantic() -> None:
    schema = Schema("one", (Feature("age", Numbers(18.0, 100.0)),))
    with warnings.catch_warnings(action="ignore"):
        found = PrivateClassifier(**TERMS | {"schema": schema, "epsilon": 1.0}).fit(X[["age"]], Y)
    assert found.n_features_in_ == 1
    with pytest.raises(InvalidInput, match="epsilon"):
        fitted(epsilon="a lot")


# --- rows to measure on ---------------------------------------------------------------------------


@pytest.mark.parametrize("table", [X, X.to_dict("list"), pl.from_pandas(X)], ids=type)
def test_protected_rows_are_not_measured_on(table: Any, budget: Budget) -> None:
    found = PrivateClassifier(**(TERMS | {"held_out": (table, Y)}), budget=budget)
    with pytest.raises(Refused, match="released without a charge"):
        found.fit(table, Y)
    assert budget.spent == 0


@pytest.mark.parametrize("table", [X, pl.from_pandas(X), pa.table(X)], ids=type)
def test_a_slice_of_protected_rows_is_not_measured_on(table: Any, budget: Budget) -> None:
    part = table.slice(3, 50) if hasattr(table, "slice") else table[3:53]
    found = PrivateClassifier(**(TERMS | {"held_out": (part, Y[3:53])}), budget=budget)
    with pytest.raises(Refused, match="released without a charge"):
        found.fit(table, Y)
    assert budget.spent == 0


def test_other_rows_of_one_table_are_measured_on(budget: Budget) -> None:
    found = PrivateClassifier(**(TERMS | {"held_out": (X[:200], Y[:200])}), budget=budget)
    assert found.fit(X[200:], Y[200:]).quality_["held_out"] is not None


# --- wrong arguments, and where warnings point ----------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"budget": 3}, "budget: expected a voile.Budget, found a int"),
        ({"epsilon": True}, "epsilon: expected a number above 0, found True"),
        ({"epsilon": "1"}, "epsilon: expected a number above 0, found '1'"),
        ({"delta": -1}, "delta: expected a number above 0, found -1"),
    ],
)
def test_wrong_terms_are_told_by_name(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        PrivateClassifier(**(TERMS | wrong)).fit(X, Y)


def test_warnings_point_at_the_line_of_the_caller() -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        PrivateClassifier(**(TERMS | {"epsilon": 0.05})).fit(X[:60], Y[:60])
    found = [each for each in told if issubclass(each.category, FitWarning)]
    assert len(found) > 1
    assert {each.filename for each in found} == {__file__}
