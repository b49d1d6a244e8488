"""A budget report as one HTML page that needs nothing else: styles and curve are inside."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Final

from voile.core.guarantee import declared_maximum
from voile.core.guarantee_words import in_words, several_records
from voile.core.page_frame import fragment, framed
from voile.records.ledger import THRESHOLDS, BudgetReport, PlanUse, Remaining
from voile.records.ledger.history import Point

_WIDTH: Final = 640
_HEIGHT: Final = 220
_MARGIN: Final = 40
_ALIKE: Final = 0.02
"""Shares that lie nearer to each other puzzle nobody."""

_BODY: Final = """\
<style>
.LOW { color: var(--good) } .MEDIUM { color: var(--warn) } .HIGH { color: var(--bad) }
.risk { font-weight: 700 }
</style>
<h1>Privacy budget of {{ report.account }}</h1>
<p>{{ at(report.time) }}. Everything that is ever released from this budget, in one period:</p>
<p class="promise">{{ words }}<br><span class="formal">ε = {{ "%g" | format(report.epsilon) }},
δ = {{ "%g" | format(report.delta) }} for each {{ report.unit }} of
{{ report.dataset }}, {{ report.protected.relation.word }}</span></p>
{% for line in several %}<p class="note">{{ line }}</p>
{% endfor %}<p>Risk: <span class="risk {{ report.risk.value }}">{{ report.risk.value }}</span>,
{% if report.plan %}{{ report.plan.used }} of {{ report.plan.planned }} parts of the plan are used
{%- else %}{{ percent(report.consumed) }} of the budget is used{% endif %}.</p>
<figure>
<div class="wide"><svg class="picture" viewBox="0 0 {{ width }} {{ height }}" role="img"
 aria-label="Consumed share over time">
{% for threshold, y in levels %}
<line x1="{{ margin }}" y1="{{ y }}" x2="{{ width - margin }}" y2="{{ y }}" stroke="currentColor"
 opacity="0.4" stroke-dasharray="4 4"/>
<text x="{{ margin - 5 }}" y="{{ y + 4 }}" font-size="11" fill="currentColor"
 text-anchor="end">{{ threshold }} %</text>
{% endfor %}
<text x="{{ margin }}" y="{{ bottom + 18 }}" font-size="12" fill="currentColor">{{
at(report.curve[0].time) }}</text>
<text x="{{ width - margin }}" y="{{ bottom + 18 }}" font-size="12" fill="currentColor"
 text-anchor="end">{{ at(report.time) }}</text>
