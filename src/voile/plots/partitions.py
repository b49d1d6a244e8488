"""How rows are spread over clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from voile.core.errors import InvalidInput
from voile.plots.style import INK, PALETTE, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
