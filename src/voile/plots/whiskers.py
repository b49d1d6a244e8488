"""Attributions with their intervals, where they come with standard errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from voile.core.errors import InvalidInput
from voile.core.explanation import Explanation
from voile.core.explanation_checks import Attributions
from voile.plots.style import INK, PALETTE, QUIET, new_figure, write_promise

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def whiskers(explanation: Explanation, *, row: int = 0, most: int = 12) -> Figure:
    """The attributions of one row as points with 95% intervals, one colour for each output.

    An interval that covers zero is drawn pale: its sign is not settled.

    Args:
        explanation: what to draw; it must have standard errors.
        row: which row.
        most: how many features to draw, those with the largest attributions.
    """
    if explanation.standard_errors is None:
        raise InvalidInput(
            "this explanation has no standard errors; sampled methods and releases have them"
        )
    if most < 1:
        raise InvalidInput(f"at least one feature must be drawn, found most={most}")
    chosen = explanation[row]
    values, errors = chosen.values[0], _reach(chosen)
    order = np.argsort(-np.abs(values).max(axis=1), kind="stable")[:most]
    outputs = values.shape[1]
    figure, axes = new_figure(7.5, 1.5 + 0.34 * len(order) * max(1.0, 0.5 * outputs))
    for output in range(outputs):
        places = np.arange(len(order)) + (output - (outputs - 1) / 2) * 0.6 / outputs
        colour = PALETTE[output % len(PALETTE)]
        for place, feature in zip(places, order, strict=True):
            value, reach = values[feature, output], errors[feature, output]
            settled = abs(value) > reach
            axes.errorbar(
                value,
                place,
                xerr=reach,
                fmt="o",
                color=colour,
                markersize=5,
                capsize=3,
                linewidth=1.4,
                alpha=1.0 if settled else 0.4,
                label=chosen.output_names[output] if feature == order[0] else None,
            )
    axes.set_yticks(range(len(order)), [chosen.feature_names[i] for i in order])
    axes.set_ylim(len(order) - 0.4, -0.6)
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.grid(axis="y", color=QUIET, alpha=0.15)
    axes.set_xlabel("attribution with 95% interval (pale: the sign is not settled)", color=INK)
    if outputs > 1:
        axes.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=min(outputs, 4))
    write_promise(figure, chosen)
    return figure


def _reach(explanation: Explanation) -> Attributions:
    """Half widths where somebody derived them; else errors are taken to be normal."""
    known = explanation.half_widths
    reach: Attributions = (
        1.96 * np.asarray(explanation.standard_errors)[0] if known is None else known[0]
    )
    return reach
