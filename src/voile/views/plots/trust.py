"""Pictures of a trusted federation: what became of each party from round to round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from voile.core.errors import InvalidInput
from voile.core.optional import optional
from voile.views.plots.style import INK, PALETTE, QUIET, RAISES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAMED: Final = 6
"""Parties with a colour and a name of their own: those that were trusted least."""

Scores = Sequence[Mapping[str, float]]
"""One party: `round`, `trust`, `divergence` and `reward` for each round that it counted in."""


def trust(parties: Mapping[str, Scores], *, measure: str, odd: Sequence[str] = ()) -> Figure:
    """Trust, divergence and earned rewards of every party over rounds.

    The least trusted parties are named, and those that stand out are drawn in red; all others are
    thin grey lines, with the median of all in black.

    Args:
        parties: scores by name.
        measure: which divergence.
        odd: names to mark.
    """
    shown = {name: rows for name, rows in parties.items() if rows}
    if not shown:
        raise InvalidInput("a picture of trust needs at least one party with one round")
    module = optional("matplotlib.figure", extra="explain")
    figure: Figure = module.Figure(figsize=(7.5, 6.0), layout="constrained")
    named = sorted(shown, key=lambda name: shown[name][-1]["trust"])[:NAMED]
    (first, second), (third, fourth) = figure.subplots(2, 2)
    _lines(first, shown, named, odd, "trust")
    first.set_ylim(0, 1.02)
    first.set_title("trust", fontsize=10, color=INK)
    _lines(second, shown, named, odd, "divergence")
    second.set_ylim(bottom=0)
    second.set_title(f"divergence ({measure})", fontsize=10, color=INK)
    _lines(third, _relative(shown), named, odd, "reward")
    third.set_title("rewards so far, equal shares = 1", fontsize=10, color=INK)
    handles, labels = first.get_legend_handles_labels()
    others = "thin lines: all others" if len(shown) > NAMED else None
    fourth.legend(handles, labels, title=others, loc="center", frameon=False, fontsize=9)
    fourth.set_axis_off()
    return figure


def _relative(parties: Mapping[str, Scores]) -> dict[str, Scores]:
    """All that a party has earned, over what equal shares of the same rounds would have been."""
    pots: dict[float, list[float]] = {}
    for rows in parties.values():
        for row in rows:
            pots.setdefault(row["round"], []).append(row["reward"])
    equal = {number: float(np.mean(found)) or 1.0 for number, found in pots.items()}
    return {
        name: [
            {"round": row["round"], "reward": float(earned / due)}
            for row, earned, due in zip(
                rows,
                np.cumsum([row["reward"] for row in rows]),
                np.cumsum([equal[row["round"]] for row in rows]),
                strict=True,
            )
        ]
        for name, rows in parties.items()
    }


def _lines(
    axes: Axes, parties: Mapping[str, Scores], named: Sequence[str], odd: Sequence[str], what: str
) -> None:
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(length=0, colors=INK, labelsize=8)
    axes.grid(axis="y", color=QUIET, alpha=0.2)
    for name, rows in sorted(parties.items(), key=lambda item: item[0] in named):
        own = name in named
        colour = PALETTE[named.index(name) % len(PALETTE)] if own else QUIET
        axes.plot(
            [row["round"] for row in rows],
            [row[what] for row in rows],
            "o-" if own else "-",
            color=RAISES if name in odd else colour,
            alpha=1.0 if own or name in odd else 0.35,
            linewidth=1.6 if own else 0.8,
            markersize=3,
            label=_label(name) if own else None,
        )
    rounds = sorted({row["round"] for rows in parties.values() for row in rows})
    middle = [
        float(
            np.median([r[what] for rows in parties.values() for r in rows if r["round"] == number])
        )
        for number in rounds
    ]
    axes.plot(rounds, middle, "--", color=INK, linewidth=1.2, label="median")
    axes.locator_params(axis="x", integer=True)
    axes.set_xlabel("round", fontsize=9, color=INK)


def _label(name: str) -> str:
    """A name as it is: neither mathematics nor hidden by a leading underscore."""
    return f" {name}".replace("$", r"\$")
