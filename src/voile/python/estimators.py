"""`PrivateClassifier`, `PrivateRegressor`: train privately once, then predict and explain for ever.

Thin faces, with the manners of scikit-learn, on the handlers of `voile train`, `voile explain` and
`voile report`. What both share stands in `voile.python.training.estimator`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voile.core.optional import optional
from voile.core.schema import Schema
from voile.python.training.declaring import with_classes, with_number
from voile.python.training.estimator import PrivateEstimator

optional("sklearn.base", extra="explain")
from sklearn.base import ClassifierMixin, RegressorMixin  # noqa: E402


@dataclass(eq=False, repr=False)
class PrivateClassifier(ClassifierMixin, PrivateEstimator):  # type: ignore[misc]
    """A classifier that is trained with differential privacy, and explained at no cost.

    Assumes that schema, classes and the number of rows are public, and that steps before it in a
    pipeline learn nothing from protected rows. Promises each row (epsilon, delta), as `guarantee_`
    says in full; predictions and explanations take nothing more.

    Args:
        schema: what values the columns may take: a `Schema`, its declaration, or a file.
        classes: all classes, public; not needed if the schema has a label. The last of two is the
            one that is explained.
        epsilon, delta: of one fit; it cannot spend without. The default delta is the budget's.
        budget: what pays. Without one nobody keeps count, and a warning says so.
        model: `statistics`, an additive model with curves; or `network`, a perceptron by DP-SGD.
        bounds: instead of a schema: by column (lower, upper), or one pair for all columns.
        categories: instead of a schema: by column the values that it may take.
        label: what is predicted is called so. Default: the schema's word, or that of a Series.
        held_out: public rows with labels, as (X, y), to measure the model on (`quality_`).
        sure: train even if the rows are too few for a useful model.
        redraw: pay for a new model, even if this question was answered before.
        progress: None shows a bar if a fit takes longer than two seconds; True, False, or a
            function (done, total).

    >>> import numpy as np, warnings
    >>> draw = np.random.default_rng(0)
    >>> X = draw.uniform(size=(2000, 2))
    >>> y = np.where(X[:, 0] + 0.2 * draw.normal(size=2000) > 0.5, "yes", "no")
    >>> clf = PrivateClassifier(bounds=(0, 1), classes=["no", "yes"], epsilon=2, delta=1e-6)
    >>> with warnings.catch_warnings(action="ignore"):
    ...     clf = clf.fit(X, y)
    >>> clf.predict([[0.1, 0.5], [0.9, 0.5]]).tolist(), clf.explain(X[:3]).shape
    (['no', 'yes'], (3, 2))
    >>> round(clf.guarantee_.epsilon, 6)
    2.0
    """

    classes: Any = field(default=None, kw_only=True)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Probabilities, (n, classes), in the order of `classes_`."""
        said = self._said(X)
        return said[:, self._order]

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """The likeliest class of each row."""
        said = self.predict_proba(X)
        found: NDArray[Any] = self.classes_[said.argmax(axis=1)]
        return found

    def _declared(self, schema: Schema, name: str) -> tuple[Schema, NDArray[Any] | None]:
        return with_classes(schema, self.classes, name)


@dataclass(eq=False, repr=False)
class PrivateRegressor(RegressorMixin, PrivateEstimator):  # type: ignore[misc]
    """A regressor that is trained with differential privacy, and explained at no cost.

    Assumes and promises what `PrivateClassifier` does.

    Args:
        schema, epsilon, delta, budget, model, bounds, categories, label, held_out, sure, redraw,
            progress: see `PrivateClassifier`.
        target_range: (lower, upper) of the target, public; not needed if the schema has a label.
            Targets outside count as the nearest bound.

    >>> import numpy as np, warnings
    >>> draw = np.random.default_rng(0)
    >>> X = draw.uniform(size=(2000, 2))
    >>> y = 3 * X[:, 0] + 0.1 * draw.normal(size=2000)
    >>> reg = PrivateRegressor(bounds=(0, 1), target_range=(-1, 4), epsilon=2, delta=1e-6)
    >>> with warnings.catch_warnings(action="ignore"):
    ...     reg = reg.fit(X, y)
    >>> low, high = reg.predict([[0.1, 0.5], [0.9, 0.5]])
    >>> bool(low < 1 < 2 < high)
    True
    """

    target_range: Any = field(default=None, kw_only=True)

    def predict(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """The number that is expected for each row, within the range of the target."""
        return self._said(X)[:, 0]

    def _declared(self, schema: Schema, name: str) -> tuple[Schema, NDArray[Any] | None]:
        return with_number(schema, self.target_range, name), None
