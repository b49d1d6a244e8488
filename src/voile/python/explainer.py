"""`Explainer`: why a model says what it says, for the model and the table as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from voile.core.errors import InvalidInput
from voile.python.plain.models import Chosen
from voile.python.plain.setting import OTHER_OPTIONS, Options, setting_for

if TYPE_CHECKING:
    from voile.python.view import ExplanationView


class Explainer:
    """Explain a model: how much each column contributed to what it says about each row.

    Values are Shapley values over the background: they add up to the prediction minus the mean
    prediction over the background. Assumes that all rows are yours to look at; to protect people in
    them, pass `protect=`. Promises the same values for the same rows, model and seed.

    Args:
        model: a fitted estimator or pipeline of scikit-learn, LightGBM, XGBoost or CatBoost; a
            torch module; an ONNX file or session; a function; or anything with `predict_proba` or
            `predict`.
        background: typical rows, as the model takes them: `X_train`. A table of pandas, polars or
            pyarrow, an array, or a dict of columns. Trees do without.
        method: "linear", "tree", "exact", "kernel", "permutation" or "learned"; chosen for you if
            not given. `why_method` says why.
        output: what to explain: a class label, a list of them, or "all". If not given, the positive
            class of two, else all classes.
        output_names: names of the outputs, where the model has none.
        scale: "probability" or "log-odds", where a model has both; if not given, what the fastest
            method gives: log-odds of linear models and boosted trees, as in shap, else probability.
        background_rows: of a larger background, so many rows are drawn; None for all of them.
        evaluations: of the model for each row, where values are sampled.
        seed: of everything that is drawn.
        progress: None shows a bar if a call takes longer than two seconds; True, False, or a
            function (done, total).
        protect: "background", "population", "explained" or "training": whose rows are protected, by
            an explanation that is charged to a budget. `schema`, `budget`, `model_origin`,
            `epsilon`, `noise` and others go with it: see
            `voile.python.protected.ProtectedExplainer`.

    >>> import pandas as pd
    >>> from sklearn.linear_model import LinearRegression
    >>> rows = pd.DataFrame({"age": [40.0, 60.0], "bmi": [20.0, 24.0]})
    >>> explainer = Explainer(LinearRegression().fit(rows, [1.0, 2.0]), rows)
    >>> explainer.method, explainer(rows).shape
    ('linear', (2, 2))
    """

    def __new__(cls, model: Any, background: Any = None, **options: Any) -> Any:
        """With `protect=`, an explainer that charges a budget."""
        if options.get("protect") is None:
            return super().__new__(cls)
        from voile.python.protected import ProtectedExplainer

        return ProtectedExplainer(model, background, **options)

    def __init__(
        self,
        model: Any,
        background: Any = None,
        *,
        method: str | None = None,
        output: Chosen = None,
        protect: str | None = None,
        **more: Any,
    ) -> None:
        del protect
        known = {name: more.pop(name) for name in OTHER_OPTIONS if name in more}
        _refuse_unprotected(more)
        options = Options(method=method, output=output, **known)
        self._setting = setting_for(model, background, options)

    @property
    def method(self) -> str:
        """How values are computed: "linear", "tree", "exact", "kernel", ..."""
        return self._setting.choice.method.value

    @property
    def why_method(self) -> str:
        """Why by this method, in words."""
        return self._setting.choice.why

    @property
    def scale(self) -> str:
        """What the explained numbers are: "probability", "log-odds", "score", "prediction"."""
        return self._setting.choice.scale.value

    @property
    def output_names(self) -> list[str]:
        """Of the outputs that are explained."""
        return list(self._setting.model.output_names)

    @property
    def feature_names(self) -> list[str]:
        """Of the columns, in the order of the model."""
        return list(self._setting.model.codec.names)

    def __call__(self, rows: Any, **protected: Any) -> ExplanationView:
        """Explain rows: a table, an array, or one person as a Series, a dict or an array.

        Raises:
            InvalidInput: columns are missing, unknown or of another kind, or the model fails.
        """
        _refuse_unprotected(protected)
        return self._setting.explain(rows)

    def __repr__(self) -> str:
        return repr(self._setting)


_WITH_PROTECT = ("schema", "budget", "model_origin", "epsilon", "noise")


def _refuse_unprotected(given: dict[str, Any]) -> None:
    """Nobody who thinks of a budget gets values without one."""
    asked = [name for name, value in given.items() if value is not None]
    if any(name in _WITH_PROTECT for name in asked):
        raise InvalidInput(
            f"{asked[0]}: this explainer protects nobody, so nothing is charged; say who is "
            'protected: Explainer(model, background, protect="background", ...)'
        )
    if given:
        raise InvalidInput(
            f"{next(iter(given))}: Explainer has no such option; see help(Explainer)"
        )
