"""`voile report`: an artefact as one HTML page that needs nothing else.

Everything on the page is in the artefact: charged figures, public facts, and figures measured on
rows that are listed as unprotected. Styles and pictures are inside; the page asks no other host for
anything, and a content security policy sees to it.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from voile import plots
from voile.app.alarms import alarms
from voile.app.artefact import REPORT, Artefact
from voile.app.assessment_file import ASSESSMENT, find_assessment, is_on_record
from voile.app.explain.assessed import tried_events
from voile.app.output_check import check_outputs, files_of
from voile.app.report.figures import (
    SHOWN_ROWS,
    compared,
    curves,
    histories,
    importance,
    outcomes,
    quality,
    readings,
    rounded_up,
    why_not_surrogate,
)
from voile.app.report.parts import picture
from voile.app.report.trust import trust_section
from voile.app.workspace.file import books_beside
from voile.core.atomic_file import replace_file
from voile.core.errors import VerificationFailed
from voile.core.explanation_page import STUDIED, alarms_html
from voile.core.guarantee_words import guarantee_in_words, several_records
from voile.core.input_file import LARGEST_TEXT, read_file
from voile.core.page_frame import fragment, framed
from voile.records.audit_log import Report, record_lines, verify_export
from voile.records.audit_log.publishing import CHECKPOINT_FILE, RECORDS_FILE
from voile.records.checkpoints import read_policy
from voile.records.vault import POLICY, open_vault_at

_BODY: Final = """\
<h1>{{ name }}</h1>
{{ alarms }}
<p>{{ clients | length }} clients, {{ "{:,}".format(total) }} rows that stayed where they are.
Trained with differential privacy: {{ stages | join(", ") }}. Every explanation made from it is
covered by the promise below, at no further cost.</p>

<h2>What is promised</h2>
{% for g in guarantees %}
<p class="promise">{{ words(g) }}<br>
<span class="formal">ε = {{ up(g.epsilon) }}, δ = {{ up(g.delta) }} for {{ g.protected }}, against
{{ g.against | join(", ") }}{% if g.computational %} (whose computing power is bounded){% endif %}
</span></p>
{% for line in several(g) %}<p class="note">{{ line }}</p>
{% endfor %}<table>
<tr><th>how</th><td>{{ g.mechanism }}</td></tr>
<tr><th>added up by</th><td>{{ g.composition }}</td></tr>
<tr><th>treated as public</th><td>{{ g.public_facts | join("; ") }}</td></tr>
<tr><th>must be true besides</th><td>{{ g.assumptions | join("; ") }}</td></tr>
</table>
{% else %}<p class="bad">No privacy guarantee.</p>{% endfor %}
<h3>The same noise, read in other ways</h3>
<table><tr><th>reading</th><th class="number">ε</th><th class="number">δ</th></tr>
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
<p class="note">Exact figures, measured on {{ measured_on }}. The interval is 95 %, by bootstrap
over these rows; beside it stands the figure of somebody who ignores all features.
{% if calibration_rows %}Before that the model was calibrated on {{ calibration_rows }} other
unprotected rows: its log-odds were multiplied by {{ "%.2f" | format(slope) }}, and shifted. That
costs no privacy.{% else %}The model was not calibrated.{% endif %}
{% if linear %}The linear model was fitted without noise on those other rows alone.{% endif %}</p>
{% if compared %}<div class="wide"><table>
<tr><th>figure</th><th></th><th class="number">95 % interval</th><th>compared with</th>{%
if linear %}<th class="number">linear model</th>{% endif %}</tr>
{% for line in compared %}<tr><td>{{ line.what }}</td>
<td class="number">{{ "%.3f" | format(line.figure) }}</td>
<td class="number">{{ "%.3f" | format(line.low) }} to {{ "%.3f" | format(line.high) }}</td>
<td>{{ "%.3f" | format(line.baseline) }}: {{ line.meaning }}</td>{% if linear %}
<td class="number">{% if line.linear_model is not none %}{{ "%.3f" | format(line.linear_model)
}}{% endif %}</td>{% endif %}</tr>
{% endfor %}</table></div>{% endif %}
{{ calibration }}
<h3>How stable single explanations are</h3>
{% if stability %}<p>An estimate: had other noise been drawn, an explanation would have had a cosine
of <b>{{ "%.2f" | format(stability.cosine) }}</b> to this one on average
({{ "%.2f" | format(stability.lowest_cosine) }} for the row that moves most).
A contribution would typically be off by {{ "%.2g" | format(smallest) }} to
{{ "%.2g" | format(largest) }}, depending on the feature; twice that is the ± on one person's page.
{{ studied }}</p>
<p class="note">By parametric bootstrap, which costs no privacy: the model was trained
{{ stability.runs }} more times with the same plan and the same noise, on rows that are
{{ stability.rows }} and that the private model has labelled. It is as good as these rows are like
the real ones.</p>{% else %}<p class="note">Not estimated for this run.</p>{% endif %}
<h3>Stage by stage</h3>
{% if calibration_rows %}<p class="note">After the last round, before calibration.</p>{% endif %}
<table>{% for what, value in quality %}
<tr><th>{{ what }}</th><td class="number">{{ "%.3f" | format(value) }}</td></tr>{% endfor %}</table>
{{ learning }}

