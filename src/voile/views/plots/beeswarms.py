"""shap's beeswarm of our explanations, with the noise of each feature behind its points."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from voile.core.description import Describable
from voile.core.explanation import Explanation
from voile.core.optional import optional
from voile.core.row_note import was_filled
from voile.core.schema import Schema
from voile.views.plots.figures import drawn_by_shap
from voile.views.plots.style import INK, QUIET, core_explanation, one_output, write_promise

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_OUTPUTS: Final = 6
"""A picture of more is too tall to look at."""


def beeswarm(
    explanation: Describable,
    *,
    output: str | None = None,
    most: int = 12,
    schema: Schema | None = None,
) -> Figure:
    """Every row's attribution of every feature as a point, coloured by the feature's value.

    Where attributions are uncertain, a band behind the points of a feature spans the 95 % that
    noise alone would cover: a point inside cannot be told from zero. Where the value of a row was
    missing, its point is grey. Several outputs are drawn one below the other.

    Args:
        explanation: what to draw; several rows. Without data the points have one colour.
        output: which output alone; needed where there are more than six.
        most: how many features to draw; the last place adds up the others.
        schema: of the rows, for what the output is called.

    >>> from voile import Explanation
    >>> why = Explanation(values=[[0.2, -0.1], [0.4, 0.3]], base_values=0.3,
    ...                   feature_names=("age", "bmi"), data=[[71, 24], [80, 31]])
    >>> beeswarm(why).axes[0].get_xlabel()
    'attribution to output'
    """
    described = explanation.describe(output=output, schema=schema)
    core, shown = core_explanation(explanation), described.outputs
    if len(shown) > _MOST_OUTPUTS:
        one_output(described)
    height = (1.4 + 0.4 * min(most, core.shape[1])) * len(shown)
    with drawn_by_shap(8.0, height) as figure:
        for place, each in enumerate(shown):
            axes = figure.add_subplot(len(shown), 1, place + 1)
            chosen = core if core.shape[2] == 1 else core.output(each.name)
            _draw_swarm(axes, chosen, each.title, most, getattr(explanation, "categories", ()))
    write_promise(figure, described)
    return figure


def _draw_swarm(
    axes: Axes, chosen: Explanation, title: str, most: int, categories: Collection[str]
) -> None:
    """One output."""
    shap = optional("shap", extra="explain")
    points = chosen.to_shap()
    points.data = _coloured_by(chosen, categories)
    shap.plots.beeswarm(points, max_display=most, show=False, plot_size=None, ax=axes)
    banded = _draw_noise(axes, chosen)
    more = "\n(band: inside, a point cannot be told from zero)" if banded else ""
    said = f"attribution to {title}{more}"
    axes.set_xlabel(said, color=INK, fontsize=10, parse_math=False)


def _coloured_by(explanation: Explanation, categories: Collection[str]) -> Any:
    """The values of the rows, as shap colours them: grey where none is high or low.

    That is where one was missing and filled in (NaN), and in columns of categories (objects).
    """
    data, names = explanation.data, explanation.feature_names
    if data is None or data.dtype.kind == "U":
        return data
    filled = [
        [was_filled(explanation.notes, name, row=row) for name in names] for row in range(len(data))
    ]
    table = optional("pandas", extra="explain").DataFrame(np.where(filled, np.nan, data))
    kinds = {place: object for place, name in enumerate(names) if name in categories}
    return table.astype(kinds)


def _draw_noise(axes: Axes, explanation: Explanation) -> bool:
    """A band for each line of the picture; whether there are any."""
    if explanation.reach is None:
        return False
    widest = explanation.reach[:, :, 0].max(axis=0)
    named = dict(zip(explanation.feature_names, widest, strict=True))
    lines = zip(axes.get_yticks(), axes.get_yticklabels(), strict=True)
    written = {label.get_text(): place for place, label in lines if label.get_text()}
    rest = [reach for name, reach in named.items() if name not in written]
    for name, place in written.items():
        # What stands for no feature is the sum of the others.
        reach = named.get(name, float(np.sqrt(np.sum(np.square(rest)))))
        span = [place - 0.42, place + 0.42]
        axes.fill_betweenx(span, -reach, reach, color=QUIET, alpha=0.15, linewidth=0, zorder=-2)
    return True
