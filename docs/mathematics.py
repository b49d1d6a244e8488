"""Formulas for browsers: LaTeX between dollar signs becomes MathML when the site is built.

No script runs in the reader's browser and nothing is fetched from elsewhere.
"""

from __future__ import annotations

import re
from typing import Any

from latex2mathml.converter import convert

# Code first, so that a dollar sign inside it is left alone.
_PIECES = re.compile(
    r"(?P<code>^```.*?^```|`[^`\n]*`)|\$\$(?P<block>.+?)\$\$|\$(?P<inline>[^$\n][^$]*?)\$",
    re.DOTALL | re.MULTILINE,
)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """mkdocs calls this for every page."""
    return _PIECES.sub(_converted, markdown)


def _converted(found: re.Match[str]) -> str:
    if found["code"]:
        return found[0]
    if found["block"]:
        return convert(found["block"].strip(), display="block")
    # Markdown takes a line that begins with <math> for a paragraph of its own.
    return f"<span>{convert(found['inline'].replace(chr(10), ' '))}</span>"
