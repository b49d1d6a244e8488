"""What all pictures share: colours, and the guarantee written below each of them."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any, Final, cast

from voile.core.description import (
    Describable,
    Description,
    FeatureContribution,
    OutputDescription,
    Uncertainty,
)
from voile.core.errors import InvalidInput
from voile.core.explanation import NO_GUARANTEE, Explanation
from voile.core.optional import optional
from voile.views.plots.figures import empty_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Distinguishable with the common forms of colour blindness.
PALETTE: Final = ("#3b6fb6", "#d9772b", "#4a9d6f", "#8d5fa8", "#b8963e", "#6b7280")
RAISES: Final = "#c8553d"
LOWERS: Final = "#3b6fb6"
INK: Final = "#1f2933"
QUIET: Final = "#6b7280"
PALE: Final = 0.35
"""How strongly what cannot be told from zero is drawn."""


def new_figure(width: float, height: float) -> tuple[Figure, Axes]:
    """A figure with one pair of axes, which have a line at the bottom only."""
    figure = empty_figure(width, height)
    axes: Axes = figure.add_subplot()
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(length=0, colors=INK)
    return figure, axes


def core_explanation(given: Describable) -> Explanation:
    """The explanation behind what was charged, or behind what people see in Python."""
    found = getattr(given, "explanation", given)
    if not issubclass(type(found), Explanation):
        raise InvalidInput(f"expected an explanation, found {type(given).__name__}")
    return cast("Explanation", found)


def one_output(described: Description) -> OutputDescription:
    """The only one."""
    if len(described.outputs) > 1:
        names = ", ".join(each.name for each in described.outputs)
        raise InvalidInput(f"choose one output: {names} (output=...)")
    return described.outputs[0]


def feature_label(each: FeatureContribution) -> str:
    """For pictures without the values of a row: a value that was missing is still named."""
    return f"{each.feature} (missing)" if each.missing else each.feature


def whisker(each: FeatureContribution) -> list[list[float]] | None:
    """How far the interval reaches to both sides, as matplotlib takes it."""
    if each.low is None or each.high is None:
        return None
    return [[each.amount - each.low], [each.high - each.amount]]


def outputs_legend(axes: Axes, drawn: Sequence[Any], names: Sequence[str]) -> None:
    """Which colour is which output, where there are several."""
    if len(names) < 2:
        return
    # Handed over by hand: of labels found by itself, matplotlib hides those that begin with _.
    legend = axes.legend(
        drawn,
        names,
        frameon=False,
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=min(len(names), 4),
    )
    for text in legend.get_texts():
        text.set_parse_math(False)


def directions_legend(figure: Figure) -> None:
    """Which colour raises the output and which lowers it, above everything else."""
    patches = optional("matplotlib.patches", extra="explain")
    said = (("raises", RAISES), ("lowers", LOWERS))
    figure.legend(
        handles=[patches.Patch(color=colour, label=label) for label, colour in said],
        loc="outside upper right",
        ncols=2,
        frameon=False,
        fontsize=8,
        labelcolor=INK,
        handlelength=0.9,
        handleheight=0.9,
        columnspacing=1.2,
        borderpad=0,
    )


def axis_text(described: Description, said: str = "") -> str:
    """What lengths are, and what whiskers and pale mean where something is uncertain.

    Args:
        said: what lengths are; by default what is measured, and of which output.
    """
    if not said:
        one = len(described.outputs) == 1
        said = described.measure + (f" to {described.outputs[0].title}" if one else "")
    if described.uncertainty is Uncertainty.EXACT:
        return said
    return f"{said}\n(whiskers: {described.uncertainty}; pale: cannot be told from zero)"


def write_promise(figure: Figure, described: Description) -> None:
    """Alarms above, guarantees or their absence below: captions get lost on the way."""
    if described.alarms:
        alarm = "\n".join(fill(f"Do not use it as it is. {line}", 95) for line in described.alarms)
        figure.suptitle(alarm, fontsize=8, color=RAISES, x=0.02, ha="left", parse_math=False)
    promises = [str(guarantee) for guarantee in described.guarantees] or [NO_GUARANTEE]
    write_below(figure, [*promises, *map(str, described.notes)])


def write_below(figure: Figure, lines: Sequence[str]) -> None:
    """What must travel with a picture, in small print."""
    text = "\n".join(fill(line, 110) for line in lines)
    figure.supxlabel(text, fontsize=7, color=QUIET, x=0.02, ha="left", parse_math=False)
