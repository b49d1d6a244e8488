"""One prediction: how attributions lead from the base value to it, with the noise on each step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput
from voile.core.explanation import Explanation
from voile.core.explanation_words import Wording
from voile.core.schema import Schema
from voile.plots.choosing import one_output
from voile.plots.measuring import Measured, measure
from voile.plots.style import INK, LOWERS, PALE, QUIET, RAISES, new_figure, write_promise

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def waterfall(
    explanation: Explanation,
    *,
    row: int = 0,
    output: str | None = None,
    most: int = 12,
    schema: Schema | None = None,
) -> Figure:
    """How the attributions of one row lead from the base value to the prediction.

    Each step has the 95 % interval of its own attribution, where something is uncertain; a step
    that cannot be told from zero is pale.

    Args:
        explanation: what to draw; values of the row are shown where it holds them.
        row: which row.
        output: which output, needed where there are several.
        most: how many features to draw; the others are added up.
        schema: of the rows, for names of categories, units, and what the output is called.
    """
    chosen = one_output(explanation, output)[row]
    words = Wording(chosen, schema)
    if not words.leads_to_prediction:
        raise InvalidInput(
            "these attributions lead to no prediction that may be shown (means of sizes, names, or "
            "a protected row); draw them with `bar`"
        )
    steps = measure(chosen, most, schema)
    base = float(chosen.base_values[0, 0])
    figure, axes = new_figure(7.5, 1.9 + 0.36 * len(steps.names))
    ends = base + np.cumsum(steps.lengths[:, 0])
    _draw_steps(axes, steps, ends)
    _write_lengths(axes, steps, ends, base)
    own = [words.named(0, place) for place in steps.places]
    axes.set_yticks(range(len(ends)), [*own, *steps.names[len(own) :]], parse_math=False)
    axes.set_ylim(len(ends) - 0.4, -0.6)
    axes.axvline(base, color=QUIET, linewidth=0.8, linestyle=":")
    axes.use_sticky_edges = False
    axes.margins(x=0.05)
    exact = steps.low is None
    said = f"base {words.result(0, base)}  →  prediction {words.result(0, float(ends[-1]))}"
    axes.set_title(said if exact else f"{said} (with noise)", fontsize=10, color=INK, loc="left")
    uncertain = "" if exact else "\n(whiskers: 95 %; pale: cannot be told from zero)"
    axes.set_xlabel(words.output(0) + uncertain, color=INK, parse_math=False)
    write_promise(figure, chosen)
    return figure


def _draw_steps(axes: Axes, steps: Measured, ends: NDArray[np.float64]) -> None:
    lengths = steps.lengths[:, 0]
    for place, (length, end) in enumerate(zip(lengths, ends, strict=True)):
        axes.barh(
            place,
            length,
            left=end - length,
            height=0.62,
            color=RAISES if length > 0 else LOWERS,
            alpha=1.0 if steps.settled[place, 0] else PALE,
        )
        down = min(place + 1.31, len(ends) - 0.4)
        axes.plot([end, end], [place - 0.31, down], color=QUIET, linewidth=0.6)
        if steps.low is not None and steps.high is not None:
            reach = [[length - steps.low[place, 0]], [steps.high[place, 0] - length]]
            axes.errorbar(end, place, xerr=reach, fmt="none", ecolor=INK, capsize=2)


def _write_lengths(axes: Axes, steps: Measured, ends: NDArray[np.float64], base: float) -> None:
    """In a column of their own, beyond everything that is drawn."""
    lengths = steps.lengths[:, 0]
    reach = 0.0 if steps.high is None else float(np.max(steps.high[:, 0] - lengths))
    beyond = max(base, float(np.max(ends))) + reach
    for place, length in enumerate(lengths):
        axes.annotate(
            f"{length:+.3g}",
            (beyond, place),
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
            color=INK,
        )