<h2>What the model looks at</h2>
<p class="note">Mean absolute Shapley values over {{ explained }} public reference rows, exact for
the private model{% if of_box %} (absent features are taken from reference rows){% endif %}.
{% if stability and of_box %}± is a rough estimate of how far other noise in training would move
them.{% endif %}
{% if invented %}<b>The reference rows are invented from the schema</b>, each feature by itself:
contributions compare people with nobody in particular. Public rows of your own
(<code>reference</code> in server.toml) would say more.{% endif %}</p>
{% if why_not_surrogate %}<p class="note">{% for part in why_not_surrogate.split("`") %}{%
if loop.index is even %}<code>{{ part }}</code>{% else %}{{ part }}{% endif %}{% endfor %}</p>{%
endif %}
{{ importance }}

{{ trust }}
<h2>Budget of each client</h2>
{{ budgets }}

<h2>Rounds</h2>
{{ rounds }}

{% if assessment %}<h2>What an attacker found</h2>
<p class="note">voile {{ assessment.software }} rehearsed what was charged on invented records and
tried to refute it; nobody's rows were looked at. "Not refuted" says that an attack which finds out
half of the noise found nothing, and no more than that; "blind" that nothing follows. ε and δ are
those of one party in one round; all rounds together make up what is promised above.</p>
<div class="wide"><table><tr><th>claim</th><th class="number">ε</th><th class="number">δ</th>
<th>verdict</th><th class="number">runs</th>
<th class="number">ε of a refuted claim with more noise (95 %)</th></tr>
{% for e in assessment.events %}<tr><td>{{ e.name }}</td>
<td class="number">{{ up(e.epsilon) }}</td><td class="number">{{ up(e.delta) }}</td>
<td{% if e.verdict == "refuted" %} class="bad"{% endif %}>{{ e.verdict }}</td>
<td class="number">{{ "{:,}".format(e.runs) }}</td>
<td class="number">{{ "%.2f" | format(e.epsilon_found) }}</td></tr>{% endfor %}</table></div>
{% for line in assessment.left_out %}<p class="note">not rehearsed: {{ line }}</p>{% endfor %}
<p class="note">SHA-256 of the findings: <code>{{ assessment.digest }}</code>; {{
assessment.compared }}.</p>{% endif %}

<h2>How to verify</h2>
<p>Each party keeps its own ledger and its own log. The signed logs lie in this artefact; whoever
has the key in a policy from somewhere else can check that nothing was changed since.</p>
<table><tr><th>log</th><th class="number">records</th>
<th>result when this page was written</th></tr>
{% for party, size, result in logs %}<tr><td>{{ party }}</td><td class="number">{{ size }}</td>
<td>{{ result }}</td></tr>{% endfor %}</table>
<p>In the folder that holds this artefact:</p>
<pre>{% for folder in folders %}voile audit verify {{ folder }} --policy {{ folder }}/{{ policy }}
{% endfor %}</pre>
<p class="note">The policies named here came with the artefact: with them, the commands find out
damage and nothing more. Ask each party for its own policy, on a way that whoever handed you the
artefact does not control, and name that one instead.</p>
<p>Against an operator who rewrites a log and signs it anew, compare the checkpoint with a copy of
your own or with a witness.</p>

<h2>Use it</h2>
<pre>voile explain {{ folder }} rows.csv --output explanation.voile</pre>