<polyline points="{{ curve }}" fill="none" stroke="var(--mark)" stroke-width="2"/>
</svg></div>
<figcaption class="note">Share of the budget that is used, in period
{{ report.period }}.</figcaption>
</figure>
<table>
{% for name, value in rows %}<tr><th>{{ name }}</th><td>{{ value }}</td></tr>
{% endfor %}</table>
{% if both %}<p class="note">{{ both }}</p>
{% endif %}{% if report.accounts_below %}<h2>Accounts below</h2>
<table>{% for name, share, risk in report.accounts_below %}
<tr><th>{{ name }}</th><td>{{ percent(share) }}</td><td class="{{ risk }}">{{ risk }}</td></tr>
{% endfor %}</table>{% endif %}
<h2>Advice</h2>
<ul>{% for line in report.advice %}<li>{{ line }}</li>{% endfor %}</ul>
<h2>Assumptions</h2>
<ul>{% for line in report.assumptions %}<li>{{ line }}</li>{% endfor %}</ul>
{% if report.findings is not none %}<h2>Reconstruction watch (for the custodian only)</h2>
{% if report.findings %}<ul>{% for each in report.findings %}
<li><b>{{ each.rule }}</b> ({{ each.callers | join(", ") }}): {{ each.detail }};
{{ each.charges | join(", ") }}</li>{% endfor %}</ul>
{% else %}<p>Nothing was noticed.</p>{% endif %}{% endif %}
"""


def declaring(report: BudgetReport, records_per_person: int) -> BudgetReport:
    """The same, where somebody declares how many records a person has at most."""
    declared = declared_maximum(report.protected, records_per_person)
    return replace(report, assumptions=(*report.assumptions, declared))


def budget_html(report: BudgetReport, records_per_person: int | None = None) -> str:
    """The page. Everything in it that came from outside is escaped.

    Args:
        records_per_person: of one person at most, where somebody has declared that; see
            `declaring`.
    """
    protected = report.protected
    body = fragment(
        _BODY,
        report=report,
        words=in_words(protected, report.epsilon, report.delta),
        several=several_records(protected, report.epsilon, report.delta, records_per_person),
        rows=summary(report),
        both=two_readings(report),
        curve=_polyline(report.curve, report.time),
        levels=[(each, _y(each / 100)) for each in (0, *THRESHOLDS, 100)],
        width=_WIDTH,
        height=_HEIGHT,
        margin=_MARGIN,
        bottom=_HEIGHT - _MARGIN,
        at=_at,
        percent=lambda share: f"{share:.1%}",
    )
    return framed(f"Privacy budget: {report.account}", body)


def summary(report: BudgetReport) -> list[tuple[str, str]]:
    """The lines of a report, for people."""
    if report.plan is not None:
        return _of_plan(report, report.plan)
    life, ahead = report.lifetime, report.forecast
    return [
        ("promised", f"ε = {report.epsilon:g}, δ = {report.delta:g}"),
        ("composition", report.composition),
        ("period", f"{report.period} ({life.periods} so far)"),
        ("charges in this period", f"{report.charges:,}"),
        ("used, by the account's composition", _epsilon(report.epsilon_spent, report.delta)),
        ("used, by basic composition", _epsilon(report.basic_epsilon_spent, report.delta)),
        ("left", _left(report.remaining)),
        ("lifetime, all renewals", _epsilon(life.epsilon, life.delta)),
        ("lifetime, by basic composition", _epsilon(life.basic_epsilon, life.delta)),
        ("lifetime, promised", f"ε = {life.promised_epsilon:g}, δ = {life.promised_delta:g}"),
        ("answers like the last that still fit", f"{ahead.more:,}"),
        _used_up(report),
    ]


def two_readings(report: BudgetReport) -> str:
    """Why a share of the budget and a share of the ε differ, where they do; else nothing."""
    spent, share = report.epsilon_spent, report.consumed
    if not spent or abs(share - spent / report.epsilon) < _ALIKE:
        return ""
    measure = report.composition.removeprefix("filter: ")
    grows = "half of the ε is about a quarter of it" if measure == "zcdp" else "ε grows unevenly"
    return (
        f"{share:.1%} of the budget and ε = {spent:.2g} of {report.epsilon:g} are the same, and "
        f"both are right: the budget is counted in the account's own measure ({measure}), in which "
        f"{grows}."
    )


def _of_plan(report: BudgetReport, plan: PlanUse) -> list[tuple[str, str]]:
    """Nothing is added up: what the whole plan amounts to was computed when it was opened."""
    life, left = report.lifetime, plan.planned - plan.used
    promised = f"ε = {report.epsilon:g}, δ = {report.delta:g}"
    again = ("lifetime, promised", f"ε = {life.promised_epsilon:g}, δ = {life.promised_delta:g}")
    return [
        ("promised", promised),
        ("composition", report.composition),
        ("period", f"{report.period} ({life.periods} so far)"),
        ("the whole plan amounts to", f"at most {promised}, however much of it is used"),
        ("parts of the plan used", f"{plan.used:,} of {plan.planned:,}"),
        ("used up", "all of it" if left == 0 else f"no: {left:,} to come, and nothing else fits"),
        *([again] if life.periods > 1 else []),
    ]


def _left(left: Remaining) -> str:
    own = f"{left.share:.1%}"
    if left.limited_by == left.account:
        return own
    return f"{own}, limited to {left.available:.1%} by {left.limited_by}"


def _used_up(report: BudgetReport) -> tuple[str, str]:
    if round(report.consumed, 3) >= 1:  # it is shown as 100.0 %
        return "used up", "all of it"
    ends = report.forecast.exhausted_at
    return "used up at the rate of the last day", "not in sight" if ends is None else _at(ends)


def _epsilon(value: float | None, delta: float) -> str:
    return "no such reading" if value is None else f"ε = {value:.4g} at δ = {delta:g}"


def _at(seconds: float) -> str:
    if not 0 <= seconds < 253402300800:  # beyond the year 9999
        return "beyond the calendar"
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))


def _polyline(points: tuple[Point, ...], now: float) -> str:
    """A staircase: a share stays until the next act."""
    first = points[0].time
    span = max(now - first, 1e-9)
    places: list[str] = []
    height = _y(points[0].share)
    for point in points:
        x = _MARGIN + (_WIDTH - 2 * _MARGIN) * min(1.0, (point.time - first) / span)
        places += [f"{x:.1f},{height:.1f}", f"{x:.1f},{_y(point.share):.1f}"]
        height = _y(point.share)
    return " ".join([*places, f"{_WIDTH - _MARGIN:.1f},{height:.1f}"])


def _y(share: float) -> float:
    return _HEIGHT - _MARGIN - (_HEIGHT - 2 * _MARGIN) * share
