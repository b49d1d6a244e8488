"""One row's explanation for people: what was predicted, what it was made of, what is promised.

Everything here is read from the explanation alone, with names and units of a public schema: to show
it is post-processing, and releases nothing more. Where the explained row is what is protected,
neither its values nor a prediction are in it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from voile.core.explanation_checks import Attributions
from voile.core.explanation_words import ReadableExplanation, Wording
from voile.core.guarantee_words import guarantee_in_words
from voile.core.page_frame import STYLE, fragment
from voile.core.row_note import KnownNote
from voile.core.schema import Schema

_MOST_ROWS: Final = 5
_MOST_PLACES: Final = 6
"""After the point; beyond that, powers of ten are easier to read."""
_ROW: Final = """\
{% for part in parts %}
{% if part.prediction is not none %}
<p>{{ part.output }}: <b>{{ part.prediction }}</b>{% if part.noise %}
± {{ "%.2g" | format(part.noise) }}{% endif %}; on average, over the rows it is compared with:
<b>{{ part.base }}</b>. The difference is made up of:</p>
{% else %}<p>{{ part.output }}</p>{% endif %}
<table class="bars">
<tr><th>feature</th>{% if values %}<th>value</th>{% endif %}<th class="number">contribution</th>
<th></th></tr>
{% for line in part.lines %}<tr><td>{{ line.name }}</td>
{% if values %}<td>{{ line.value }}</td>{% endif %}
<td class="number">{{ line.said }}</td>
<td class="bar"><svg viewBox="0 0 100 10" preserveAspectRatio="none" role="img"
 aria-label="{{ line.said }}">
<rect class="{{ line.kind }}" x="{{ line.left }}" y="2" width="{{ line.width }}" height="6"/>
{% if line.low is not none %}<line class="whisker" x1="{{ line.low }}" x2="{{ line.high }}"
 y1="5" y2="5"/>{% endif %}
