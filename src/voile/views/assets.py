"""Files that pages of the dashboard load: one stylesheet, scripts, an icon. All from here."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

from markupsafe import Markup

from voile.core.errors import InvalidInput
from voile.views.html import render

OFFLINE: Final = "check-receipt.html"
_SCRIPT: Final = "text/javascript; charset=utf-8"


@dataclass(frozen=True)
class Asset:
    """A file and its media type."""

    content: bytes
    media_type: str


_PLACES: Final = {
    "voile.css": (("static/voile.css", "static/dashboard.css"), "text/css; charset=utf-8"),
    "icon.svg": (("static/icon.svg",), "image/svg+xml"),
    "verify.js": (("static/verify.js",), _SCRIPT),
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


def asset_bytes(name: str) -> bytes:
    """The content of a file, for whoever writes pages to a disk.

    >>> asset_bytes("icon.svg")[:4]
    b'<svg'
    """
    if name == OFFLINE:
        return offline_verifier().encode()
    found = find_asset(name)
    if found is None:
        raise InvalidInput(f"pages load no file {name!r}")
    return found.content


@cache
def offline_verifier() -> str:
    """The page that checks receipts, as one file: it loads nothing, and may run nothing but its own
    script.

    >>> "script-src 'sha256-" in offline_verifier()
    True
    """
    style, script = (_text(name) for name in ("voile.css", "verify.js"))
    return render(
        "dashboard/verify_offline.html",
        style=Markup(style),
        script=Markup(script),
        style_digest=_digest(style),
        script_digest=_digest(script),
    )


def _text(name: str) -> str:
    found = find_asset(name)
    assert found is not None
    return found.content.decode("utf-8")


def _digest(text: str) -> str:
    """As a content security policy names it."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
