"""One page for one user: what is recommended to her, why, and what is promised about it.

Everything on it is hers: it is written for the user herself, and asks no other host for anything.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from jinja2 import Environment, StrictUndefined

from voile.core.atomic_file import replace_file
from voile.core.explanation import Explanation

SHOWN: Final = 3
"""Reasons beside each recommendation."""
_PAGE: Final = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'">
<title>Recommended to you</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 48rem; margin: 2rem auto; padding: 0 1rem;
       color: #1c2430; background: #fff }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; padding: .3rem .5rem; border-bottom: 1px solid #d8dde6;
         vertical-align: top }
.promise { background: #eef2fb; border-left: 4px solid #3949ab; padding: .8rem 1rem }
</style>
</head>
<body>
<h1>Recommended to you</h1>
<table>
<tr><th>recommendation</th><th>because of</th></tr>
{% for item, reasons in lines %}
<tr><td>{{ item }}</td><td>{{ reasons | join("; ") }}</td></tr>
{% endfor %}
</table>
<h2>What is promised</h2>
{% for guarantee in guarantees %}
<p class="promise">{{ guarantee }}</p>
<p>What must be true besides: {{ guarantee.assumptions | join("; ") }}.</p>
{% else %}<p>No privacy guarantee.</p>{% endfor %}
<p>This page was made from your own history. Nobody else is shown it, and it says nothing about any
other user beyond the promise above.</p>
</body>
</html>
"""


def write_page(explanation: Explanation, path: Path) -> Path:
    """Write the page of one explanation to its user."""
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    page = environment.from_string(_PAGE).render(
        lines=[
            (name, reasons(explanation, output))
            for output, name in enumerate(explanation.output_names)
        ],
        guarantees=explanation.guarantees,
    )
    return replace_file(path, page.encode())


def reasons(explanation: Explanation, output: int) -> list[str]:
    """What adds most to one recommendation, strongest first."""
    values = explanation.values[0, :, output]
    order = sorted(range(len(values)), key=lambda place: -values[place])
    return [
        f"{explanation.feature_names[place]} ({values[place]:+.3g})"
        for place in order[:SHOWN]
        if values[place] > 0
    ]
