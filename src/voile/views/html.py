"""Templates, with one layout and one stylesheet for all pages.

A page needs nothing else and asks no other host for anything; a content security policy sees to
that. Whatever a template is given is escaped.
"""

from __future__ import annotations

import io
import itertools
import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from voile.core.description import FeatureContribution, OutputDescription
from voile.core.guarantee import Guarantee
from voile.core.optional import optional
from voile.views import text
from voile.views.plots.style import INK, LOWERS, QUIET, RAISES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLOURS: Final = {
    INK: "var(--ink)",
    "#000000": "var(--ink)",
    QUIET: "var(--quiet)",
    LOWERS: "var(--lowers)",
    RAISES: "var(--raises)",
}
"""Of a picture, as the stylesheet has them: in the dark they are others."""
_REMARKS: Final = re.compile(r"<!--.*?-->\n?", re.DOTALL)
_NAMES: Final = re.compile(r'(\bid="|href="#|url\(#)')


def render(template: str, **values: Any) -> str:
    """A page or a part of one, which other templates take as it is."""
    return Markup(environment().get_template(template).render(**values))


@cache
def environment() -> Environment:
    """The templates of this package."""
    made = Environment(
        loader=PackageLoader("voile.views"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    sheet = (files("voile.views") / "static" / "voile.css").read_text(encoding="utf-8")
    made.globals["stylesheet"] = Markup(sheet)
    made.filters |= {
        "bars": place_bars,
        "date": text.date_in_words,
        "in_words": text.guarantee_in_words,
        "limits_in_words": text.limits_in_words,
        "percent": "{:.1%}".format,
        "rounded_up": text.rounded_up,
        "several_records": _several_records,
        "steps": place_steps,
        "thousands": "{:,}".format,
        "uncertainty_in_words": text.uncertainty_in_words,
        "verdict_in_words": text.verdict_in_words,
        "verdict_word": text.verdict_word,
    }
    return made


def _several_records(given: Guarantee) -> tuple[text.PersonWithRecords, ...]:
    return text.several_records(
        given.protected, given.epsilon, given.delta, given.records_per_person
    )


def place_bars(output: OutputDescription) -> dict[str, Any]:
    """Where the bars of one output lie, in percent of the width."""
    shown = output.strongest_first
    ends = [end for each in shown for end in (each.amount, each.low, each.high) if end is not None]
    lowest, highest = min(0.0, *ends), max(0.0, *ends)
    scale = 98 / ((highest - lowest) or 1.0)

    def at(value: float | None) -> float | None:
        return None if value is None else round(1 + (value - lowest) * scale, 3)

    def line(each: FeatureContribution) -> dict[str, Any]:
        kind = "raises" if each.amount > 0 else "lowers"
        return {
            "shown": each,
            "kind": kind if each.distinguishable else f"{kind} pale",
            "left": at(min(0.0, each.amount)),
            "width": round(abs(each.amount) * scale, 3),
            "low": at(each.low),
            "high": at(each.high),
        }

    return {
        "lines": [line(each) for each in shown],
        "zero": at(0.0),
        "unsettled": sum(not each.distinguishable for each in shown),
    }


def place_steps(output: OutputDescription) -> dict[str, Any]:
    """Where the bars of a waterfall lie, in percent of the width: each begins where the one before
    it ends, from the base value to the prediction; its ± lies around its end."""
    assert output.prediction is not None
    base, shown = output.prediction.base, output.strongest_first
    begins = [base, *itertools.accumulate((each.amount for each in shown), initial=base)][1:]
    reached = [
        start + (each.amount if end is None else end)
        for start, each in zip(begins, shown, strict=False)
        for end in (each.amount, each.low, each.high)
    ]
    lowest, highest = min(base, *reached), max(base, *reached)
    scale = 98 / ((highest - lowest) or 1.0)

    def at(value: float) -> float:
        return round(1 + (value - lowest) * scale, 3)

    def line(start: float, each: FeatureContribution) -> dict[str, Any]:
        kind = "raises" if each.amount > 0 else "lowers"
        return {
            "shown": each,
            "kind": kind if each.distinguishable else f"{kind} pale",
            "start": at(start),
            "left": at(min(start, start + each.amount)),
            "width": round(abs(each.amount) * scale, 3),
            "low": None if each.low is None else at(start + each.low),
            "high": None if each.high is None else at(start + each.high),
        }

    lines = [line(start, each) for start, each in zip(begins, shown, strict=False)]
    return {"lines": lines, "base": at(base), "end": at(begins[-1])}


def picture(figure: Figure, said: str) -> str:
    """A figure as part of a page: sharp at any size, in the colours of the page.

    Args:
        said: what it shows, for those who do not see it; one for each picture of a page.
    """
    # Names of parts are made from what they draw and not at random: a report can be made again.
    with optional("matplotlib", extra="explain").rc_context({"svg.hashsalt": "voile"}):
        buffer = io.StringIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(buffer, format="svg", transparent=True, metadata=nothing)
    drawn = _REMARKS.sub("", buffer.getvalue().partition("<svg")[2])
    for colour, name in _COLOURS.items():
        drawn = drawn.replace(colour, name)
    own = re.sub(r"\W+", "-", said)
    named = Markup(_NAMES.sub(rf"\g<1>{own}-", drawn))
    return render("picture.html", said=said, drawn=named)
