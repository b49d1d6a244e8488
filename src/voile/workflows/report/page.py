"""`voile report`: an artefact as one HTML page that needs nothing else.

Everything on the page is in the artefact: charged figures, public facts, and figures measured on
rows that are listed as unprotected. Styles and pictures are inside; the page asks no other host for
anything, and a content security policy sees to it.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from jinja2 import Environment, StrictUndefined

from voile import plots
from voile.audit_log import Report, record_lines, verify_export
from voile.audit_log.publishing import CHECKPOINT_FILE, RECORDS_FILE
from voile.core.atomic_file import replace_file
from voile.core.input_file import LARGEST_TEXT, read_file
from voile.workflows.artefact import REPORT, Artefact
from voile.workflows.checkpoints import read_policy
from voile.workflows.custody import POLICY
from voile.workflows.output_check import check_outputs
from voile.workflows.report.figures import (
    SHOWN_ROWS,
    curves,
    histories,
    importance,
    outcomes,
    quality,
    readings,
    rounded_up,
    trust_table,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PAGE: Final = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<title>{{ name }}: a federation and what it promises</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 48rem; margin: 2rem auto; padding: 0 1rem;
       color: #1c2430; background: #fff }
h1 { line-height: 1.2 } h2 { margin-top: 2.2rem }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; padding: .3rem .5rem; border-bottom: 1px solid #d8dde6;
         vertical-align: top }
th { font-weight: 600 } td.number { text-align: right; font-variant-numeric: tabular-nums }
.promise { background: #eef2fb; border-left: 4px solid #3949ab; padding: .8rem 1rem }
.promise b { font-size: 1.4rem } .note { color: #4a5568 }
img { width: 100%; height: auto } code { background: #f3f4f6; padding: .1rem .3rem }
pre { background: #f3f4f6; padding: .8rem; overflow-x: auto } .bad { color: #a8201a }
</style>
</head>
<body>
<h1>{{ name }}</h1>
<p>{{ clients | length }} clients, {{ "{:,}".format(total) }} rows that stayed where they are.
Trained with differential privacy: {{ stages | join(", ") }}. Every explanation made from it is
covered by the promise below, at no further cost.</p>

<h2>What is promised</h2>
{% for g in guarantees %}
<p class="promise"><b>ε = {{ up(g.epsilon) }}, δ = {{ up(g.delta) }}</b><br>
for {{ g.protected }}, against {{ g.against | join(", ") }}
{% if g.computational %}(whose computing power is bounded){% endif %}</p>
<table>
<tr><th>how</th><td>{{ g.mechanism }}</td></tr>
<tr><th>added up by</th><td>{{ g.composition }}</td></tr>
<tr><th>treated as public</th><td>{{ g.public_facts | join("; ") }}</td></tr>
<tr><th>must be true besides</th><td>{{ g.assumptions | join("; ") }}</td></tr>
</table>
{% else %}<p class="bad">No privacy guarantee.</p>{% endfor %}
<h3>The same noise, read in other ways</h3>
<table><tr><th>reading</th><th>ε</th><th>δ</th></tr>
{% for what, spent in readings %}<tr><td>{{ what }}</td>
<td class="number">{{ up(spent.epsilon) }}</td><td class="number">{{ up(spent.delta) }}</td></tr>
{% endfor %}</table>

{% if seen_by %}<h2>Who sees what</h2>
<table>{% for who, what in seen_by.items() %}<tr><th>{{ who }}</th><td>{{ what }}</td></tr>
{% endfor %}</table>{% endif %}
{% if secure %}<p class="note">Updates were added up in secret, against {{ secure.server }} with
{{ secure.colluders }} colluding: at least {{ secure.threshold }} of {{ secure.asked }} parties are
in every sum, and means are off by {{ "%.1e" | format(secure.largest_rounding_error) }} at most for
being rounded. {{ histories }}</p>{% endif %}

<h2>What is not covered</h2>
<ul>{% for line in not_covered %}<li>{{ line }}</li>{% endfor %}</ul>

<h2>How good it is</h2>
<p class="note">Exact figures, measured on {{ measured_on }}.</p>
<table>{% for what, value in quality %}
<tr><th>{{ what }}</th><td class="number">{{ "%.3f" | format(value) }}</td></tr>{% endfor %}</table>
{% if learning %}<img alt="figures by round" src="{{ learning }}">{% endif %}

<h2>What the model looks at</h2>
<p class="note">Mean absolute Shapley values over {{ explained }} public reference rows, exact for
the private model{% if of_box %} (absent features are taken from reference rows){% endif %}.</p>
<img alt="importance of features" src="{{ importance }}">

{% if trust %}<h2>Whom the federation trusts</h2>
<p class="note">Updates are weighted by trust: {{ trust.rule.accuracy }} of accuracy on public rows,
{{ trust.rule.alignment }} of agreement with the common importance of features,
{{ trust.rule.consistency }} of steadiness; weight is trust times (1 − {{ trust.rule.tau }} ·
divergence), never below 0 ({{ trust.rule.divergence }}).
{% if trust.verified %}The server, which sees single updates, has measured all of it, and weighs an
update besides by how well it agrees with one that it trained on public rows.{% else %}Parties have
reported both, and each computes all weights itself; a party that lies is not found out.{% endif %}
Trust, weights and rewards are covered by the promise above; each has a record in the server's log.
{% if not trust.verified %}Whatever is added up in secret, the server sees of each party its
accuracy and its divergence.{% endif %}</p>
<img alt="trust, divergence and rewards of each party over rounds"
 src="{{ trust_picture }}">
<table><tr><th>party</th><th>rounds</th><th>accuracy</th><th>divergence</th><th>trust</th>
<th>weight</th><th>rewards</th></tr>
{% for row in parties %}<tr><td>{{ row.name }}</td>
{% for value in row["values"] %}<td class="number">{{ value }}</td>{% endfor %}</tr>
{% endfor %}</table>
<p class="note">Of the last round that each counted in; rewards are those of all rounds.</p>
<h3>Who stands out</h3>
<p class="note">Named for people to look at; nothing is done to anybody because of it.</p>
<ul>{% for line in trust.outliers %}<li>unlike the others: {{ line }}</li>{% endfor %}
{% for line in trust.drifts %}<li>moved away: {{ line }}</li>{% endfor %}
{% if not trust.outliers and not trust.drifts %}<li>nobody</li>{% endif %}
{% for number in trust.equal_weights_in_rounds %}<li>round {{ number }}: trust left nobody, or one
party nearly all of the weight, so everybody counted alike</li>{% endfor %}</ul>
{% endif %}
<h2>Budget of each client</h2>
<img alt="spent by client" src="{{ budgets }}">

<h2>Rounds</h2>
<img alt="who took part in which round" src="{{ rounds }}">

<h2>How to verify</h2>
<p>Each party keeps its own ledger and its own log. The signed logs lie in this artefact; whoever
has the key in a policy from somewhere else can check that nothing was changed since.</p>
<table><tr><th>log</th><th>records</th><th>result when this page was written</th></tr>
{% for party, size, result in logs %}<tr><td>{{ party }}</td><td class="number">{{ size }}</td>
<td>{{ result }}</td></tr>{% endfor %}</table>
<pre>{% for folder in folders %}voile audit verify {{ folder }} --policy {{ folder }}/{{ policy }}
{% endfor %}</pre>
<p>Against an operator who rewrites a log and signs it anew, compare the checkpoint with a copy of
your own or with a witness.</p>

<h2>Use it</h2>
<pre>voile explain {{ folder }} rows.csv --output explanation.voile</pre>
<p class="note">Settings: {{ settings }}</p>
</body>
</html>
"""


