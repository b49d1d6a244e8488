"""Trust, divergence and rewards of each party: a part of a report, or a page without a promise."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from voile import plots
from voile.app.report.parts import picture
from voile.core.atomic_file import replace_file
from voile.core.errors import InvalidInput
from voile.core.page_frame import fragment, framed
from voile.pipelines.trusted_averaging import TrustedModel, trust_figures

_SECTION: Final = """\
<h2>Whom the federation trusts</h2>
<p class="note">Updates are weighted by trust: {{ trust.rule.accuracy }} of accuracy on public rows,
{{ trust.rule.alignment }} of agreement with the common importance of features,
{{ trust.rule.consistency }} of steadiness; weight is trust times (1 − {{ trust.rule.tau }} ·
divergence), never below 0 ({{ trust.rule.divergence }}).
{% if trust.verified %}The server sees single updates and has measured all of it. Weight also
follows how well a party's updates so far agree with updates trained on public rows. Rewards also
follow how well they rank public rows.{% else %}Parties have
reported both, and each computes all weights itself; a party that lies is not found out.{% endif %}
{% if exact %}No promise covers any of this.{% else %}Trust, weights and rewards are covered by the
promise above; each has a record in the server's log.{% endif %}
{% if not trust.verified %}Whatever is added up in secret, the server sees of each party its
accuracy and its divergence.{% endif %}</p>
{{ trust_picture }}
<div class="wide"><table><tr><th>party</th>
{% for head in heads %}<th class="number">{{ head }}</th>{% endfor %}</tr>
{% for row in parties %}<tr><td>{{ row.name }}</td>
{% for value in row["values"] %}<td class="number">{{ value }}</td>{% endfor %}</tr>
{% endfor %}</table></div>
<p class="note">Of the last round that each counted in; rewards are those of all rounds.</p>
{% if rounds %}<h3>Weights in each round</h3>
<div class="wide"><table><tr><th>round</th><th>weights</th>
{% for name in names %}<th class="number">{{ name }}</th>{% endfor %}</tr>
{% for row in rounds %}<tr><td>{{ row.round }}</td><td>{{ row.how }}</td>
{% for value in row["values"] %}<td class="number">{{ value }}</td>{% endfor %}</tr>
{% endfor %}</table></div>{% endif %}
{% if trust.verified and trust.weighted_down is defined %}<h3>Who was weighted down, and why</h3>
<ul>{% for line in trust.weighted_down %}<li>{{ line }}</li>{% endfor %}
{% if not trust.weighted_down %}<li>no party</li>{% endif %}</ul>
<p class="note">An honest party whose rows or labels differ much from the public ones is weighted
down, too.</p>{% endif %}
<h3>Who stands out</h3>
<p class="note">By the importance of features. Named for people to look at; no weight follows from
this list.</p>
<ul>{% for line in trust.outliers %}<li>unlike the others: {{ line }}</li>{% endfor %}
{% for line in trust.drifts %}<li>moved away: {{ line }}</li>{% endfor %}
{% if not trust.outliers and not trust.drifts %}<li>nobody</li>{% endif %}
{% for number in trust.equal_weights_in_rounds %}<li>round {{ number }}: {{ why_equal }}</li>
{% endfor %}</ul>
"""
_EQUAL: Final = "trust left no party, or one party nearly all of the weight, so all counted alike"
_EQUAL_MEASURED: Final = (
    "the parties' updates could not be told apart from random ones, so all updates of a usual "
    "length had equal weight and equal rewards"
)
_HOW: Final = {"by trust": "by trust", "equal": "equal", "none": "no update counted"}
_SHOWN: Final = ("accuracy", "divergence", "trust", "weight")
_PAGE: Final = """\
<h1>{{ title }}</h1>
<p class="promise"><b class="bad">No privacy guarantee</b><br>This federation was trained without
noise.</p>
<ul>{% for note in notes %}<li>{{ note }}</li>{% endfor %}</ul>
{{ section }}
"""


def trust_section(figures: Mapping[str, Any] | None, *, exact: bool = False) -> str:
    """What `trust_figures` holds, as HTML; nothing for a federation without trust.

    Args:
        exact: whether accuracy and divergence are covered by no promise.
    """
    if not figures:
        return ""
    return fragment(
        _SECTION,
        trust=figures,
        exact=exact,
        trust_picture=_picture(figures),
        heads=("rounds", *_SHOWN, "rewards"),
        parties=_table(figures),
        names=sorted(figures["parties"]),
        rounds=_rounds(figures),
        why_equal=_EQUAL_MEASURED if figures["verified"] else _EQUAL,
    )


def exact_trust_html(trained: TrustedModel, name: str) -> str:
    """A page about rounds without privacy, which says what exact reports reveal.

    A federation that was trained with noise has an artefact and its report.
    """
    if trained.plan.noise_multiplier is not None:
        raise InvalidInput("this federation was trained with noise: see `voile report`")
    section = trust_section(trust_figures(trained), exact=True)
    title = f"{name}: whom the federation trusts"
    notes = trained.promise().notes
    return framed(title, fragment(_PAGE, title=title, notes=notes, section=section))


def write_exact_trust(trained: TrustedModel, name: str, path: Path) -> Path:
    """Write the page of `exact_trust_html`."""
    return replace_file(path, exact_trust_html(trained, name).encode())


def _table(figures: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One row for each party of a trusted federation, the most trusted first."""
    rows = {name: scores for name, scores in figures["parties"].items() if scores}
    return [
        {
            "name": name,
            "values": [
                str(len(scores)),
                *(f"{scores[-1][key]:.3f}" for key in _SHOWN),
                f"{sum(score['reward'] for score in scores):.3f}",
            ],
        }
        for name, scores in sorted(rows.items(), key=lambda item: -item[1][-1]["trust"])
    ]


def _rounds(figures: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One row for each round; none in artefacts of earlier versions."""
    names = sorted(figures["parties"])
    return [
        {
            "round": row["round"],
            "how": _HOW[row["weights"]],
            "values": [f"{row['parties'][n]:.3f}" if n in row["parties"] else "–" for n in names],
        }
        for row in figures.get("rounds", ())
    ]


def _picture(figures: Mapping[str, Any]) -> str:
    if not any(figures["parties"].values()):
        return ""
    odd = {name for name in figures["parties"] for line in figures["outliers"] + figures["drifts"]
           if line.startswith(f"{name} in round ")}  # fmt: skip
    measure = str(figures["rule"]["divergence"])
    drawn = plots.trust(figures["parties"], measure=measure, odd=sorted(odd))
    return picture(drawn, "trust, divergence and rewards of each party over rounds")
