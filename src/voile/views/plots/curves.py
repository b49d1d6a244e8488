"""What an additive model says about each feature: a curve with its band."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput
from voile.core.explanation import NO_GUARANTEE
from voile.core.schema import Categories, Feature
from voile.views.plots.figures import empty_figure
from voile.views.plots.style import INK, PALETTE, QUIET, outputs_legend, write_below

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.gridspec import SubplotSpec

    from voile.models.additive import AdditiveModel

_ACROSS: Final = 3
_WIDTH: Final = 1.959964
_LONGEST_NAME: Final = 16
_CROWDED: Final = 0.02
"""Where half of the bins lie in this share of the bounds, the axis is stretched near zero."""


@dataclass(frozen=True, eq=False)
class _Curve:
    """What a model says about one feature.

    Args:
        bins: as `AdditiveModel.description` tells them.
        scores, errors: shape (bins, outputs).
        shares: of rows in each bin.
    """

    feature: Feature
    bins: Sequence[Mapping[str, Any]]
    scores: NDArray[np.float64]
    errors: NDArray[np.float64]
    shares: NDArray[np.float64]

    @classmethod
    def from_description(cls, feature: Feature, bins: Sequence[Mapping[str, Any]]) -> _Curve:
        scores, errors = (
            np.array([np.atleast_1d(each[name]) for each in bins], dtype=np.float64)
            for name in ("score", "standard_error")
        )
        shares = np.array([each["share_of_rows"] for each in bins])
        return cls(feature, bins, scores, errors, shares)

    @property
    def importance(self) -> float:
        """The mean absolute contribution over rows."""
        return float(self.shares @ np.abs(self.scores).mean(axis=1))

    @property
    def title(self) -> str:
        unit = f" ({self.feature.unit})" if self.feature.unit else ""
        return f"{self.feature.name}{unit}: {self.importance:.2f}"

    @property
    def ends(self) -> NDArray[np.float64]:
        """Where bins of numbers begin, and where the last one ends."""
        return np.array([*(each["from"] for each in self.bins), self.bins[-1]["to"]], dtype=float)


def curves(model: AdditiveModel, *, most: int = 12) -> Figure:
    """How each feature moves the score of an additive model, with the share of rows below.

    Numbers are steps with a band, categories bars with whiskers: 95 % for the noise in training.
    Areas below are shares of rows. The feature that matters most comes first; the figure beside
    its name is its mean absolute contribution. A triangle shows which value stands for a missing
    one.

    Args:
        model: of `voile train`, or any `AdditiveModel`.
        most: how many features to draw; those that matter least are left out.

    >>> from voile import Schema
    >>> from voile.core.schema import Categories, Label, Numbers
    >>> from voile.models.additive import AdditiveModel, FeatureBins
    >>> age = Feature("age", Numbers(0, 100), unit="years")
    >>> model = AdditiveModel(
    ...     schema=Schema("clinic", (age,), Label("readmitted", Categories(("no", "yes")))),
    ...     bins=(FeatureBins("age", edges=(50.0,)),), intercept=-1.0,
    ...     scores=np.array([-0.5, 0.5]), masses=np.array([0.5, 0.5]), covariance=np.zeros((2, 2)))
    >>> curves(model).axes[0].get_title()
    'age (years): 0.50'
    """
    told = model.description()
    features = {each.name: each for each in model.schema.features}
    found = [_Curve.from_description(features[e["name"]], e["bins"]) for e in told["features"]]
    if not found:
        raise InvalidInput("this model uses no feature, so there is no curve to draw")
    shown = sorted(found, key=lambda each: -each.importance)[: max(most, 1)]
    across, down = min(_ACROSS, len(shown)), ceil(len(shown) / _ACROSS)
    figure = empty_figure(3.3 * across + 0.6, 2.6 * down + 1.2, layout=None)
    figure.set_layout_engine("constrained", h_pad=0.02)
    grid, reach = figure.add_gridspec(down, across), _reach(shown)
    drawn = [
        _draw(grid[place // across, place % across], each, reach)
        for place, each in enumerate(shown)
    ]
    outputs_legend(drawn[0][0], drawn[0][1], list(told.get("classes", ())))
    figure.supylabel(_scores_are(told, len(shown), len(found)), fontsize=9, parse_math=False)
    promises = [str(guarantee) for guarantee in model.guarantees] or [NO_GUARANTEE]
    unused = told["without_influence"]
    more = [f"without influence: {', '.join(unused)}"] if unused else []
    write_below(figure, [*more, *promises])
    return figure


def _scores_are(told: Mapping[str, Any], shown: int, found: int) -> str:
    left_out = f"; {found - shown} features left out" if found > shown else ""
    said = f"band: 95 % for the noise in training; triangle: a missing value{left_out}"
    return f"{told['scores_are']}\n({said})"


def _reach(shown: Sequence[_Curve]) -> tuple[float, float]:
    """One scale for all: a curve that is flat looks flat."""
    low = min(float((each.scores - _WIDTH * each.errors).min()) for each in shown)
    high = max(float((each.scores + _WIDTH * each.errors).max()) for each in shown)
    room = 0.06 * (high - low) or 0.1
    return low - room, high + room


def _draw(place: SubplotSpec, curve: _Curve, reach: tuple[float, float]) -> tuple[Axes, list[Any]]:
    """The curve above, the share of rows below."""
    grid = place.subgridspec(2, 1, height_ratios=(5, 1), hspace=0.0)
    pair: Any = grid.subplots(sharex=True)
    above, below = pair
    above.set_title(curve.title, fontsize=9, color=INK, parse_math=False)
    above.axhline(0, color=QUIET, linewidth=0.8)
    above.set_ylim(*reach)
    is_category = isinstance(curve.feature.domain, Categories)
    drawn = _categories(above, below, curve) if is_category else _numbers(above, below, curve)
    below.invert_yaxis()  # hanging, so that they are not read as part of the curve
    below.set_yticks([])
    for axes in (above, below):
        axes.spines[["top", "right", "left", "bottom"]].set_visible(False)
        axes.tick_params(length=0, colors=INK, labelsize=7)
    above.tick_params(labelbottom=False)
    above.grid(axis="y", color=QUIET, alpha=0.15)
    return above, drawn


def _numbers(above: Axes, below: Axes, curve: _Curve) -> list[Any]:
    ends, drawn = curve.ends, []
    for output in range(curve.scores.shape[1]):
        colour = PALETTE[output % len(PALETTE)]
        scores, errors = curve.scores[:, output], _WIDTH * curve.errors[:, output]
        low, high = (np.append(each, each[-1]) for each in (scores - errors, scores + errors))
        above.fill_between(ends, low, high, step="post", color=colour, alpha=0.22, linewidth=0)
        line = above.step(ends, np.append(scores, scores[-1]), where="post", color=colour)
        drawn.append(line[0])
    below.bar(
        ends[:-1], curve.shares / np.diff(ends), np.diff(ends), align="edge", color=QUIET, alpha=0.5
    )
    middle = np.median(ends[1:-1]) if len(ends) > 2 else ends[-1]
    if abs(middle - ends[0]) < _CROWDED * (ends[-1] - ends[0]):
        width = max(float(np.median(np.diff(ends[:-1]))), 1e-9)
        above.set_xscale("asinh", linear_width=width)
    _mark_default(above, curve.feature.null_value)
    return drawn


def _categories(above: Axes, below: Axes, curve: _Curve) -> list[Any]:
    outputs, places, drawn = curve.scores.shape[1], np.arange(len(curve.bins)), []
    for output in range(outputs):
        width = 0.8 / outputs
        drawn.append(
            above.bar(
                places + (output - (outputs - 1) / 2) * width,
                curve.scores[:, output],
                width,
                yerr=_WIDTH * curve.errors[:, output],
                color=PALETTE[output % len(PALETTE)],
                alpha=0.75,
                error_kw={"ecolor": INK, "elinewidth": 1.0, "capsize": 2},
            )
        )
    below.bar(places, curve.shares, 0.8, color=QUIET, alpha=0.5)
    names = [_bin_name(each["values"]) for each in curve.bins]
    crowded = sum(map(len, names)) > 34
    below.set_xticks(
        places,
        names,
        rotation=40 if crowded else 0,
        ha="right" if crowded else "center",
        parse_math=False,
    )
    held = [n for n, each in enumerate(curve.bins) if curve.feature.default in each["values"]]
    for place in held:
        _mark_default(above, place)
    return drawn


def _bin_name(values: Sequence[Any]) -> str:
    """The levels that share a score."""
    first = str(values[0])
    name = first if len(first) <= _LONGEST_NAME else f"{first[: _LONGEST_NAME - 1]}…"
    return name if len(values) == 1 else f"{name} +{len(values) - 1}"


def _mark_default(axes: Axes, place: float) -> None:
    """Where missing values are read."""
    lowest = axes.get_ylim()[0]
    axes.plot([place], [lowest], marker="^", color=INK, markersize=5, clip_on=False, zorder=3)
