"""`importance`: which features matter in a protected population."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from voile.python.protected import ProtectedExplainer
from voile.python.view import ExplanationView

if TYPE_CHECKING:
    from voile.core.schema import Schema
    from voile.python.budget import Budget


def importance(
    model: Any,
    rows: Any,
    *,
    background: Any = None,
    schema: Schema | None = None,
    budget: Budget | None = None,
    epsilon: float | None = None,
    model_origin: str | None = None,
    **terms: Any,
) -> ExplanationView:
    """The mean size of each feature's contributions over a protected population, with noise.

    Assumes that `background` may be seen by anybody, and that what is said about the model's origin
    is true. Promises one charge of `epsilon` for the whole population, on record.

    Args:
        model: an estimator, pipeline, booster, network or function.
        rows: the protected population.
        background: public rows that absent features take their values from; without them, the
            population itself, which is protected with the rest.
        schema: bounds and categories, declared without looking at protected rows.
        budget: what pays.
        epsilon: what it may cost; without it nothing is charged, and the error is a price list.
        model_origin: what the model was trained on: `public`, `trained-on:LABEL`, or a JSON file
            with the guarantees of its training.
        terms: `noise` instead of `epsilon`, `top` for the names of the strongest features only,
            `redraw`, `purpose`, and those of `voile.Explainer`.

    >>> from voile import Budget, Schema
    >>> budget = Budget.in_memory("clinic 2026", epsilon=3, delta=1e-6)
    >>> rows = {"age": [20.0, 50.0] * 500, "bmi": [20.0, 30.0] * 500}
    >>> found = importance(
    ...     lambda rows: rows["age"] / 100, rows, background={"age": [40.0], "bmi": [25.0]},
    ...     schema=Schema({"age": (0, 100), "bmi": (10, 60)}), budget=budget, epsilon=0.5,
    ...     model_origin="public", output_range=(0, 1))
    >>> found.feature_names, found.guarantee.epsilon
    (['age', 'bmi'], 0.5)
    """
    of_call = {key: terms.pop(key) for key in _OF_CALL if key in terms}
    if background is not None:
        terms.setdefault("background_origin", "public")
    explainer = ProtectedExplainer(
        model,
        background,
        protect="population",
        schema=schema,
        budget=budget,
        model_origin=model_origin,
        **terms,
    )
    return explainer(rows, epsilon=epsilon, **of_call)


_OF_CALL = ("noise", "redraw", "purpose", "caller")
