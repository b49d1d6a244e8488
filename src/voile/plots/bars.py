"""Bars: how much each feature contributed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from voile.core.explanation import Explanation
from voile.core.schema import Schema
from voile.plots.measuring import Measured, measure
from voile.plots.style import (
    INK,
    LOWERS,
    PALE,
    PALETTE,
    RAISES,
    new_figure,
    outputs_legend,
    write_promise,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.container import BarContainer
    from matplotlib.figure import Figure


def bar(explanation: Explanation, *, most: int = 12, schema: Schema | None = None) -> Figure:
    """The features that contributed most, as horizontal bars.

    One row: signed attributions. Several rows: the mean of their absolute values. Several outputs:
    one bar each. Whiskers are 95 % intervals where something is uncertain, and bars that cannot be
    told from zero are pale.

    Args:
        explanation: what to draw.
        most: how many features to draw; the others are added up in a last bar.
        schema: of the rows, for what the output is called.
    """
    bars = measure(explanation, most, schema)
    count, outputs = bars.lengths.shape
    figure, axes = new_figure(7.5, 1.5 + 0.34 * count * max(1.0, 0.6 * outputs))
    drawn = [_draw_output(axes, bars, output) for output in range(outputs)]
    axes.set_yticks(range(count), bars.names, parse_math=False)
    axes.set_ylim(count - 0.4, -0.6)
    axes.axvline(0, color=INK, linewidth=0.8)
    certain = "" if bars.low is None else "\n(whiskers: 95 %; pale: cannot be told from zero)"
    axes.set_xlabel(bars.meaning + certain, color=INK, parse_math=False)
    axes.margins(x=0.14)
    outputs_legend(axes, drawn, explanation.output_names)
    write_promise(figure, explanation)
    return figure


def _draw_output(axes: Axes, bars: Measured, output: int) -> BarContainer:
    count, outputs = bars.lengths.shape
    thickness = 0.72 / outputs
    places = np.arange(count) + (output - (outputs - 1) / 2) * thickness
    lengths = bars.lengths[:, output]
    colours: list[str] | str = PALETTE[output % len(PALETTE)]
    if outputs == 1 and bars.signed:
        colours = [RAISES if length > 0 else LOWERS for length in lengths]
    errors = None
    if bars.low is not None and bars.high is not None:
        errors = np.stack([lengths - bars.low[:, output], bars.high[:, output] - lengths])
    drawn = axes.barh(
        places,
        lengths,
        height=thickness,
        color=colours,
        xerr=errors,
        error_kw={"ecolor": INK, "elinewidth": 1.0, "capsize": 2},
    )
    for patch, settled in zip(drawn.patches, bars.settled[:, output], strict=True):
        patch.set_alpha(1.0 if settled else PALE)
    if outputs == 1:
        _write_lengths(axes, places, bars)
    return drawn


def _write_lengths(axes: Axes, places: NDArray[np.float64], bars: Measured) -> None:
    ends = [bars.lengths if end is None else end for end in (bars.low, bars.high)]
    for place, length, low, high in zip(
        places, bars.lengths[:, 0], ends[0][:, 0], ends[1][:, 0], strict=True
    ):
        left = length < 0
        axes.annotate(
            f"{length:+.3g}" if bars.signed else f"{length:.3g}",
            (low if left else high, place),
            xytext=(-4 if left else 4, 0),
            textcoords="offset points",
            va="center",
            ha="right" if left else "left",
            fontsize=8,
            color=INK,
        )
