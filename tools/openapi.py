"""Write docs/openapi.json, the interface of `voile serve`: `python -m tools.openapi`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from voile.server.application import describe

FILE: Final = Path(__file__).parents[1] / "docs" / "openapi.json"


def text() -> str:
    """What the file holds."""
    return json.dumps(describe(), indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    FILE.write_text(text())
