"""Pages of the dashboard: templates, and the charts in them."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from voile.views.charts import Axis, Band, Chart, Line, thinned
from voile.views.html import render
from voile.views.text import date_in_words, in_words

if TYPE_CHECKING:
    from voile.app.dashboard import DashboardPage
    from voile.app.dashboard.budgets import AccountPage
    from voile.app.dashboard.overview import BurnDown, Overview

_SHOWN_ROWS: Final = 12
_SHARES: Final = tuple((n / 100, f"{n} %") for n in (0, 25, 50, 75, 100))


def page_html(page: DashboardPage) -> str:
    """A whole page."""
    prepare = _PREPARED.get(page.name)
    content = page.content if prepare is None else prepare(page.content)
    return render(f"dashboard/{page.name}.html", title=page.title, frame=page.frame, page=content)


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


_PREPARED: Final[dict[str, Callable[[Any], Any]]] = {"overview": _overview, "account": _account}
"""By the name of a page: what its template takes, where that is more than what was found."""
