"""Attributions with their intervals, where they come with standard errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from voile.core.errors import InvalidInput
from voile.core.explanation import Explanation
from voile.core.schema import Schema
from voile.plots.measuring import measure
from voile.plots.style import (
    INK,
    PALE,
    PALETTE,
    QUIET,
    new_figure,
    outputs_legend,
    write_promise,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D


def whiskers(
    explanation: Explanation, *, row: int = 0, most: int = 12, schema: Schema | None = None
) -> Figure:
    """The attributions of one row as points with 95% intervals, one colour for each output.

    An interval that covers zero is drawn pale: its sign is not settled.

    Args:
        explanation: what to draw; it must have standard errors.
        row: which row.
        most: how many features to draw, those with the largest attributions; the others are added
            up in a last one.
        schema: of the rows, for what the output is called.
    """
    chosen = explanation[row]
    points = measure(chosen, most, schema)
    if points.low is None or points.high is None:
        raise InvalidInput(
            "this explanation has no standard errors; sampled methods and releases have them"
        )
    count, outputs = points.lengths.shape
    figure, axes = new_figure(7.5, 1.5 + 0.34 * count * max(1.0, 0.5 * outputs))
    for output in range(outputs):
        places = np.arange(count) + (output - (outputs - 1) / 2) * 0.6 / outputs
        for entry, place in enumerate(places):
            value = points.lengths[entry, output]
            reach = [[value - points.low[entry, output]], [points.high[entry, output] - value]]
            axes.errorbar(
                value,
                place,
                xerr=reach,
                fmt="o",
                color=PALETTE[output % len(PALETTE)],
                markersize=5,
                capsize=3,
                linewidth=1.4,
                alpha=1.0 if points.settled[entry, output] else PALE,
            )
    axes.set_yticks(range(count), points.names, parse_math=False)
    axes.set_ylim(count - 0.4, -0.6)
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.grid(axis="y", color=QUIET, alpha=0.15)
    said = f"{points.meaning}, with 95% interval\n(pale: cannot be told from zero)"
    axes.set_xlabel(said, color=INK, parse_math=False)
    outputs_legend(axes, _samples(axes, outputs), chosen.output_names)
    write_promise(figure, chosen)
    return figure


def _samples(axes: Axes, outputs: int) -> list[Line2D]:
    """One point of each colour for the legend, never pale: that is about one interval only."""
    return [
        axes.plot([], [], "o", color=PALETTE[output % len(PALETTE)], markersize=5)[0]
        for output in range(outputs)
    ]