<h2>How it was trained</h2>
{% for stage, facts in settings.items() %}<p>{{ stage }}</p>
<table>{% for name, value in facts.items() %}<tr><td>{{ name | replace("_", " ") }}</td>
<td class="number">{{ value | join(", ") if value is sequence and value is not string else value
}}</td></tr>{% endfor %}</table>
{% endfor %}"""


def write_report(artefact: Artefact, path: Path | None = None) -> Path:
    """Write the page, beside the artefact's files if no path is given."""
    own = artefact.folder / REPORT
    target = own if path is None else path
    books = books_beside(artefact.folder.absolute().parent)
    kept = [] if books is None else files_of(books)
    inside = (file for file in artefact.folder.rglob("*") if file != own)
    check_outputs([target], [*kept, *inside])
    return replace_file(target, report_html(artefact).encode())


def report_html(artefact: Artefact) -> str:
    """The page. Everything in it that came from outside is escaped."""
    clients: Mapping[str, int] = artefact.settings["clients"]
    spent = {name: each["epsilon"] for name, each in artefact.statement["spent_by_client"].items()}
    promised = artefact.settings["promised"]
    stability = artefact.figures.get("stability")
    calibrated, lines = artefact.figures.get("calibration") or {}, compared(artefact)
    deviations = list((stability or {}).get("deviations", {}).values())
    body = fragment(
        _BODY,
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
        learning=picture(
            plots.learning(curves(artefact), measured_on="unprotected rows"), "figures by round"
        ),
        importance=picture(
            plots.bar(importance(artefact), schema=artefact.schema), "importance of features"
        ),
        explained=min(SHOWN_ROWS, len(artefact.reference)),
        of_box=artefact.has_model,
        trust=trust_section(artefact.figures.get("trust")),
        budgets=picture(
            plots.budgets(spent, promised=promised["epsilon"], delta=promised["delta"]),
            "spent by client",
        ),
        rounds=picture(plots.rounds(outcomes(artefact)), "who took part in which round"),
        logs=[(party, *_checked(artefact, party)) for party in artefact.settings["logs"]],
        folders=[f"{artefact.folder.name}/{place}" for place in artefact.settings["logs"].values()],
        policy=POLICY,
        assessment=_assessed(artefact),
        folder=artefact.folder.name,
        settings=artefact.settings["training"],
        up=rounded_up,
        words=guarantee_in_words,
        several=lambda g: several_records(g.protected, g.epsilon, g.delta, g.records_per_person),
        alarms=alarms_html(alarms(artefact.figures)),
        compared=lines,
        linear=any(line["linear_model"] is not None for line in lines),
        calibration_rows=calibrated.get("rows"),
        slope=calibrated.get("slope"),
        calibration=_calibration(artefact),
        stability=stability,
        studied=STUDIED,
        smallest=min(deviations, default=0.0),
        largest=max(deviations, default=0.0),
        invented=artefact.settings.get("reference_invented", False),
        why_not_surrogate=why_not_surrogate(artefact),
    )
    return framed(f"{artefact.name}: a federation and what it promises", body)


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


def _assessed(artefact: Artefact) -> dict[str, Any] | None:
    """What was found, if it is about what was charged here."""
    found = find_assessment(artefact.folder)
    if found is None:
        return None
    if not artefact.charged_events <= set(tried_events(found)):
        raise VerificationFailed(
            f"{artefact.folder / ASSESSMENT}: about other events than those that were charged; "
            "`voile assess` writes it anew"
        )
    return {**found, "compared": _compared_with_log(artefact, found)}


def _compared_with_log(artefact: Artefact, found: dict[str, Any]) -> str:
    """Whether the server's log holds the digest of the findings, in words."""
    books = books_beside(artefact.folder.absolute().parent)
    if books is None:
        return "there is no log beside this artefact that they could be compared with"
    with open_vault_at(books, signing=None) as vault:
        if is_on_record(vault, found):
            return f"record {found['record']} of the server's log holds the same"
    if found.get("record") is None:
        return "no log was told of them"
    raise VerificationFailed(
        f"{artefact.folder / ASSESSMENT}: record {found['record']} of the log beside it says "
        "otherwise: the findings were changed, or are of another place; `voile assess` writes them "
        "anew"
    )


def _calibration(artefact: Artefact) -> str:
    found = artefact.figures.get("quality", {}).get("black box", {}).get("calibration")
    return picture(plots.calibration(found), "how often predictions come true") if found else ""
