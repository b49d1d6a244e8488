"""Whether a wrapped pipeline predicts what the pipeline itself predicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from voile.core.errors import InvalidInput
from voile.core.optional import optional
from voile.core.schema import ColumnTable, Problem, Schema
from voile.core.schema.cells import raw_column
from voile.models.estimators import OfEstimator, own_categories
from voile.models.wrapped import WrappedModel

LARGEST_DIFFERENCE: Final = 1e-6


@dataclass(frozen=True)
class PredictionComparison:
    """How far predictions differ. Over protected rows it is for their custodian only.

    Args:
        rows: how many were compared: those that fit the schema and miss nothing, and those with a
            category that the pipeline knows and the schema does not list.
        changed: in how many of them a prediction differs by more than 1e-6.
        largest: the largest difference.
    """

    rows: int
    changed: int
    largest: float


def compare_predictions(model: WrappedModel, table: ColumnTable) -> PredictionComparison:
    """Compare a pipeline that was wrapped with a schema with the pipeline itself.

    Over protected rows the result tells about them: look at it, and never pass it on.

    Args:
        model: from `wrap(pipeline, schema)`.
        table: raw values, as the pipeline was trained on.
    """
    inner = model.forward
    if not isinstance(inner, OfEstimator) or inner.schema is None or inner.columns is None:
        raise InvalidInput("expected a model from `wrap(pipeline, schema)`")
    frame = optional("pandas", extra="explain").DataFrame(table)
    kept = frame[_compared(inner, inner.schema, frame)]
    if not len(kept):
        return PredictionComparison(0, 0, 0.0)
    own = np.asarray(getattr(inner.source, inner.method)(kept[list(inner.columns)]))
    if own.dtype.kind not in "fiub":
        raise InvalidInput(f"the model must return numbers, found an array of {own.dtype}")
    wrapped = np.asarray(inner(inner.schema.rows(kept)))
    same = (own == wrapped) | (np.isnan(own) & np.isnan(wrapped))
    apart = np.nan_to_num(np.where(same, 0.0, np.abs(own - wrapped)), nan=np.inf)
    each = apart.reshape(len(kept), -1).max(axis=1)
    changed = int((each > LARGEST_DIFFERENCE).sum())
    return PredictionComparison(len(kept), changed, float(each.max()))


def check_predictions(model: WrappedModel, table: ColumnTable) -> None:
    """Refuse a model that predicts otherwise than its pipeline; for public rows only."""
    found = compare_predictions(model, table)
    if found.changed:
        raise InvalidInput(
            f"the wrapped model predicts otherwise than the pipeline in {found.changed} of "
            f"{found.rows} rows, by up to {found.largest:.3g}. The schema changes values that the "
            "pipeline tells apart, such as blanks around a category, or lacks a category that it "
            "knows. Fit the pipeline on values as the schema writes them"
        )


def _compared(inner: OfEstimator, schema: Schema, frame: Any) -> Any:
    """Rows that the schema leaves as they are: for others it states what it puts instead.

    A category that the pipeline knows and the schema does not list is no such other: the default
    would stand for it without a word.
    """
    fits, known = np.ones(len(frame), dtype=np.bool_), own_categories(inner.source)
    for feature in schema.features:
        reading = feature.domain.read(raw_column(frame[feature.name], feature.name))
        for problem, mask in feature.domain.problems(reading).items():
            if problem is Problem.UNKNOWN and feature.name in known:
                mask = mask & ~frame[feature.name].isin(known[feature.name]).to_numpy()
            fits &= ~mask
    return fits