<line class="zero" x1="{{ part.zero }}" x2="{{ part.zero }}" y1="0" y2="10"/></svg></td></tr>
{% endfor %}</table>
{% if part.uncertain %}<p class="note">{{ why }} Pale: cannot be told from zero{% if
part.unsettled %} ({{ part.unsettled }} of {{ part.lines | length }}){% endif %}.</p>
{% else %}<p class="note">{{ exact }}</p>{% endif %}
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
<style>{{ style | safe }}</style><div class="voile">{{ promises }}
{% for row in rows %}{% if rows | length > 1 %}<h4>Row {{ loop.index }}</h4>{% endif %}{{ row }}
{% endfor %}{% if more %}<p class="note">and {{ more }} more rows</p>{% endif %}</div>
"""
_ALARMS: Final = """\
{% for line in alarms %}<p class="alarm"><b>Do not use it as it is.</b> {{ line }}</p>
{% endfor %}"""
WIDTH: Final = 2.0
"""Of an estimated ±, in typical deviations."""
KNOWN: Final = "± is a 95 % interval."
STUDIED: Final = "In a study it held what other noise would have given on average in 93 of 100 \
cases, but what training without noise would have given in 75 only; in fewer where parties have \
few rows."
"""Of an estimated ±: `results/stability_coverage.json`, which a test compares."""
ESTIMATED: Final = f"± is a rough estimate: twice as far as contributions typically moved when the \
model was trained again with other noise, on invented rows. {STUDIED}"
EXACT: Final = "No noise was added and nothing was sampled for this explanation: these are the \
contributions in this model, exactly. How sure the model itself is, is another question."


def row_html(
    explanation: ReadableExplanation,
    schema: Schema | None = None,
    deviations: Mapping[str, float] | None = None,
    filled: Collection[str] = (),
) -> str:
    """The first row: prediction, base value and contributions, each with its uncertainty.

    Args:
        deviations: for each feature how far a contribution may typically be off because the model
            was trained with noise, where somebody has estimated it. Used if nothing else is known.
        filled: features that were missing in this row; what stands for them is not its own.
    """
    words = Wording(explanation, schema, (frozenset(filled),))
    spread, why = explanation.reach, KNOWN
    estimated = None if deviations is None else _estimated(explanation, deviations)
    if spread is None and estimated is not None:
        spread, why = estimated, ESTIMATED
    parts = [_part(explanation, words, spread, output) for output in range(explanation.shape[2])]
    return fragment(_ROW, parts=parts, values=explanation.data is not None, exact=EXACT, why=why)


def _estimated(
    explanation: ReadableExplanation, deviations: Mapping[str, float]
) -> Attributions | None:
    """As half widths, if there is one for each feature."""
    if not set(explanation.feature_names) <= set(deviations):
        return None
    widths = WIDTH * np.array([deviations[name] for name in explanation.feature_names])
    return np.broadcast_to(widths[np.newaxis, :, np.newaxis], explanation.shape)


def alarms_html(alarms: Sequence[str]) -> str:
    """What makes a model useless, for the first lines of a page; nothing where nothing does."""
    return fragment(_ALARMS, alarms=alarms)


def promises_html(explanation: ReadableExplanation) -> str:
    """What is promised, in plain words with the formal line beneath, and what is noted."""
    promises = [(guarantee_in_words(each), str(each)) for each in explanation.guarantees]
    public = explanation.carries(KnownNote.ALL_PUBLIC)
    notes = [str(note) for note in explanation.notes]
    return fragment(_PROMISES, promises=promises, public=public, notes=notes)


def notebook_html(
    explanation: ReadableExplanation,
    schema: Schema | None = None,
    deviations: Mapping[str, float] | None = None,
    filled: Sequence[Collection[str]] = (),
) -> str:
    """What a notebook shows: promises first, then the rows, as far as they are few."""
    shown = [
        row_html(explanation[number], schema, deviations, filled[number] if filled else ())
        for number in range(min(len(explanation), _MOST_ROWS))
    ]
    return fragment(
        _NOTEBOOK,
        style=STYLE,
        promises=promises_html(explanation),
        rows=shown,
        more=len(explanation) - len(shown),
    )


@dataclass(frozen=True)
class _Line:
    """One contribution; places are percent of the width."""

    name: str
    value: str
    said: str
    kind: str
    left: float
    width: float
    low: float | None
    high: float | None


def _said(value: float, near: float | None) -> str:
    """With as many digits as the uncertainty leaves: two of its own."""
    if near is None:
        return f"{value:+.3g}"
    places = 1 - math.floor(math.log10(near)) if near > 0 else _MOST_PLACES + 1
    if places > _MOST_PLACES:
        return f"{value:+.3g} ± {near:.2g}"
    return f"{value:+.{max(places, 0)}f} ± {near:.{max(places, 0)}f}"


def _noise_of_sum(explanation: ReadableExplanation, output: int) -> float | None:
    """Of privacy noise, which is independent and as strong on the base value as on the others.

    Errors of sampling cancel out in the sum, so standard errors alone say nothing about it.
    """
    if explanation.half_widths is None:
        return None
    widths = explanation.half_widths[0, :, output]
    return float(np.sqrt(np.sum(widths**2) + np.max(widths) ** 2))


def _part(
    explanation: ReadableExplanation, words: Wording, spread: Attributions | None, output: int
) -> dict[str, Any]:
    values = explanation.values[0, :, output]
    if explanation.carries(KnownNote.ABSOLUTE):
        values = np.maximum(values, 0)
    reach = None if spread is None else spread[0, :, output]
    ends = np.concatenate([values, *([] if reach is None else [values - reach, values + reach])])
    lowest, highest = min(0.0, float(ends.min())), max(0.0, float(ends.max()))
    scale = 98 / ((highest - lowest) or 1.0)

    def at(value: float) -> float:
        return round(1 + (value - lowest) * scale, 3)

    def line(place: int) -> _Line:
        value, near = float(values[place]), None if reach is None else float(reach[place])
        kind = "raises" if value > 0 else "lowers"
        return _Line(
            name=explanation.feature_names[place],
            value=words.value(0, place),
            said=_said(value, near),
            kind=kind if near is None or abs(value) > near else f"{kind} pale",
            left=min(at(0), at(value)),
            width=round(abs(value) * scale, 3),
            low=None if near is None else at(value - near),
            high=None if near is None else at(value + near),
        )

    order = np.argsort(-np.abs(values), kind="stable")
    lines = [line(int(place)) for place in order]
    base = float(explanation.base_values[0, output])
    total = base + float(values.sum())
    return {
        "output": words.output(output),
        "prediction": words.result(output, total) if words.leads_to_prediction else None,
        "noise": _noise_of_sum(explanation, output),
        "base": words.result(output, base),
        "lines": lines,
        "zero": at(0),
        "uncertain": reach is not None,
        "unsettled": sum("pale" in each.kind for each in lines),
    }
