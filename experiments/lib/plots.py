"""Pictures that only experiments draw: quality against epsilon, and rows spread over clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from voile.core.errors import InvalidInput
from voile.views.plots.style import INK, PALETTE, QUIET, new_figure

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


def partition(counts: Mapping[str, Mapping[str, int]], *, title: str = "") -> Figure:
    """Rows of each client, split by label.

    The figure shows exact counts: it describes data and has no privacy guarantee, which is written
    into it.

    Args:
        counts: for each client the number of rows of each label, as `Partition.counts` gives it.
        title: what to write above.
    """
    if not counts or not any(counts.values()):
        raise InvalidInput("a picture of a partition needs at least one client with a label")
    labels = sorted({label for client in counts.values() for label in client})
    clients = list(counts)
    figure, axes = new_figure(max(6.0, min(14.0, 2.0 + 0.28 * len(clients))), 4.2)
    below = np.zeros(len(clients))
    for number, label in enumerate(labels):
        heights = np.array([counts[client].get(label, 0) for client in clients], dtype=float)
        axes.bar(
            range(len(clients)),
            heights,
            bottom=below,
            width=0.82,
            color=PALETTE[number % len(PALETTE)],
            hatch="" if number < len(PALETTE) else "//",
            label=label,
        )
        below += heights
    few = len(clients) <= 16
    axes.set_xticks(
        range(len(clients)) if few else range(0, len(clients), 5),
        clients if few else clients[::5],
        rotation=45,
        ha="right",
        rotation_mode="anchor",
        parse_math=False,
    )
    axes.set_ylabel("rows", color=INK)
    axes.set_xlabel("" if few else "client (every fifth is named)", color=INK)
    axes.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=min(len(labels), 6))
    if title:
        axes.set_title(title, loc="right", fontsize=9, color=INK)
    figure.supxlabel("no privacy guarantee: exact counts", fontsize=7, color=INK, x=0.02, ha="left")
    return figure
