"""What privacy costs: quality against epsilon."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from voile.core.errors import InvalidInput
from voile.plots.style import INK, PALETTE, QUIET, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class QualityPoint:
    """The quality reached at one epsilon; `low` and `high` bound it where it was repeated."""

    epsilon: float
    quality: float
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        if not 0 < self.epsilon < float("inf"):
            raise InvalidInput(f"epsilon must be finite and above 0, found {self.epsilon}")
        if (self.low is None) != (self.high is None):
            raise InvalidInput("give both bounds of a quality, or none")


def calibration(bins: Sequence[Mapping[str, float]]) -> Figure:
    """How often predictions came true, against how sure they were; on the line, as often as said.

    Args:
        bins: `predicted`, `observed` and number of `rows`, at least one.
    """
    if not bins:
        raise InvalidInput("nothing to draw: no predictions")
    figure, axes = new_figure(7.5, 3.6)
    axes.plot([0, 1], [0, 1], color=QUIET, linewidth=0.8, linestyle=":")
    most = max(each["rows"] for each in bins)
    axes.plot(
        [each["predicted"] for each in bins],
        [each["observed"] for each in bins],
        color=PALETTE[0],
        linewidth=1.0,
    )
    for each in bins:
        size = 3 + 7 * (each["rows"] / most) ** 0.5
        axes.plot(each["predicted"], each["observed"], "o", color=PALETTE[0], markersize=size)
    axes.set_xlabel("probability of the most likely class, as predicted", color=INK)
    axes.set_ylabel("share that came true", color=INK)
    axes.set_title("calibration (larger dots: more rows)", fontsize=10, color=INK, loc="left")
    axes.set_ylim(-0.03, 1.03)
    return figure


def privacy_quality(
    curves: Mapping[str, Sequence[QualityPoint]],
    *,
    delta: float,
    quality: str = "cosine to the exact explanation",
    without_privacy: float | None = None,
) -> Figure:
    """One curve for each way of releasing: quality over epsilon, on a logarithmic scale.

    Args:
        curves: by name, at least one point each.
        delta: the delta that all of them share; a figure shows both or neither.
        quality: what is measured.
        without_privacy: the quality without noise, as a line to compare with.
    """
    if not curves or not all(curves.values()):
        raise InvalidInput("a privacy-quality picture needs a curve with at least one point")
    figure, axes = new_figure(7.5, 4.4)
    for number, (name, points) in enumerate(curves.items()):
        colour = PALETTE[number % len(PALETTE)]
        ordered = sorted(points, key=lambda point: point.epsilon)
        epsilons = [point.epsilon for point in ordered]
        axes.plot(
            epsilons, [p.quality for p in ordered], "o-", color=colour, label=name, markersize=5
        )
        if all(point.low is not None for point in ordered):
            low = [float(p.low if p.low is not None else p.quality) for p in ordered]
            high = [float(p.high if p.high is not None else p.quality) for p in ordered]
            axes.fill_between(epsilons, low, high, color=colour, alpha=0.18, linewidth=0)
    if without_privacy is not None:
        axes.axhline(without_privacy, color=QUIET, linewidth=1.0, linestyle="--")
        axes.annotate(
            "without privacy",
            (0.99, without_privacy),
            xycoords=("axes fraction", "data"),
            xytext=(0, 4),
            textcoords="offset points",
            ha="right",
            fontsize=8,
            color=QUIET,
        )
    axes.set_xscale("log")
    ticks = sorted({point.epsilon for points in curves.values() for point in points})
    axes.set_xticks(ticks, [f"{epsilon:g}" for epsilon in ticks])
    axes.set_xticks([], minor=True)
    axes.set_xlabel(f"epsilon (delta = {delta:g})", color=INK)
    axes.set_ylabel(quality, color=INK)
    axes.spines["left"].set_visible(True)
    axes.grid(color=QUIET, alpha=0.15)
    axes.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=3)
    return figure
