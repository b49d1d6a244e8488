"""Bars: how much each feature contributed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput
from voile.core.explanation import Explanation
from voile.core.row_note import KnownNote
from voile.plots.style import INK, LOWERS, PALETTE, QUIET, RAISES, new_figure, write_promise

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.container import BarContainer
    from matplotlib.figure import Figure


def bar(explanation: Explanation, *, most: int = 12) -> Figure:
    """The features that contributed most, as horizontal bars.

    One row: signed attributions. Several rows: the mean of their absolute values. Several outputs:
    one bar each. Whiskers span 1.96 standard errors where the explanation has them (for several
    rows, their mean, which is an upper bound for the error of the mean).

    Args:
        explanation: what to draw.
        most: how many features to draw; the others are added up in a last bar.
    """
    if most < 1:
        raise InvalidInput(f"at least one feature must be drawn, found most={most}")
    bars = _measure(explanation, most)
    count, outputs = bars.lengths.shape
    figure, axes = new_figure(7.5, 1.5 + 0.34 * count * max(1.0, 0.6 * outputs))
    drawn = [_draw_output(axes, bars, output) for output in range(outputs)]
    axes.set_yticks(range(count), bars.names, parse_math=False)
    axes.set_ylim(count - 0.4, -0.6)
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set_xlabel(bars.meaning, color=INK)
    axes.margins(x=0.14)
    if outputs > 1:
        # Handed over by hand: of labels found by itself, matplotlib hides those that begin with _.
        legend = axes.legend(
            drawn,
            explanation.output_names,
            frameon=False,
            loc="lower left",
            bbox_to_anchor=(0, 1),
            ncols=min(outputs, 4),
        )
        for text in legend.get_texts():
            text.set_parse_math(False)
    write_promise(figure, explanation)
    return figure


@dataclass(frozen=True)
class _Bars:
    names: list[str]
    lengths: NDArray[np.float64]  # (bars, outputs)
    errors: NDArray[np.float64] | None
    signed: bool
    meaning: str


def _measure(explanation: Explanation, most: int) -> _Bars:
    signed = len(explanation) == 1
    strength = np.abs(explanation.values).mean(axis=0)
    lengths = explanation.values[0] if signed else strength
    spread = explanation.standard_errors
    errors = None if spread is None else 1.96 * spread.mean(axis=0)
    order = np.argsort(-strength.sum(axis=1), kind="stable")
    shown, rest = order[:most], order[most:]
    names = [explanation.feature_names[i] for i in shown]
    if len(rest):
        names.append(f"{len(rest)} others")
        lengths = np.vstack([lengths[shown], lengths[rest].sum(axis=0)])
        errors = None if errors is None else np.vstack([errors[shown], errors[rest].sum(axis=0)])
    else:
        lengths, errors = lengths[shown], None if errors is None else errors[shown]
    what = KnownNote.SUMMED if explanation.carries(KnownNote.SUMMED) else "attribution"
    return _Bars(names, lengths, errors, signed, what if signed else f"mean |{what}|")


def _draw_output(axes: Axes, bars: _Bars, output: int) -> BarContainer:
    count, outputs = bars.lengths.shape
    thickness = 0.72 / outputs
    places = np.arange(count) + (output - (outputs - 1) / 2) * thickness
    lengths = bars.lengths[:, output]
    colours: list[str] | str = PALETTE[output % len(PALETTE)]
    if outputs == 1 and bars.signed:
        colours = [RAISES if length > 0 else LOWERS for length in lengths]
    errors = None if bars.errors is None else bars.errors[:, output]
    drawn = axes.barh(
        places,
        lengths,
        height=thickness,
        color=colours,
        xerr=errors,
        error_kw={"ecolor": QUIET, "elinewidth": 1.0, "capsize": 2},
    )
    if outputs == 1:
        _write_lengths(axes, places, lengths, errors, bars.signed)
    return drawn


def _write_lengths(
    axes: Axes,
    places: NDArray[np.float64],
    lengths: NDArray[np.float64],
    errors: NDArray[np.float64] | None,
    signed: bool,
) -> None:
    reach = np.zeros_like(lengths) if errors is None else errors
    for place, length, error in zip(places, lengths, reach, strict=True):
        left = length < 0
        axes.annotate(
            f"{length:+.3g}" if signed else f"{length:.3g}",
            (length - error if left else length + error, place),
            xytext=(-4 if left else 4, 0),
            textcoords="offset points",
            va="center",
            ha="right" if left else "left",
            fontsize=8,
            color=INK,
        )
