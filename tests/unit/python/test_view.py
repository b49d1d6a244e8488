"""An explanation in Python has the manners of shap, and keeps its guarantees."""

import numpy as np

from voile import Explanation
from voile.python.view import ExplanationView

NAMES = ("age", "bmi", "sex")


def made(rows: int = 4, outputs: int = 1) -> Explanation:
    values = np.arange(rows * 3 * outputs, dtype=float).reshape(rows, 3, outputs)
    names = tuple(f"out {n}" for n in range(outputs))
    data = np.arange(rows * 3, dtype=float).reshape(rows, 3)
    return Explanation(
        values=values, base_values=0.5, feature_names=NAMES, output_names=names, data=data
    )


def test_a_single_output_has_no_axis() -> None:
    assert ExplanationView(made()).shape == (4, 3)
    assert ExplanationView(made(outputs=2)).shape == (4, 3, 2)
