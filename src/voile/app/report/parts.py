"""Pictures inside a page."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Final

from voile.core.optional import optional
from voile.core.page_frame import fragment
from voile.plots.style import INK, LOWERS, QUIET, RAISES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLOURS: Final = {
    INK: "var(--ink)",
    "#000000": "var(--ink)",
    QUIET: "var(--quiet)",
    LOWERS: "var(--lowers)",
    RAISES: "var(--raises)",
}
"""Of a picture, as the page has them: in the dark they are others."""
_REMARKS: Final = re.compile(r"<!--.*?-->\n?", re.DOTALL)
_NAMES: Final = re.compile(r'(\bid="|href="#|url\(#)')
_PICTURE: Final = """\
<div class="wide"><svg class="picture" role="img" aria-label="{{ said }}"{{ drawn }}</div>"""


def picture(figure: Figure, said: str) -> str:
    """A figure as part of a page: sharp at any size, in the colours of the page.

    Args:
        said: what it shows, for those who do not see it; one for each picture of a page.
    """
    from markupsafe import Markup

    # Names of parts are made from what they draw and not at random: a report can be made again.
    with optional("matplotlib", extra="explain").rc_context({"svg.hashsalt": "voile"}):
        buffer = io.StringIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(buffer, format="svg", transparent=True, metadata=nothing)
    drawn = _REMARKS.sub("", buffer.getvalue().partition("<svg")[2])
    for colour, name in _COLOURS.items():
        drawn = drawn.replace(colour, name)
    own = re.sub(r"\W+", "-", said)
    return fragment(_PICTURE, said=said, drawn=Markup(_NAMES.sub(rf"\g<1>{own}-", drawn)))
