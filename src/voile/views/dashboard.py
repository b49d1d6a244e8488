"""Pages of the dashboard: templates, and the charts in them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from voile.views.charts import Axis, Band, Chart, Line, thinned
from voile.views.html import render
from voile.views.text import date_in_words, in_words, judged

if TYPE_CHECKING:
    from voile.app.dashboard import DashboardPage
    from voile.app.dashboard.budgets import AccountPage
    from voile.app.dashboard.federations import FederationPage, FederationView
    from voile.app.dashboard.models import Dependence, ModelPage
    from voile.app.dashboard.overview import BurnDown, Overview

_SHOWN_ROWS: Final = 12
_SHARES: Final = tuple((n / 100, f"{n} %") for n in (0, 25, 50, 75, 100))


def page_html(page: DashboardPage) -> str:
    """A whole page."""
    prepare = _PREPARED.get(page.name)
    content = page.content if prepare is None else prepare(page.content)
    return render(f"dashboard/{page.name}.html", title=page.title, frame=page.frame, page=content)


def part_html(name: str, **values: Any) -> str:
    """A part of a page, for scripts that put it in its place."""
    prepare = _PREPARED.get(name)
    if prepare is not None:
        values["page"] = prepare(values["page"])
    return render(f"dashboard/{name}.html", **values)


def _overview(found: Overview) -> Any:
    burnt = found.burn_down
    return SimpleNamespace(overview=found, burn_down=None if burnt is None else burn_down(burnt))


def _account(found: AccountPage) -> Any:
    account = found.line.share.account
    words = in_words(account.protected, account.epsilon, account.delta)
    return SimpleNamespace(found=found, burn_down=burn_down(found.burn_down), words=words)


def burn_down(found: BurnDown) -> Chart:
    """What is left of a budget over time, and how it may go on."""
    use, fan = found.use, found.fan
    known = [(point.time, 1 - point.share) for point in use.points]
    ahead = () if fan is None else fan.points
    first, last = known[0][0], max(known[-1][0], ahead[-1].time if ahead else 0.0)
    last = max(last, first + 1)
    rows = [(date_in_words(moment), f"{left:.1%}", "") for moment, left in thinned(known)]
    rows = rows[-_SHOWN_ROWS:]
    rows += [
        (date_in_words(each.time), f"{each.mean:.1%}", f"{each.low:.1%} to {each.high:.1%}")
        for each in ahead[4::4]
    ]
    moments = [(first, _day(first)), (last, _day(last))]
    return Chart(
        title=f"What is left of {found.line.account.name}",
        description=_said(found),
        across=Axis(first, last, tuple(moments)),
        up=Axis(0.0, 1.0, _SHARES),
        headings=("when", "left", "forecast, 95 of 100 cases"),
        rows=tuple(rows),
        lines=(
            Line(thinned(known), "line" if use.exact else "unknown"),
            *([Line(tuple((e.time, e.mean) for e in ahead), "guess")] if ahead else []),
        ),
        bands=(Band(tuple((e.time, e.low, e.high) for e in ahead)),) if ahead else (),
        dots=(known[-1],),
    )


def _said(found: BurnDown) -> str:
    use, fan = found.use, found.fan
    left = f"{1 - use.points[-1].share:.1%} is left."
    if not use.exact:
        return f"{left} Only the thresholds it reached are known: charges do not simply add up."
    past = "all charges of this period" if use.whole else f"the last {use.charges:,} charges"
    if fan is None:
        return f"{left} Drawn: {past}."
    ends = "not in sight" if fan.ends is None else date_in_words(fan.ends)
    daily = f" ({fan.daily:.1%} a day)" if fan.daily <= 1 else ""
    return (
        f"{left} Drawn: {past}; dashed, how it goes on at that rate{daily}, and "
        f"around it where it lies in 95 of 100 cases. Used up: {ends}."
    )


def _day(seconds: float) -> str:
    return date_in_words(seconds)[:10]


def _model(found: ModelPage) -> Any:
    measured = judged(found.quality) if found.quality is not None else []
    quality = [
        {**each, "what": f"{name} ({words})"}
        for words, part in measured
        for name, each in part["figures"].items()
    ]
    bins = found.figures.get("quality", {}).get("black box", {}).get("calibration") or ()
    return SimpleNamespace(
        found=found,
        quality=quality,
        calibration=calibration(bins) if bins else None,
        dependence=None if found.dependence is None else dependence(found.dependence),
    )


def calibration(bins: Sequence[Mapping[str, float]]) -> Chart:
    """How often predictions came true, with 95 % intervals of so few rows (Wilson)."""
    points = []
    for each in bins:
        low, high = wilson(each["observed"], each["rows"])
        points.append((each["predicted"], each["observed"], low, high, each["rows"]))
    points.sort()
    ticks = tuple((n / 4, f"{n / 4:g}") for n in range(5))
    return Chart(
        title="How often predictions come true",
        description="On the diagonal, predictions come true as often as they say. The band is a "
        "95 % interval for so few rows.",
        across=Axis(0.0, 1.0, ticks),
        up=Axis(0.0, 1.0, _SHARES),
        headings=("predicted", "came true", "95 % interval", "rows"),
        rows=tuple(
            (f"{a:.2f}", f"{b:.2f}", f"{low:.2f} to {high:.2f}", f"{n:g}")
            for a, b, low, high, n in points
        ),
        lines=(Line(((0.0, 0.0), (1.0, 1.0)), "unknown"), Line(tuple(p[:2] for p in points))),
        bands=(Band(tuple((a, low, high) for a, _, low, high, _ in points)),),
        dots=tuple(p[:2] for p in points),
    )


def wilson(share: float, count: float) -> tuple[float, float]:
    """The 95 % interval of a share that was counted among so many, after Wilson.

    >>> [round(each, 3) for each in wilson(0.5, 100)]
    [0.404, 0.596]
    """
    z, count = 1.959964, max(count, 1.0)
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    reach = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count**2))
    reach /= 1 + z * z / count
    return max(0.0, middle - reach), min(1.0, middle + reach)


def dependence(found: Dependence) -> Chart:
    """What the model says as one feature changes."""
    values = [value for value, _ in found.points]
    places = values if found.is_number else list(range(len(values)))
    heights = [height for _, height in found.points]
    low, high = min(heights), max(heights)
    margin = 0.1 * (high - low) or max(0.05 * abs(high), 0.05)
    up = Axis(
        low - margin, high + margin, tuple((h, f"{h:.3g}") for h in dict.fromkeys((low, high)))
    )
    room = 0.0 if found.is_number and len(places) > 1 else 0.5
    ticks = _ticks(places, values, is_number=found.is_number)
    points = tuple((float(a), b) for a, b in zip(places, heights, strict=True))
    return Chart(
        title=f"{found.output}, as {found.feature} changes",
        description=f"Mean prediction over {found.over}, with {found.feature} set to each value.",
        across=Axis(float(places[0]) - room, float(places[-1]) + room, ticks),
        up=up,
        headings=(found.feature, found.output),
        rows=tuple((_cell(value), f"{height:.4g}") for value, height in found.points),
        lines=(Line(points),) if found.is_number else (),
        dots=() if found.is_number else points,
    )


def _ticks(
    places: Sequence[float], values: Sequence[Any], *, is_number: bool
) -> tuple[tuple[float, str], ...]:
    if is_number:
        return tuple(
            (float(v), f"{v:g}") for v in (values[0], values[len(values) // 2], values[-1])
        )
    step = -(-len(values) // 8)
    shown = list(zip(places, values, strict=True))[::step]
    return tuple((float(a), str(v)[:12]) for a, v in shown)


def _cell(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _federation(found: FederationPage) -> Any:
    views = [SimpleNamespace(view=view, trust=trust(view)) for view in found.federations]
    return SimpleNamespace(found=found, views=views)


def trust(view: FederationView) -> Chart | None:
    """The trust of each party over rounds; None where it was not measured."""
    known = [party for party in view.parties if len(party.trust) > 1]
    if not known:
        return None
    rounds = [number for party in known for number, _ in party.trust]
    first, last = min(rounds), max(rounds)
    return Chart(
        title=f"Trust in the parties of {view.name}",
        description="A line for each party; its latest figures are in the table above.",
        across=Axis(first, max(last, first + 1), ((first, f"round {first}"), (last, str(last)))),
        up=Axis(0.0, 1.0, _SHARES),
        headings=("party", *(f"round {n}" for n in (first, last))),
        rows=tuple((p.name, f"{p.trust[0][1]:.3f}", f"{p.trust[-1][1]:.3f}") for p in known),
        lines=tuple(Line(thinned(p.trust)) for p in known),
    )


_PREPARED: Final[dict[str, Callable[[Any], Any]]] = {
    "overview": _overview,
    "account": _account,
    "model": _model,
    "federation": _federation,
    "rounds": _federation,
}
"""By the name of a page: what its template takes, where that is more than what was found."""
