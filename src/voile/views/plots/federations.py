"""Pictures of a federation: who took part when, what it cost, and how good it got."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from voile.core.errors import InvalidInput
from voile.views.plots.style import INK, LOWERS, PALETTE, QUIET, RAISES, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def rounds(stages: Mapping[str, Sequence[Mapping[str, bool]]]) -> Figure:
    """Who contributed to which round: a dot for a contribution, a cross for a client that was asked
    and fell out, nothing for one that was not asked.

    Args:
        stages: for each stage its rounds; for each round the clients that were asked, by name, and
            whether their answer counted.
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
