"""Which estimators are known to treat the rows of a batch one by one, and which are not."""

from __future__ import annotations

import sys
import types
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.decomposition import NMF, PCA
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.feature_selection import SelectKBest
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import (
    LinearRegression,
    LogisticRegression,
    Perceptron,
    Ridge,
    RidgeClassifier,
    SGDClassifier,
)
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    Normalizer,
    OneHotEncoder,
    QuantileTransformer,
    StandardScaler,
)
from sklearn.svm import SVC, SVR, LinearSVC
from sklearn.tree import DecisionTreeClassifier

from voile.models import RowWise, row_wise, wrap
from voile.models.inspection import is_of

DRAW = np.random.default_rng(3)
ROWS = np.abs(DRAW.normal(size=(60, 4)))
LABELS = (ROWS[:, 0] > ROWS[:, 1]).astype(int)


class Own(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Somebody's estimator."""

    def fit(self, X: Any, y: Any) -> Own:  # noqa: ARG002, N803
        self.classes_ = np.unique(y)
        return self

    def predict(self, X: Any) -> Any:  # noqa: N803
        return np.full(len(X), int(X.max() > 2))

    def predict_proba(self, X: Any) -> Any:  # noqa: N803
        return np.repeat([[X.min(), 1 - X.min()]], len(X), axis=0)


class Centred(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    def fit(self, X: Any, y: Any = None) -> Centred:  # noqa: ARG002, N803
        return self

    def transform(self, X: Any) -> Any:  # noqa: N803
        return X - X.mean(axis=0)


class Derived(LogisticRegression):  # type: ignore[misc]
    pass


logistic = LogisticRegression()
KNOWN = [
    logistic,
    GaussianNB(),
    MLPClassifier((4,), max_iter=3),
    DummyClassifier(strategy="prior"),
    RandomForestClassifier(3, n_jobs=2),
    GradientBoostingClassifier(n_estimators=2),
    AdaBoostClassifier(n_estimators=2),
    HistGradientBoostingClassifier(max_iter=2),
    GaussianProcessClassifier(),
    make_pipeline(StandardScaler(), Normalizer(), PCA(2), logistic),
    make_pipeline(QuantileTransformer(n_quantiles=9), SelectKBest(k=2), logistic),
    make_pipeline(SimpleImputer(), StandardScaler(), RandomForestClassifier(3)),
    make_pipeline(KBinsDiscretizer(3), DecisionTreeClassifier()),
    make_pipeline(PCA(2), SGDClassifier(loss="log_loss")),
    make_pipeline(FunctionTransformer(np.sqrt), FunctionTransformer(), logistic),
    make_pipeline(FeatureUnion([("a", PCA(1)), ("b", StandardScaler())]), logistic),
    make_pipeline(ColumnTransformer([("a", StandardScaler(), [0, 1])]), logistic),
    CalibratedClassifierCV(GaussianNB(), cv=2),
    CalibratedClassifierCV(LinearSVC(), cv=2),
    CalibratedClassifierCV(SVC(), cv=2),
    VotingClassifier([("a", logistic), ("b", GaussianNB())], voting="soft"),
    OneVsRestClassifier(logistic),
    StackingClassifier([("a", GaussianNB()), ("b", DecisionTreeClassifier())], cv=2),
    BaggingClassifier(DecisionTreeClassifier(), n_estimators=2),
    GridSearchCV(logistic, {"C": [0.1, 1.0]}, cv=2, scoring="roc_auc"),
    TransformedTargetRegressor(Ridge(), func=np.log1p, inverse_func=np.expm1),
]
UNKNOWN = [
    Own(),
    Derived(),
    DummyClassifier(strategy="stratified"),
    KNeighborsClassifier(3, weights=lambda distances: distances / distances.max()),
    KNeighborsClassifier(3, metric=lambda a, b: abs(a - b).sum()),
    SVC(kernel=lambda a, b: a @ b.T),
    make_pipeline(NMF(2), logistic),
    make_pipeline(Centred(), logistic),
    make_pipeline(FunctionTransformer(lambda rows: rows - rows.mean(axis=0)), logistic),
    make_pipeline(FeatureUnion([("a", PCA(1)), ("b", Centred())]), logistic),
    make_pipeline(ColumnTransformer([("a", Centred(), [0, 1])]), logistic),
    CalibratedClassifierCV(Own(), cv=2),
    VotingClassifier([("a", logistic), ("b", Own())], voting="soft"),
    StackingClassifier([("a", GaussianNB())], final_estimator=Own(), cv=2),
    BaggingClassifier(Own(), n_estimators=2),
    GridSearchCV(Pipeline([("a", Own())]), {"a": [Own()]}, cv=2),
    GradientBoostingClassifier(n_estimators=2, init=Own()),
    TransformedTargetRegressor(
        Ridge(), func=np.sort, inverse_func=lambda y: y - y.mean(), check_inverse=False
    ),
]


# Rounding decides which side of a step such a row falls on, or has seven digits only.
UNSTEADY = [
    RidgeClassifier(),
    LinearSVC(),
    Perceptron(),
    SVC(),
    SGDClassifier(loss="modified_huber"),
    KNeighborsClassifier(3),
    NearestCentroid(),
    make_pipeline(StandardScaler(), RidgeClassifier()),
    make_pipeline(PCA(2), RandomForestClassifier(3)),
    make_pipeline(PCA(2), KBinsDiscretizer(3), logistic),
    make_pipeline(PCA(2), FunctionTransformer(np.sign), logistic),
    make_pipeline(PCA(2), Normalizer(), logistic),
    make_pipeline(FeatureUnion([("a", StandardScaler()), ("b", PCA(1))]), DecisionTreeClassifier()),
    make_pipeline(OneHotEncoder(handle_unknown="ignore", dtype=np.float32), logistic),
    CalibratedClassifierCV(GaussianNB(), method="isotonic", cv=2),
    CalibratedClassifierCV(GaussianNB(), method="temperature", cv=2),
    VotingClassifier([("a", logistic), ("b", GaussianNB())]),
    StackingClassifier([("a", GaussianNB())], final_estimator=DecisionTreeClassifier(), cv=2),
    BaggingClassifier(Perceptron(), n_estimators=2),
    AdaBoostClassifier(logistic, n_estimators=2),
    GradientBoostingClassifier(n_estimators=2, init=GaussianNB()),
    GridSearchCV(RidgeClassifier(), {"alpha": [1.0]}, cv=2),
    TransformedTargetRegressor(Ridge(), func=np.exp, inverse_func=np.rint, check_inverse=False),
]


class Kernel:
    """A class that computes when it is called."""

    def __new__(cls, a: Any, b: Any) -> Any:
        return a @ b.T + 5 * a.max()


class Number(np.float64):
    """A number that computes when it is called."""

    def __call__(self, a: Any, b: Any) -> Any:
        return a @ b.T + 5 * a.max()


BATCH_SEEN = np.frompyfunc(lambda number: float(number), 1, 1)
SOMEBODYS = [
    SVR(kernel=Kernel),
    make_pipeline(FunctionTransformer(BATCH_SEEN), LinearRegression()),
    TransformedTargetRegressor(Ridge(), func=np.exp, inverse_func=BATCH_SEEN, check_inverse=False),
]


def fitted(estimator: Any) -> Any:
    return estimator.fit(ROWS, LABELS)


@pytest.mark.parametrize("estimator", KNOWN, ids=lambda one: type(one).__name__)
@pytest.mark.filterwarnings("ignore")
def test_estimators_of_scikit_learn_are_known_and_treat_rows_one_by_one(estimator: Any) -> None:
    model = wrap(fitted(estimator), digest="known")
    assert row_wise(model) is RowWise.KNOWN
    together, alone = model.predict(ROWS), [model.predict(row[np.newaxis])[0] for row in ROWS]
    assert np.allclose(together, alone, atol=1e-9)
    if model.output_names:
        assert row_wise(model.only(model.output_names[0]).made_total()) is RowWise.KNOWN


@pytest.mark.parametrize("estimator", UNKNOWN, ids=lambda one: type(one).__name__)
@pytest.mark.filterwarnings("ignore")
def test_what_anybody_else_wrote_is_not_known(estimator: Any) -> None:
    assert row_wise(wrap(fitted(estimator))) is None


@pytest.mark.parametrize("estimator", UNSTEADY, ids=lambda one: type(one).__name__)
@pytest.mark.filterwarnings("ignore")
def test_a_step_behind_a_sum_is_not_known(estimator: Any) -> None:
    assert row_wise(wrap(fitted(estimator))) is None


@pytest.mark.parametrize("estimator", SOMEBODYS, ids=lambda one: type(one).__name__)
def test_classes_and_functions_of_somebodys_own_are_not_known(estimator: Any) -> None:
    model = wrap(estimator.fit(ROWS, LABELS.astype(float)), digest="somebody's")
    assert row_wise(model) is None


def test_a_number_of_somebodys_own_is_not_known() -> None:
    regressor = SVR().fit(ROWS, LABELS)
    assert row_wise(wrap(regressor)) is RowWise.KNOWN
    regressor.kernel = Number(1.0)
    assert row_wise(wrap(regressor, digest="number")) is None


def test_frozen_estimators_are_what_they_hold() -> None:
    assert row_wise(wrap(FrozenEstimator(fitted(LogisticRegression())))) is RowWise.KNOWN
    assert row_wise(wrap(FrozenEstimator(fitted(Own())))) is None


def test_a_method_that_was_replaced_on_the_object_is_seen() -> None:
    estimator = fitted(LogisticRegression())
    estimator.decision_function = lambda rows: rows - rows.mean()
    assert row_wise(wrap(estimator)) is None


def test_a_class_that_only_says_where_it_comes_from_is_not_believed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kind = type("LogisticRegression", (Own,), {"__module__": "sklearn.linear_model._logistic"})
    assert row_wise(wrap(fitted(kind()))) is None
    assert not is_of("sklearn", kind)
    elsewhere = types.ModuleType("sklearnlike")
    monkeypatch.setitem(sys.modules, "sklearnlike", elsewhere)
    own = type("Own", (), {"__module__": "sklearnlike"})
    elsewhere.Own = own  # type: ignore[attr-defined]
    assert not is_of("sklearn", own)
