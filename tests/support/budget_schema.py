"""The published JSON Schema of a budget report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

_FILE: Final = Path(__file__).parents[2] / "docs" / "budget-report.schema.json"
SCHEMA: Final[dict[str, Any]] = json.loads(_FILE.read_text(encoding="utf-8"))
