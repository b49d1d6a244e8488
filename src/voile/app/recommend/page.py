"""One page for one user: what is recommended to her, why, and what is promised about it.

Everything on it is hers: it is written for the user herself, and asks no other host for anything.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from voile.core.atomic_file import replace_file
from voile.core.explanation import Explanation
from voile.core.explanation_page import promises_html
from voile.core.page_frame import fragment, framed

SHOWN: Final = 3
"""Reasons beside each recommendation."""
_BODY: Final = """\
<h1>Recommended to you</h1>
<table>
<tr><th>recommendation</th><th>because of</th></tr>
{% for item, reasons in lines %}
<tr><td>{{ item }}</td><td>{{ reasons | join("; ") }}</td></tr>
{% endfor %}
</table>
<h2>What is promised</h2>
{{ promises }}
{% for guarantee in guarantees %}
<p>Assumptions: {{ guarantee.assumptions | join("; ") }}.</p>
{% endfor %}
<p>This page was made from your own history. Nobody else is shown it, and it says nothing about any
other user beyond the promise above.</p>
"""


def write_page(explanation: Explanation, path: Path) -> Path:
    """Write the page of one explanation to its user, for its owner only."""
    body = fragment(
        _BODY,
        promises=promises_html(explanation.describe()),
        lines=[
            (name, reasons(explanation, output))
            for output, name in enumerate(explanation.output_names)
        ],
        guarantees=explanation.guarantees,
    )
    return replace_file(path, framed("Recommended to you", body).encode(), mode=0o600)


def reasons(explanation: Explanation, output: int) -> list[str]:
    """What adds most to one recommendation, strongest first."""
    values = explanation.values[0, :, output]
    order = sorted(range(len(values)), key=lambda place: -values[place])
    return [
        f"{explanation.feature_names[place]} ({values[place]:+.3g})"
        for place in order[:SHOWN]
        if values[place] > 0
    ]
