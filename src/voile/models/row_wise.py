"""Does a model treat the rows of a batch one by one?

A guarantee about one of m rows says that it moves only its own share of a mean. That is false of a
model whose answer for one row depends on the others in the batch: a maximum over the batch, or its
mean and variance, hand one row's value to all. Whether a model does so cannot be found out by
trying. So it is either *known* from what it is made of, from lists of exact types whose settings
are looked at (`voile.models.inspection`); or *declared* by whoever wraps it, which guarantees name
among their assumptions; or neither, and then nobody hands it two protected rows in one call.

Known is meant up to rounding: matrix products round differently in another place of a batch. That
is what the slack in sensitivities is for (docs/decisions/0051-slack-for-rounding.md).
"""

from __future__ import annotations

from enum import StrEnum

from voile.models.protocol import Model
from voile.models.wrapped import WrappedModel, is_known


class RowWise(StrEnum):
    """Why a model is taken to treat the rows of a batch one by one."""

    KNOWN = "known from what the model is made of"
    DECLARED = "declared by whoever wrapped the model"


def row_wise(model: Model) -> RowWise | None:
    """Why rows may be handed to `model` together; None: there is no reason to think so."""
    if type(model) is not WrappedModel:
        return None
    if is_known(model.forward):
        return RowWise.KNOWN
    return RowWise.DECLARED if model.treats_rows_independently else None
