"""Bars: how much each feature contributed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from voile.core.description import Describable, Description, FeatureContribution
from voile.core.schema import Schema
from voile.views.plots.style import (
    INK,
    LOWERS,
    PALE,
    PALETTE,
    RAISES,
    axis_text,
    feature_label,
    new_figure,
    outputs_legend,
    whisker,
    write_promise,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.container import BarContainer
    from matplotlib.figure import Figure


def bar(explanation: Describable, *, most: int = 12, schema: Schema | None = None) -> Figure:
    """The features that contributed most, as horizontal bars.

    One row: signed attributions. Several rows: the mean of their absolute values. Several outputs:
    one bar each. Whiskers show where something is uncertain, and bars that cannot be told from zero
    are pale. Features that were missing in the one row are named; its values are not shown.

    Args:
        explanation: what to draw; what a workspace answers brings its schema and estimates along.
        most: how many features to draw; the others are added up in a last bar.
        schema: of the rows, for what the output is called.
    """
    described = explanation.describe(most=most, schema=schema)
    outputs, shown = len(described.outputs), described.outputs[0].contributions
    count = len(shown)
    figure, axes = new_figure(7.5, 1.5 + 0.34 * count * max(1.0, 0.6 * outputs))
    drawn = [_draw_output(axes, described, output) for output in range(outputs)]
    axes.set_yticks(range(count), [feature_label(each) for each in shown], parse_math=False)
    axes.set_ylim(count - 0.4, -0.6)
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set_xlabel(axis_text(described), color=INK, parse_math=False)
    axes.margins(x=0.14)
    outputs_legend(axes, drawn, [each.name for each in described.outputs])
    write_promise(figure, described)
    return figure


def _draw_output(axes: Axes, described: Description, output: int) -> BarContainer:
    shown, outputs = described.outputs[output].contributions, len(described.outputs)
    thickness = 0.72 / outputs
    places = np.arange(len(shown)) + (output - (outputs - 1) / 2) * thickness
    colours: list[str] | str = PALETTE[output % len(PALETTE)]
    if outputs == 1 and described.signed:
        colours = [RAISES if each.amount > 0 else LOWERS for each in shown]
    reaches = [reach for each in shown if (reach := whisker(each)) is not None]
    drawn = axes.barh(
        places,
        [each.amount for each in shown],
        height=thickness,
        color=colours,
        xerr=np.hstack(reaches) if reaches else None,
        error_kw={"ecolor": INK, "elinewidth": 1.0, "capsize": 2},
    )
    for patch, each in zip(drawn.patches, shown, strict=True):
        patch.set_alpha(1.0 if each.distinguishable else PALE)
    if outputs == 1:
        _write_amounts(axes, places, shown)
    return drawn


def _write_amounts(
    axes: Axes, places: NDArray[np.floating], shown: tuple[FeatureContribution, ...]
) -> None:
    for place, each in zip(places, shown, strict=True):
        left, end = each.amount < 0, each.low if each.amount < 0 else each.high
        axes.annotate(
            each.text,
            (each.amount if end is None else end, place),
            xytext=(-4 if left else 4, 0),
            textcoords="offset points",
            va="center",
            ha="right" if left else "left",
            fontsize=8,
            color=INK,
        )
