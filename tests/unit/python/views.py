"""Explanations to look at: of floats, and of a table with words, dates and gaps."""

from __future__ import annotations

import warnings
from datetime import UTC, datetime
from typing import Any

import numpy as np

from voile import Explanation, ExplanationView, Guarantee
from voile.core.guarantee import Adversary, Protected, ProtectedUnit, Relation

with warnings.catch_warnings():  # shap's use of matplotlib
    warnings.simplefilter("ignore")
    import shap as shap

NAMES = ("age", "bmi", "sex", "ward", "admitted")
WARDS = ("surgery", "oncology", "emergency")
PROMISE = Guarantee(
    epsilon=0.5,
    delta=1e-6,
    protected=Protected(ProtectedUnit.ROW, Relation.BLANK_ONE, "clinic v3"),
    against=(Adversary.PUBLIC,),
    computational=False,
    mechanism="Gaussian noise",
    composition="one release",
)


def core(rows: int = 30, outputs: int = 1, **parts: Any) -> Explanation:
    draw = np.random.default_rng(0)
    data = np.column_stack(
        [
            draw.integers(20, 90, rows),
            draw.normal(27, 4, rows),
            draw.integers(0, 2, rows),
            draw.integers(0, 3, rows),
            19_800 + np.arange(rows),
        ]
    ).astype(float)
    names = ("yes",) if outputs == 1 else tuple(f"class {k}" for k in range(outputs))
    given: dict[str, Any] = {
        "values": draw.normal(size=(rows, 5, outputs)) / 10,
        "base_values": np.linspace(0.3, 0.4, outputs),
        "feature_names": NAMES,
        "output_names": names,
        "data": data,
    }
    return Explanation(**(given | parts))


def displayed(explanation: Explanation) -> np.ndarray[Any, np.dtype[Any]]:
    """Its rows as people wrote them; in the second row, words and dates are missing."""
    assert explanation.data is not None
    rows = explanation.data.astype(object)
    for row, (age, _, sex, ward, day) in zip(rows, explanation.data, strict=True):
        row[0], row[2], row[3] = int(age), "fm"[int(sex)], WARDS[int(ward)]
        row[4] = datetime.fromtimestamp(day * 86_400, UTC).replace(tzinfo=None)
    rows[1, 1], rows[1, 3] = np.nan, None
    return rows


def plain(rows: int = 30, outputs: int = 1, **parts: Any) -> ExplanationView:
    return ExplanationView(core(rows, outputs, **parts))


def with_words(rows: int = 30, outputs: int = 1, **parts: Any) -> ExplanationView:
    explanation = core(rows, outputs, **parts)
    if explanation.data is not None and rows > 1:
        gaps = explanation.data.copy()
        gaps[1, 1] = gaps[1, 3] = np.nan
        explanation = core(rows, outputs, **(parts | {"data": gaps}))
    return ExplanationView(explanation, display=displayed(core(rows)), method="tree")
