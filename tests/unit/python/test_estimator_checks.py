"""scikit-learn's own checks of an estimator; those that cannot apply are listed with the reason.

Checks make their own data and know nothing of bounds and classes, so a subclass states them: here
the data are anybody's. Noise is left out: what two fits have in common can be seen then.
"""

from __future__ import annotations

import os
from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from voile import PrivateClassifier, PrivateRegressor
from voile.core.schema import Schema
from voile.privacy.mechanisms import DiscreteGaussian
from voile.privacy.mechanisms.discrete import GaussianBlocks
from voile.python.training.declaring import with_classes, with_number

pytest.importorskip("sklearn")
from sklearn.utils.estimator_checks import estimator_checks_generator

pytestmark = pytest.mark.filterwarnings("ignore")
NOT_APPLICABLE: Final = {
    "check_classifiers_regression_target": "labels that are no class make null records: whether "
    "a protected label is continuous is never told",
    "check_fit2d_predict1d": "an array of one axis is one person, as in voile.Explainer",
    "check_pipeline_consistency": "each fit has noise of its own (the tag non_deterministic)",
    "check_array_api_input": "skipped by scikit-learn unless SCIPY_ARRAY_API is set",
    "check_estimator_sparse_array": "slow: sparse tables have a test in test_estimators",
    "check_estimator_sparse_matrix": "the same",
}
TERMS: Final[dict[str, Any]] = {"bounds": (-10, 10), "epsilon": 200.0, "delta": 1e-6, "sure": True}


def values(y: Any) -> NDArray[Any]:
    """Labels that can be read."""
    found = np.asarray(y).ravel()
    kept = [each for each in found.tolist() if each is not None and each == each]
    return np.unique(np.asarray(kept))


class DeclaredClassifier(PrivateClassifier):
    """States the classes of a check's data."""

    def fit(self, X: Any, y: Any = None) -> Any:  # noqa: N803
        if y is not None:
            found = values(y)
            self._known = found if len(found) > 1 else np.append(found, found + 1)
        return super().fit(X, y)

    def _declared(self, schema: Schema, name: str) -> Any:
        return with_classes(schema, self._known, name)


class DeclaredRegressor(PrivateRegressor):
    """States the range of a check's targets."""

    def fit(self, X: Any, y: Any = None) -> Any:  # noqa: N803
        if y is not None:
            found = values(y).astype(float)
            found = found[np.isfinite(found)]
            self._known = (float(found.min()) - 1, float(found.max()) + 1)
        return super().fit(X, y)

    def _declared(self, schema: Schema, name: str) -> Any:
        return with_number(schema, self._known, name), None


def checks() -> list[Any]:
    """All for the classifier; for the regressor those that are about regressors."""
    found = []
    for made, words in (
        (DeclaredClassifier(**TERMS), "check"),
        (DeclaredRegressor(**TERMS), "regr"),
    ):
        for number, (estimator, check) in enumerate(estimator_checks_generator(made)):
            name = getattr(check, "func", check).__name__
            shown = f"{type(made).__name__}-{name}-{number}"
            if words in name and name not in NOT_APPLICABLE:
                found.append(pytest.param(estimator, check, id=shown))
    return found


@pytest.fixture(autouse=True)
def without_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    def exact(self: Any, values: ArrayLike) -> NDArray[np.int64]:  # noqa: ARG001
        return np.asarray(values, dtype=np.int64)

    def blocks(self: Any, exact: Any) -> list[NDArray[np.int64]]:  # noqa: ARG001
        return [np.asarray(each, dtype=np.int64) for each in exact]

    monkeypatch.setattr(DiscreteGaussian, "randomise", exact)
    monkeypatch.setattr(GaussianBlocks, "randomise", blocks)
    monkeypatch.setattr(os, "fsync", lambda _file: None)


@pytest.mark.parametrize(("estimator", "check"), checks())
def test_check(estimator: Any, check: Any) -> None:
    check(estimator)


def test_every_check_that_is_left_out_exists() -> None:
    made = (DeclaredClassifier(**TERMS), DeclaredRegressor(**TERMS))
    pairs = (pair for each in made for pair in estimator_checks_generator(each))
    names = {getattr(check, "func", check).__name__ for _, check in pairs}
    assert names >= NOT_APPLICABLE.keys()
    assert len(names) > 50
