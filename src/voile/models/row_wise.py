"""Does a model treat the rows of a batch one by one?

A guarantee about one of m rows says that it moves only its own share of a mean. That is false of a
model whose answer for one row depends on the others in the batch: a maximum over the batch, or its
mean and variance, hand one row's value to all. Whether a model does so cannot be found out by
trying. So it is either *known* from what it is made of, from lists of exact types whose settings
are looked at (`voile.models.inspection`); or *declared* by whoever wraps it, which guarantees name
among their assumptions; or neither, and then nobody hands it two protected rows in one call.

Matrix products round differently in another place of a batch, and a step behind one (a label, a
tree) makes a jump of that. So known means steady as well: a row's place changes its answer by the
rounding of double precision alone, far below the slack in sensitivities
(docs/decisions/row-wise-models.md). Networks in single precision are asked in double.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum

from voile.models.protocol import Model
from voile.models.wrapped import WrappedModel, steady


class RowWise(StrEnum):
    """Why a model is taken to treat the rows of a batch one by one."""

    KNOWN = "known from what the model is made of"
    DECLARED = "declared by whoever wrapped the model"


def row_wise(model: Model) -> RowWise | None:
    """Why rows may be handed to `model` together; None: there is no reason to think so."""
    if known_model(model) is not None:
        return RowWise.KNOWN
    declared = type(model) is WrappedModel and model.treats_rows_independently
    return RowWise.DECLARED if declared else None


def known_model(model: Model) -> WrappedModel | None:
    """The model to hand rows to together, if it is known: itself, or it in double precision."""
    if type(model) is not WrappedModel:
        return None
    forward = steady(model.forward)
    return None if forward is None else replace(model, forward=forward)
