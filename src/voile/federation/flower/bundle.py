"""The app that a Flower run of voile is of: a name and a version, and not a line of code.

Flower ships apps from the server to the nodes. Voile's nodes fetch none: they compare the hash of a
run's app with this one, and refuse a run of any other.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from typing import Final

_PROJECT: Final = """\
[project]
name = "voile"
version = "1"
description = "Nodes answer with the voile that is installed there; this app holds no code."
license = "Apache-2.0"

[tool.flwr.app]
publisher = "voile"

[tool.flwr.app.components]
serverapp = "voile.nothing:app"
clientapp = "voile.nothing:app"
"""
_NO_DATE: Final = (1980, 1, 1, 0, 0, 0)


def bundle(project: str) -> bytes:
    """An app of Flower's format with this `pyproject.toml` alone; equal texts, equal bytes."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo("pyproject.toml", _NO_DATE), project)
    return content.getvalue()


BUNDLE: Final = bundle(_PROJECT)
BUNDLE_HASH: Final = hashlib.sha256(BUNDLE).hexdigest()
