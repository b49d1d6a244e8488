"""Do two sets of explanations agree?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from voile.core.description import Describable
from voile.core.errors import InvalidInput
from voile.core.explanation import NO_GUARANTEE, Explanation
from voile.views.plots.figures import empty_figure
from voile.views.plots.style import INK, PALETTE, QUIET, core_explanation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

POINTS = 4_000


def agreement(
    first: Describable,
    second: Describable,
    *,
    names: tuple[str, str] = ("first", "second"),
    most: int = 12,
) -> Figure:
    """Two explanations of the same rows: every attribution against its twin, and by feature.

    Left: each point is one attribution; on the line both agree. Right: the correlation of the two
    for each feature, over rows and outputs, from the features that matter most downwards.

    Args:
        first, second: explanations of the same rows, features and outputs.
        names: what to call them.
        most: how many features to draw on the right.

    >>> from voile import Explanation
    >>> why = Explanation(values=[[0.2, -0.1], [0.4, 0.3]], base_values=0.3,
    ...                   feature_names=("age", "bmi"), data=[[71, 24], [80, 31]])
    >>> agreement(why, why).axes[0].get_title()
    'cosine 1.000, root mean square gap 0'
    """
    one, two = core_explanation(first), core_explanation(second)
    if (one.shape, one.feature_names, one.output_names) != (
        two.shape,
        two.feature_names,
        two.output_names,
    ):
        raise InvalidInput(
            "agreement is between explanations of the same rows, features and outputs, "
            f"found {one.shape} and {two.shape}"
        )
    figure = empty_figure(9.5, 4.6)
    left, right = figure.subplots(1, 2)
    _scatter(left, one.values.ravel(), two.values.ravel(), names)
    _by_feature(right, one, two, most)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(length=0, colors=INK)
    promises = [f"{name}: {_promise(e)}" for name, e in zip(names, (one, two), strict=True)]
    figure.supxlabel("\n".join(promises), fontsize=7, color=QUIET, x=0.02, ha="left")
    return figure


def _promise(explanation: Explanation) -> str:
    return "; ".join(str(guarantee) for guarantee in explanation.guarantees) or NO_GUARANTEE


def _scatter(
    axes: Axes, one: NDArray[np.float64], two: NDArray[np.float64], names: tuple[str, str]
) -> None:
    shown = np.unique(np.linspace(0, len(one) - 1, min(POINTS, len(one))).astype(int))
    reach = max(float(np.abs(one).max()), float(np.abs(two).max()), 1e-12) * 1.05
    axes.plot([-reach, reach], [-reach, reach], color=QUIET, linewidth=0.8, zorder=1)
    axes.scatter(one[shown], two[shown], s=9, alpha=0.45, color=PALETTE[0], linewidths=0, zorder=2)
    axes.set_xlim(-reach, reach)
    axes.set_ylim(-reach, reach)
    axes.set_aspect("equal")
    axes.set_xlabel(f"attribution, {names[0]}", color=INK)
    axes.set_ylabel(f"attribution, {names[1]}", color=INK)
    norm = float(np.linalg.norm(one) * np.linalg.norm(two))
    cosine = float(one @ two) / norm if norm else float("nan")
    gap = float(np.sqrt(np.mean((one - two) ** 2)))
    axes.set_title(f"cosine {cosine:.3f}, root mean square gap {gap:.2g}", fontsize=9, color=INK)


def _by_feature(axes: Axes, first: Explanation, second: Explanation, most: int) -> None:
    strength = np.abs(first.values).mean(axis=(0, 2))
    order = np.argsort(-strength, kind="stable")[: max(most, 1)]
    found = [_correlation(first.values[:, f].ravel(), second.values[:, f].ravel()) for f in order]
    axes.barh(range(len(order)), np.nan_to_num(found), height=0.7, color=PALETTE[2])
    for place, value in enumerate(found):
        text = "one value only" if np.isnan(value) else f"{value:.2f}"
        axes.annotate(
            text,
            (max(np.nan_to_num(value), 0.0), place),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
            color=INK,
        )
    axes.set_yticks(range(len(order)), [first.feature_names[i] for i in order])
    axes.set_ylim(len(order) - 0.4, -0.6)
    axes.set_xlim(min(0.0, float(np.nan_to_num(found).min())) * 1.1, 1.15)
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set_xlabel("correlation by feature", color=INK)


def _correlation(one: NDArray[np.float64], two: NDArray[np.float64]) -> float:
    """NaN where one of them does not vary: there is nothing to correlate."""
    if len(one) < 2 or not one.std() or not two.std():
        return float("nan")
    return float(np.corrcoef(one, two)[0, 1])
