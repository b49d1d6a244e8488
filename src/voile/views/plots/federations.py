"""Pictures of a federation: who took part, what it cost, how good it got, whom it trusts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from voile.core.errors import InvalidInput
from voile.views.plots.figures import empty_figure
from voile.views.plots.style import INK, LOWERS, PALETTE, QUIET, RAISES, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAMED: Final = 6
"""Parties with a colour and a name of their own: those that were trusted least."""

Scores = Sequence[Mapping[str, float]]
"""One party: `round`, `trust`, `divergence` and `reward` for each round that it counted in."""


def rounds(stages: Mapping[str, Sequence[Mapping[str, bool]]]) -> Figure:
    """Who contributed to which round: a dot for a contribution, a cross for a client that was asked
    and fell out, nothing for one that was not asked.

    Args:
        stages: for each stage its rounds; for each round the clients that were asked, by name, and
            whether their answer counted.

    >>> figure = rounds({"training": [{"north": True, "south": False}, {"north": True}]})
    >>> [tick.get_text() for tick in figure.axes[0].get_yticklabels()]
    ['north', 'south']
    """
    names = sorted({name for stage in stages.values() for asked in stage for name in asked})
    if not names:
        raise InvalidInput("a picture of rounds needs at least one client that was asked")
    total = sum(map(len, stages.values()))
    figure, axes = new_figure(
        max(5.0, min(14.0, 2.5 + 0.3 * total)), max(1.8, min(12.0, 1.0 + 0.24 * len(names)))
    )
    first = 0
    for number, (stage, asked_in) in enumerate(stages.items()):
        colour = PALETTE[number % len(PALETTE)]
        pairs = [
            (first + place, names.index(name), counted)
            for place, asked in enumerate(asked_in)
            for name, counted in asked.items()
        ]
        for marker, wanted, tint in (("o", True, colour), ("x", False, RAISES)):
            chosen = [(x, y) for x, y, counted in pairs if counted is wanted]
            if chosen:
                across, down = zip(*chosen, strict=True)
                axes.scatter(across, down, marker=marker, color=tint, s=26)
        axes.text(first - 0.4, -1.1, stage, color=colour, fontsize=9, va="bottom", parse_math=False)
        first += len(asked_in)
        if first < total:
            axes.axvline(first - 0.5, color=QUIET, linewidth=0.6)
    axes.set_yticks(range(len(names)), names, fontsize=8, parse_math=False)
    axes.set_ylim(len(names) - 0.5, -1.2)
    axes.set_xlim(-0.7, total - 0.3)
    axes.set_xticks([])
    axes.set_xlabel("rounds, from left to right (cross: asked, but did not count)", color=INK)
    return figure


def budgets(spent: Mapping[str, float], *, promised: float, delta: float) -> Figure:
    """The epsilon each client has spent at a common delta, beside what is promised.

    Args:
        spent: epsilon by client.
        promised: the epsilon that nobody exceeds.
        delta: of all of them; a figure shows both or neither.

    >>> budgets({"north": 0.8, "south": 1.0}, promised=1.0, delta=1e-6).axes[0].get_xlabel()
    'ε at δ = 1e-06, for each row of the client'
    """
    if not spent:
        raise InvalidInput("a picture of budgets needs at least one client")
    names = list(spent)
    figure, axes = new_figure(7.5, max(1.6, 1.1 + 0.26 * len(names)))
    axes.barh(range(len(names)), list(spent.values()), height=0.66, color=LOWERS)
    for place, value in enumerate(spent.values()):
        axes.text(value, place, f" {value:.3g}", va="center", fontsize=8, color=INK)
    axes.axvline(promised, color=RAISES, linewidth=1.4)
    axes.text(
        promised, -0.9, f"promised {promised:g} ", ha="right", fontsize=8, color=RAISES, va="bottom"
    )
    axes.set_yticks(range(len(names)), names, fontsize=8, parse_math=False)
    axes.set_ylim(len(names) - 0.4, -1.0)
    axes.set_xlim(0, 1.08 * max(promised, *spent.values()))
    axes.set_xlabel(f"ε at δ = {delta:g}, for each row of the client", color=INK)
    return figure


def learning(figures: Mapping[str, Sequence[float]], *, measured_on: str) -> Figure:
    """How figures between 0 and 1 changed from round to round; the last one stands by its name.

    Args:
        figures: by name, one value after each round.
        measured_on: which rows they were measured on; such figures are exact.

    >>> learning({"accuracy": [0.6, 0.7, 0.75]}, measured_on="public rows").axes[0].get_xlabel()
    'round (measured on public rows)'
    """
    if not figures or not all(figures.values()):
        raise InvalidInput("a learning curve needs at least one figure with one round")
    figure, axes = new_figure(7.5, 3.2)
    for number, (name, values) in enumerate(figures.items()):
        colour = PALETTE[number % len(PALETTE)]
        said = f"{name}: {values[-1]:.3f}"
        axes.plot(range(1, len(values) + 1), values, "o-", color=colour, label=said, markersize=4)
    axes.grid(axis="y", color=QUIET, alpha=0.2)
    axes.margins(x=0.04)
    axes.locator_params(axis="x", integer=True)
    axes.set_xlabel(f"round (measured on {measured_on})", color=INK, parse_math=False)
    axes.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=min(len(figures), 3))
    return figure


def calibration(bins: Sequence[Mapping[str, float]]) -> Figure:
    """How often predictions came true, against how sure they were; on the line, as often as said.

    Args:
        bins: `predicted`, `observed` and number of `rows`, at least one.

    >>> bins = [{"predicted": 0.6, "observed": 0.5, "rows": 40}]
    >>> calibration(bins).axes[0].get_ylabel()
    'share that came true'
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


def trust(parties: Mapping[str, Scores], *, measure: str, odd: Sequence[str] = ()) -> Figure:
    """Trust, divergence and earned rewards of every party over rounds.

    The least trusted parties are named, and those that stand out are drawn in red; all others are
    thin grey lines, with the median of all in black.

    Args:
        parties: scores by name.
        measure: which divergence.
        odd: names to mark.

    >>> north = [{"round": 1, "trust": 0.9, "divergence": 0.1, "reward": 1.0}]
    >>> trust({"north": north}, measure="Jensen-Shannon").axes[0].get_title()
    'trust'
    """
    shown = {name: rows for name, rows in parties.items() if rows}
    if not shown:
        raise InvalidInput("a picture of trust needs at least one party with one round")
    figure = empty_figure(7.5, 6.0)
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
