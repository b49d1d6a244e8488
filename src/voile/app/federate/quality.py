"""How good what was trained is, on rows that nobody protects, and what to be warned of.

Each figure has beside it what it is compared with. An alarm is a sentence for the first lines of
a report: whoever reads no further must not take a useless result for a good one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from voile.core.schema import Categories, Numbers, Schema
from voile.evaluation import (
    ClassJudgement,
    PredictionQuality,
    brier_scores,
    is_constant,
    judge_classes,
    judge_numbers,
    log_losses,
    spread_of,
)
from voile.models import Model
from voile.pipelines.objectives import BLACK_BOX, SURROGATE
from voile.pipelines.tables import TableRecords
from voile.training import Softmax

_MOST: Final = 20_000
"""Rows to judge by."""
LOG_LOSS: Final = "log-loss"
BRIER: Final = "Brier score"
_SAME: Final = "it says nearly the same about everybody: its explanations explain nothing"


_RIDGE: Final = 1.0


def quality_figures(
    model: Model | None,
    measured: TableRecords,
    fitted: TableRecords | None = None,
    *,
    surrogate: Any = None,
) -> dict[str, Any]:
    """For the model and, where there is one, its surrogate; plain values.

    Args:
        measured: the unprotected rows to judge by.
        fitted: other unprotected rows, which a linear model is fitted on for comparison. It never
            sees protected rows: a model of those without noise would be a release nobody paid for.
    """
    rows = measured.readable()
    rows = rows.only(np.arange(min(len(rows), _MOST)))
    if not len(rows):
        return {}
    found: dict[str, Any] = {}
    if model is not None:
        found[BLACK_BOX] = judged_rows(np.asarray(model.predict(rows.rows), float), rows, fitted)
    if surrogate is not None:
        said = np.asarray(surrogate.predict(rows.rows), float)
        found[SURROGATE] = _quality(said, rows.schema, {}, [])
    return found


def judged_rows(
    said: NDArray[np.float64], rows: TableRecords, fitted: TableRecords | None = None
) -> dict[str, Any]:
    """What a model said about unprotected rows, compared with their labels; plain values."""
    label = rows.schema.label
    if np.isnan(rows.labels).all() or label is None:
        return _quality(said, rows.schema, {}, [])
    if not isinstance(label.domain, Categories):
        error = judge_numbers(said[:, 0], rows.labels)
        useless = error.high >= error.baseline
        alarms = ["its error cannot be told from that of always saying the median"]
        figures = {"mean absolute error": error}
        return _quality(said, rows.schema, figures, alarms if useless else [])
    quality = judged_classes(said, rows.labels, label.domain.values)
    for name, figure in _of_linear_model(fitted, rows).items():
        quality["figures"][name]["linear_model"] = figure
    return quality


def judged_classes(
    said: NDArray[np.float64], labels: NDArray[Any], classes: Sequence[Any]
) -> dict[str, Any]:
    """What a classifier said about unprotected records, compared with their labels."""
    found = judge_classes(said, labels)
    figures = {"accuracy": found.accuracy}
    figures |= {} if found.auc is None else {"AUC": found.auc}
    figures["expected calibration error"] = found.calibration_error
    figures |= {LOG_LOSS: found.log_loss, BRIER: found.brier}
    majority = classes[found.majority]
    alarms = []
    if found.no_better_than_baseline:
        alarms.append(f"it cannot be told from always saying {majority!r}, by accuracy or AUC")
    if found.no_better_than_frequencies:
        alarms.append(
            "its probabilities are not shown to be better than the base rate (log-loss "
            f"{found.log_loss.figure:.3f}; always stating the base rate has "
            f"{found.log_loss.baseline:.3f})"
        )
    close = _close_together(found, said, majority)
    quality = _quality(said, None, figures, alarms, close)
    calibration = [{k: float(v) for k, v in asdict(each).items()} for each in found.calibration]
    return quality | {"calibration": calibration}


def _of_linear_model(fitted: TableRecords | None, rows: TableRecords) -> dict[str, float]:
    """Log-loss and Brier score of a linear model without noise; none without rows to fit."""
    if fitted is None or not len(fitted):
        return {}
    known = rows.only(~np.isnan(rows.labels))
    true = known.labels.astype(int)
    said = _linear_model(fitted, known)
    return {
        LOG_LOSS: float(log_losses(said, true).mean()),
        BRIER: float(brier_scores(said, true).mean()),
    }


def _linear_model(fitted: TableRecords, rows: TableRecords) -> NDArray[np.float64]:
    """What a logistic regression with a ridge says about rows that it was not fitted on."""
    from scipy.optimize import minimize

    inputs, wanted = _with_ones(fitted), np.asarray(fitted.targets, float)
    shape, head = (inputs.shape[1], wanted.shape[1]), Softmax()

    def loss(point: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        weights = point.reshape(shape)
        said = head.means(inputs @ weights)
        pulled = _RIDGE * weights
        pulled[-1] = 0  # not the intercept
        value = log_losses(said, wanted.argmax(axis=1)).sum() + (pulled * weights).sum() / 2
        return float(value), (inputs.T @ (said - wanted) + pulled).ravel()

    found = minimize(loss, np.zeros(shape[0] * shape[1]), jac=True, method="L-BFGS-B").x
    return np.asarray(head.means(_with_ones(rows) @ found.reshape(shape)), float)


def _with_ones(rows: TableRecords) -> NDArray[np.float64]:
    return np.column_stack([np.asarray(rows.columns, float), np.ones(len(rows))])


def _close_together(found: ClassJudgement, said: NDArray[np.float64], majority: object) -> str:
    """What to say of one whose answers lie close together; nothing if they are good answers.

    Where one answer is rare, probabilities lie close together whatever is known about people.
    """
    if found.auc is None or found.auc.low <= found.auc.baseline:
        return _SAME
    if found.accuracy.low > found.accuracy.baseline:
        return ""
    others = np.count_nonzero(said.argmax(axis=1) != found.majority)
    return (
        f"it {'hardly ever' if others else 'never'} predicts anything but {majority!r}, so what it "
        "predicts is of no use; but it ranks people better than guessing (AUC "
        f"{found.auc.figure:.3f}, 95 %: {found.auc.low:.3f} to {found.auc.high:.3f})"
    )


def _quality(
    said: NDArray[np.float64],
    schema: Schema | None,
    figures: Mapping[str, PredictionQuality],
    alarms: list[str],
    same: str = _SAME,
) -> dict[str, Any]:
    """With what is to be said of one whose answers lie close together."""
    constant = is_constant(said, _width(schema))
    return {
        "spread": spread_of(said),
        "constant": constant,
        "alarms": [*([same] if constant and same else []), *alarms],
        "figures": {name: asdict(each) for name, each in figures.items()},
        "calibration": [],
    }


def _width(schema: Schema | None) -> float:
    """How far outputs can lie apart."""
    domain = None if schema is None or schema.label is None else schema.label.domain
    return float(domain.upper - domain.lower) if isinstance(domain, Numbers) else 1.0
