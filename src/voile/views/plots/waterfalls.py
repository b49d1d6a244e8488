"""One prediction: how attributions lead from the base value to it, with the noise on each step."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from voile.core.description import Describable, FeatureContribution
from voile.core.errors import InvalidInput
from voile.core.schema import Schema
from voile.views.plots.style import (
    INK,
    LOWERS,
    PALE,
    QUIET,
    RAISES,
    axis_text,
    directions_legend,
    new_figure,
    one_output,
    whisker,
    write_promise,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def waterfall(
    explanation: Describable,
    *,
    row: int = 0,
    output: str | None = None,
    most: int = 12,
    schema: Schema | None = None,
) -> Figure:
    """How the attributions of one row lead from the base value to the prediction.

    Each step has the interval of its own attribution, where something is uncertain; a step that
    cannot be told from zero is pale. A value that was missing is called missing.

    Args:
        explanation: what to draw; values of the row are shown where it holds them.
        row: which row.
        output: which output, needed where there are several.
        most: how many features to draw; the others are added up.
        schema: of the rows, for names of categories, units, and what the output is called.

    >>> from voile import Explanation
    >>> why = Explanation(values=[[0.2, -0.1], [0.4, 0.3]], base_values=0.3,
    ...                   feature_names=("age", "bmi"), data=[[71, 24], [80, 31]])
    >>> figure = waterfall(why, row=1)
    >>> figure.axes[0].get_title(loc="left")
    'base 0.3  →  prediction 1'
    >>> figure.get_supxlabel()
    'no privacy guarantee'
    """
    described = explanation.describe(row, output=output, most=most, schema=schema)
    drawn = one_output(described)
    prediction, steps = drawn.prediction, drawn.contributions
    if prediction is None:
        raise InvalidInput(
            "these attributions lead to no prediction that may be shown (means of sizes, names, or "
            "a protected row); draw them with `bar`"
        )
    figure, axes = new_figure(7.5, 2.1 + 0.36 * len(steps))
    ends = list(accumulate((each.amount for each in steps), initial=prediction.base))
    _draw_steps(axes, steps, ends[1:])
    _write_amounts(axes, steps)
    axes.set_yticks(range(len(steps)), [each.named for each in steps], parse_math=False)
    axes.set_ylim(len(steps) - 0.4, -0.6)
    for reached in (prediction.base, prediction.value):
        axes.axvline(reached, color=QUIET, linewidth=0.8, linestyle=":", zorder=0)
    axes.use_sticky_edges = False
    axes.margins(x=0.05)
    said = f"base {prediction.base_text}  →  prediction {prediction.value_text}"
    noisy = f"{said} ± {prediction.noise:.2g}" if prediction.noise else said
    axes.set_title(noisy, fontsize=10, color=INK, loc="left")
    axes.set_xlabel(axis_text(described, drawn.title), color=INK, parse_math=False)
    directions_legend(figure)
    write_promise(figure, described)
    return figure


def _draw_steps(axes: Axes, steps: tuple[FeatureContribution, ...], ends: list[float]) -> None:
    for place, (each, end) in enumerate(zip(steps, ends, strict=True)):
        axes.barh(
            place,
            each.amount,
            left=end - each.amount,
            height=0.62,
            color=RAISES if each.amount > 0 else LOWERS,
            alpha=1.0 if each.distinguishable else PALE,
        )
        down = min(place + 1.31, len(ends) - 0.4)
        axes.plot([end, end], [place - 0.31, down], color=QUIET, linewidth=0.6)
        reach = whisker(each)
        if reach is not None:
            axes.errorbar(end, place, xerr=reach, fmt="none", ecolor=INK, capsize=2)


def _write_amounts(axes: Axes, steps: tuple[FeatureContribution, ...]) -> None:
    """In a column of their own, beside everything that is drawn."""
    for place, each in enumerate(steps):
        axes.annotate(
            each.text,
            (1, place),
            xycoords=axes.get_yaxis_transform(),
            xytext=(6, 0),
            textcoords="offset points",
            annotation_clip=False,
            va="center",
            fontsize=8,
            color=INK,
        )
