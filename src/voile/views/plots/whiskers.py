"""Attributions with their intervals, where they come with standard errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from voile.core.description import Describable, Uncertainty
from voile.core.errors import InvalidInput
from voile.core.schema import Schema
from voile.views.plots.style import (
    INK,
    PALE,
    PALETTE,
    QUIET,
    axis_text,
    feature_label,
    new_figure,
    outputs_legend,
    whisker,
    write_promise,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D


def whiskers(
    explanation: Describable, *, row: int = 0, most: int = 12, schema: Schema | None = None
) -> Figure:
    """The attributions of one row as points with their intervals, one colour for each output.

    An interval that covers zero is drawn pale: its sign is not settled.

    Args:
        explanation: what to draw; something in it must be uncertain.
        row: which row.
        most: how many features to draw, those with the largest attributions; the others are added
            up in a last one.
        schema: of the rows, for what the output is called.
    """
    described = explanation.describe(row, most=most, schema=schema)
    if described.uncertainty is Uncertainty.EXACT:
        raise InvalidInput(
            "this explanation has no standard errors; sampled methods and releases have them"
        )
    outputs, shown = len(described.outputs), described.outputs[0].contributions
    count = len(shown)
    figure, axes = new_figure(7.5, 1.5 + 0.34 * count * max(1.0, 0.5 * outputs))
    for number, output in enumerate(described.outputs):
        places = np.arange(count) + (number - (outputs - 1) / 2) * 0.6 / outputs
        for each, place in zip(output.contributions, places, strict=True):
            axes.errorbar(
                each.amount,
                place,
                xerr=whisker(each),
                fmt="o",
                color=PALETTE[number % len(PALETTE)],
                markersize=5,
                capsize=3,
                linewidth=1.4,
                alpha=1.0 if each.distinguishable else PALE,
            )
    axes.set_yticks(range(count), [feature_label(each) for each in shown], parse_math=False)
    axes.set_ylim(count - 0.4, -0.6)
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.grid(axis="y", color=QUIET, alpha=0.15)
    axes.set_xlabel(axis_text(described), color=INK, parse_math=False)
    outputs_legend(axes, _samples(axes, outputs), [each.name for each in described.outputs])
    write_promise(figure, described)
    return figure


def _samples(axes: Axes, outputs: int) -> list[Line2D]:
    """One point of each colour for the legend, never pale: that is about one interval only."""
    return [
        axes.plot([], [], "o", color=PALETTE[output % len(PALETTE)], markersize=5)[0]
        for output in range(outputs)
    ]
