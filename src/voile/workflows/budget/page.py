"""A budget report as one HTML page that needs nothing else: styles and curve are inside."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Final

from voile.core.guarantee import declared_maximum
from voile.core.guarantee_words import in_words, several_records
from voile.core.page_frame import fragment, framed
from voile.ledger import THRESHOLDS, BudgetReport
from voile.ledger.history import Point

_WIDTH: Final = 640
_HEIGHT: Final = 220
_MARGIN: Final = 40

_BODY: Final = """\
<style>
.LOW { color: var(--good) } .MEDIUM { color: var(--warn) } .HIGH { color: var(--bad) }
.risk { font-weight: 700 }
</style>
<h1>Privacy budget of {{ report.account }}</h1>
<p>{{ at(report.time) }}. Everything that is ever released from this budget, in one period:</p>
<p class="promise">{{ words }}<br><span class="formal">ε = {{ "%g" | format(report.epsilon) }},
δ = {{ "%g" | format(report.delta) }} for each {{ report.unit }} of
{{ report.dataset }}, {{ report.relation }}</span></p>
{% for line in several %}<p class="note">{{ line }}</p>
{% endfor %}<p>Risk: <span class="risk {{ report.risk.value }}">{{ report.risk.value }}</span>,
{{ percent(report.consumed) }} of the budget is used.</p>
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
{% if report.accounts_below %}<h2>Accounts below</h2>
<table>{% for name, share, risk in report.accounts_below %}
<tr><th>{{ name }}</th><td>{{ percent(share) }}</td><td class="{{ risk }}">{{ risk }}</td></tr>
{% endfor %}</table>{% endif %}
<h2>Advice</h2>
<ul>{% for line in report.advice %}<li>{{ line }}</li>{% endfor %}</ul>
<h2>What must be true besides</h2>
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
    life, left, ahead = report.lifetime, report.remaining, report.forecast
    return [
        ("promised", f"ε = {report.epsilon:g}, δ = {report.delta:g}"),
        ("composition", report.composition),
        ("period", f"{report.period} ({life.periods} so far)"),
        ("charges in this period", f"{report.charges:,}"),
        ("used, by the account's composition", _epsilon(report.epsilon_spent, report.delta)),
        ("used, by basic composition", _epsilon(report.basic_epsilon_spent, report.delta)),
        ("left", f"{left.share:.1%}, limited to {left.available:.1%} by {left.limited_by}"),
        ("lifetime, all renewals", _epsilon(life.epsilon, life.delta)),
        ("lifetime, by basic composition", _epsilon(life.basic_epsilon, life.delta)),
        ("lifetime, promised", f"ε = {life.promised_epsilon:g}, δ = {life.promised_delta:g}"),
        ("answers like the last that still fit", f"{ahead.more:,}"),
        (
            "used up at the rate of the last day",
            "not in sight" if ahead.exhausted_at is None else _at(ahead.exhausted_at),
        ),
    ]


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
