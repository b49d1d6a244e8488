"""Files that pages of the dashboard load: one stylesheet, scripts, an icon. All from here."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

_SCRIPT: Final = "text/javascript; charset=utf-8"


@dataclass(frozen=True)
class Asset:
    """A file and its media type."""

    content: bytes
    media_type: str


_PLACES: Final = {
    "voile.css": (("static/voile.css", "static/dashboard.css"), "text/css; charset=utf-8"),
    "icon.svg": (("static/icon.svg",), "image/svg+xml"),
    "htmx.min.js": (("vendor/htmx/htmx.min.js",), _SCRIPT),
}
"""By name: from which files it is put together, and its media type."""


@cache
def find_asset(name: str) -> Asset | None:
    """The file of a name; None if there is none.

    >>> find_asset("icon.svg").media_type
    'image/svg+xml'
    """
    if name not in _PLACES:
        return None
    parts, media_type = _PLACES[name]
    content = b"".join((files("voile.views") / part).read_bytes() for part in parts)
    return Asset(content, media_type)
