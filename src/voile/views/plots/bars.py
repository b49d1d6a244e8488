"""How much each feature contributed: as bars, or as points with their intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from voile.core.description import Describable, Description, FeatureContribution, Uncertainty
from voile.core.errors import InvalidInput
from voile.core.schema import Schema
from voile.views.plots.style import (
    INK,
    LOWERS,
    PALE,
    PALETTE,
    QUIET,
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
    from matplotlib.lines import Line2D


def bar(explanation: Describable, *, most: int = 12, schema: Schema | None = None) -> Figure:
    """The features that contributed most, as horizontal bars.

    One row: signed attributions. Several rows: the mean of their absolute values. Several outputs:
    one bar each. Whiskers show where something is uncertain, and bars that cannot be told from zero
    are pale. Features that were missing in the one row are named; its values are not shown.

    Args:
        explanation: what to draw; what a workspace answers brings its schema and estimates along.
        most: how many features to draw; the others are added up in a last bar.
        schema: of the rows, for what the output is called.

    >>> from voile import Explanation
    >>> why = Explanation(values=[[0.2, -0.1], [0.4, 0.3]], base_values=0.3,
    ...                   feature_names=("age", "bmi"), data=[[71, 24], [80, 31]])
    >>> [tick.get_text() for tick in bar(why).axes[0].get_yticklabels()]
    ['age', 'bmi']
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

    >>> from voile import Explanation
    >>> noisy = Explanation(values=[[0.2, -0.1]], base_values=0.3, feature_names=("age", "bmi"),
    ...                     half_widths=[[0.1, 0.2]])
    >>> whiskers(noisy).axes[0].get_xlabel().splitlines()[0]
    'attribution to output'
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
