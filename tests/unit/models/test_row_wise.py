"""Whether a model is known, or declared, to treat the rows of a batch one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sklearn.linear_model import LogisticRegression

from voile.models import Box, RowWise, WrappedModel, row_wise, wrap

FITTED = LogisticRegression().fit([[0.0], [1.0]], [0, 1])


def test_functions_are_not_known_and_a_declaration_is_one() -> None:
    model = wrap(lambda rows: rows[:, 0], outputs=Box(0, 1), digest="f")
    assert row_wise(model) is None
    assert row_wise(wrap(model, treats_rows_independently=True)) is RowWise.DECLARED
    assert row_wise(wrap(model, treats_rows_independently=True).made_total()) is RowWise.DECLARED


def test_another_forward_function_takes_nothing_over() -> None:
    known = wrap(FITTED)
    assert row_wise(replace(known, forward=lambda rows: rows)) is None

    class Sly(type(known.forward)):  # type: ignore[misc]
        def steady(self) -> Any:
            return self

    assert row_wise(replace(known, forward=Sly(FITTED, "predict", None))) is None

    class Slyer(WrappedModel):
        pass

    assert row_wise(Slyer(forward=known.forward, identity=lambda: "")) is None
