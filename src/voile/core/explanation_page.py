"""One row's explanation for people: what was predicted, what it was made of, what is promised.

Everything here is read from a `Description`, so that pages, pictures and terminals say the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from voile.core.description import (
    Describable,
    Description,
    FeatureContribution,
    OutputDescription,
    Uncertainty,
)
from voile.core.guarantee_words import guarantee_in_words
from voile.core.page_frame import STYLE, fragment
from voile.core.row_note import KnownNote

_MOST_ROWS: Final = 5
_ROW: Final = """\
{% for part in parts %}
{% if part.prediction is not none %}
<p>{{ part.title }}: <b>{{ part.prediction.value_text }}</b>{% if part.prediction.noise %}
± {{ "%.2g" | format(part.prediction.noise) }}{% endif %}; on average, over the rows it is compared
with: <b>{{ part.prediction.base_text }}</b>. The difference is made up of:</p>
{% else %}<p>{{ part.title }}</p>{% endif %}
<table class="bars">
<tr><th>feature</th>{% if values %}<th>value</th>{% endif %}<th class="number">contribution</th>
<th></th></tr>
{% for line in part.lines %}<tr><td>{{ line.shown.feature }}</td>
{% if values %}<td>{{ line.shown.value_text }}</td>{% endif %}
<td class="number">{{ line.shown.text }}</td>
<td class="bar"><svg viewBox="0 0 100 10" preserveAspectRatio="none" role="img"
 aria-label="{{ line.shown.text }}">
<rect class="{{ line.kind }}" x="{{ line.left }}" y="2" width="{{ line.width }}" height="6"/>
{% if line.low is not none %}<line class="whisker" x1="{{ line.low }}" x2="{{ line.high }}"
 y1="5" y2="5"/>{% endif %}
<line class="zero" x1="{{ part.zero }}" x2="{{ part.zero }}" y1="0" y2="10"/></svg></td></tr>
{% endfor %}</table>
<p class="note">{{ why }}{% if uncertain %} Pale: cannot be told from zero{% if
part.unsettled %} ({{ part.unsettled }} of {{ part.lines | length }}){% endif %}.{% endif %}</p>
{% endfor %}
"""
_PROMISES: Final = """\
{% for words, formal in promises %}<p class="promise">{{ words }}<br>
<span class="formal">{{ formal }}</span></p>
{% else %}<p class="{{ "note" if public else "bad" }}">{{
"No privacy guarantee is needed: made from public artefacts only." if public
else "No privacy guarantee." }}</p>{% endfor %}
{% if notes %}<ul class="note">
{% for note in notes %}<li>{{ note }}</li>{% endfor %}</ul>{% endif %}
"""
_NOTEBOOK: Final = """\
<style>{{ style | safe }}</style><div class="voile">{{ alarms }}{{ promises }}
{% for row in rows %}{% if rows | length > 1 %}<h4>Row {{ loop.index }}</h4>{% endif %}{{ row }}
{% endfor %}{% if more %}<p class="note">and {{ more }} more rows</p>{% endif %}</div>
"""
_ALARMS: Final = """\
{% for line in alarms %}<p class="alarm"><b>Do not use it as it is.</b> {{ line }}</p>
{% endfor %}"""
KNOWN: Final = "± is a 95 % interval."
STUDIED: Final = "In a study it held what other noise would have given on average in 93 of 100 \
cases, but what training without noise would have given in 75 only; in fewer where parties have \
few rows."
"""Of an estimated ±: `results/stability_coverage.json`, which a test compares."""
ESTIMATED: Final = f"± is a rough estimate: twice as far as contributions typically moved when the \
model was trained again with other noise, on invented rows. {STUDIED}"
EXACT: Final = "No noise was added and nothing was sampled for this explanation: these are the \
contributions in this model, exactly. How sure the model itself is, is another question."
_WHY: Final = {
    Uncertainty.EXACT: EXACT,
    Uncertainty.INTERVAL: KNOWN,
    Uncertainty.ESTIMATE: ESTIMATED,
}


def row_html(described: Description) -> str:
    """One row: prediction, base value and contributions, each with its uncertainty."""
    return fragment(
        _ROW,
        parts=[_part(output) for output in described.outputs],
        values=described.shows_values,
        why=_WHY[described.uncertainty],
        uncertain=described.uncertainty is not Uncertainty.EXACT,
    )


def alarms_html(alarms: Sequence[str]) -> str:
    """What makes numbers useless, for the first lines of a page; nothing where nothing does."""
    return fragment(_ALARMS, alarms=alarms)


def promises_html(described: Description) -> str:
    """What is promised, in plain words with the formal line beneath, and what is noted."""
    promises = [(guarantee_in_words(each), str(each)) for each in described.guarantees]
    public = KnownNote.ALL_PUBLIC in described.notes
    notes = [str(note) for note in described.notes]
    return fragment(_PROMISES, promises=promises, public=public, notes=notes)


def notebook_html(explanation: Describable, rows: int) -> str:
    """What a notebook shows: alarms and promises first, then the rows, as far as they are few."""
    whole = explanation.describe()
    shown = [row_html(explanation.describe(row)) for row in range(min(rows, _MOST_ROWS))]
    return fragment(
        _NOTEBOOK,
        style=STYLE,
        alarms=alarms_html(whole.alarms),
        promises=promises_html(whole),
        rows=shown,
        more=rows - len(shown),
    )


def _part(output: OutputDescription) -> dict[str, Any]:
    """One output; places are percent of the width."""
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
        "title": output.title,
        "prediction": output.prediction,
        "lines": [line(each) for each in shown],
        "zero": at(0.0),
        "unsettled": sum(not each.distinguishable for each in shown),
    }
