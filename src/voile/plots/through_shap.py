"""shap's beeswarm and waterfall of our explanations.

shap draws with pyplot, which keeps every figure it makes; ours are taken out of it again, so that
nothing global is left behind and nothing is shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from voile.core.errors import InvalidInput
from voile.core.explanation import Explanation
from voile.core.optional import optional
from voile.plots.style import write_promise

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def beeswarm(explanation: Explanation, *, output: str | None = None, most: int = 12) -> Figure:
    """Every row's attribution of every feature as a point, coloured by the feature's value.

    Args:
        explanation: what to draw; several rows. Without data the points have one colour.
        output: which output, needed where there are several.
        most: how many features to draw.
    """
    shap = optional("shap", extra="explain")
    chosen = _one_output(explanation, output)
    with _figure(8.0, 1.2 + 0.4 * min(most, chosen.shape[1])) as figure, _fixed_spread():
        shap.plots.beeswarm(
            chosen.to_shap(),
            max_display=most,
            show=False,
            plot_size=None,
            ax=figure.add_subplot(),
        )
    write_promise(figure, chosen)
    return figure


def waterfall(
    explanation: Explanation, *, row: int = 0, output: str | None = None, most: int = 12
) -> Figure:
    """How the attributions of one row lead from the base value to the prediction.

    Args:
        explanation: what to draw.
        row: which row.
        output: which output, needed where there are several.
        most: how many features to draw; the others are added up.
    """
    shap = optional("shap", extra="explain")
    chosen = _one_output(explanation, output)[row]
    with _figure(8.0, 1.6 + 0.45 * min(most, chosen.shape[1])) as figure:
        shap.plots.waterfall(chosen.to_shap()[0], max_display=most, show=False)
    write_promise(figure, chosen)
    return figure


def _one_output(explanation: Explanation, output: str | None) -> Explanation:
    if output is not None:
        return explanation.output(output)
    if explanation.shape[2] > 1:
        raise InvalidInput(f"choose one output: {', '.join(explanation.output_names)} (output=...)")
    return explanation


@contextmanager
def _fixed_spread() -> Iterator[None]:
    """The beeswarm spreads points by numpy's global generator; it is put back as it was."""
    before = np.random.get_state()  # noqa: NPY002
    np.random.seed(0)  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(before)  # noqa: NPY002


@contextmanager
def _figure(width: float, height: float) -> Iterator[Figure]:
    pyplot = optional("matplotlib.pyplot", extra="explain")
    before = pyplot.gcf() if pyplot.get_fignums() else None
    figure: Figure = pyplot.figure(figsize=(width, height), layout="constrained")
    try:
        yield figure
    finally:
        pyplot.close(figure)
        if before is not None:
            pyplot.figure(before.number)
    figure.set_size_inches(width, height)
    figure.set_layout_engine("constrained")