def write_report(artefact: Artefact, path: Path | None = None) -> Path:
    """Write the page, beside the artefact's files if no path is given."""
    own = artefact.folder / REPORT
    target = own if path is None else path
    check_outputs([target], (file for file in artefact.folder.rglob("*") if file != own))
    return replace_file(target, report_html(artefact).encode())


def report_html(artefact: Artefact) -> str:
    """The page. Everything in it that came from outside is escaped."""
    clients: Mapping[str, int] = artefact.settings["clients"]
    spent = {name: each["epsilon"] for name, each in artefact.statement["spent_by_client"].items()}
    promised = artefact.settings["promised"]
    page = Environment(autoescape=True, undefined=StrictUndefined).from_string(_PAGE)
    return page.render(
        name=artefact.name,
        clients=clients,
        total=sum(clients.values()),
        stages=list(artefact.settings["training"]),
        guarantees=artefact.guarantees,
        readings=readings(artefact),
        not_covered=artefact.statement["not_covered"],
        seen_by=artefact.statement.get("seen_by", {}),
        secure=artefact.settings.get("secure_sum"),
        histories=histories(artefact),
        measured_on=artefact.figures["measured_on"],
        quality=quality(artefact),
        learning=_image(plots.learning(curves(artefact), measured_on="unprotected rows")),
        importance=_image(plots.bar(importance(artefact))),
        explained=min(SHOWN_ROWS, len(artefact.reference)),
        of_box=artefact.has_model,
        trust=artefact.figures.get("trust"),
        trust_picture=_trust_picture(artefact),
        parties=trust_table(artefact),
        budgets=_image(plots.budgets(spent, promised=promised["epsilon"], delta=promised["delta"])),
        rounds=_image(plots.rounds(outcomes(artefact))),
        logs=[(party, *_checked(artefact, party)) for party in artefact.settings["logs"]],
        folders=[f"{artefact.folder.name}/{place}" for place in artefact.settings["logs"].values()],
        policy=POLICY,
        folder=artefact.folder.name,
        settings=artefact.settings["training"],
        up=rounded_up,
    )


def check_log(artefact: Artefact, party: str) -> Report:
    """Check a party's exported log against its own policy: unchanged since it was signed."""
    folder = artefact.log_folder(party)
    records = record_lines(io.BytesIO(read_file(folder / RECORDS_FILE)))
    note = read_file(folder / CHECKPOINT_FILE, LARGEST_TEXT)
    return verify_export(records, note, read_policy(folder / POLICY))


def _checked(artefact: Artefact, party: str) -> tuple[int, str]:
    size = read_file(artefact.log_folder(party) / RECORDS_FILE).count(b"\n")
    failed = check_log(artefact, party).failed
    return size, "signed and complete" if failed is None else f"{failed.name}: {failed.detail}"


def _trust_picture(artefact: Artefact) -> str | None:
    found = artefact.figures.get("trust")
    if not found or not any(found["parties"].values()):
        return None
    odd = {name for name in found["parties"] for line in found["outliers"] + found["drifts"]
           if line.startswith(f"{name} in round ")}  # fmt: skip
    measure = str(found["rule"]["divergence"])
    return _image(plots.trust(found["parties"], measure=measure, odd=sorted(odd)))


def _image(figure: Figure) -> str:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
