"""docs/budget.md can be followed in order, in one folder: each command and each example of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.unit.audit_log.test_docs import BLOCK, run

PAGE = Path(__file__).parents[4] / "docs" / "budget.md"


def test_the_page_about_budgets_works_as_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Examples share a session, as in a notebook."""
    monkeypatch.chdir(tmp_path)
    session: dict[str, Any] = {}
    for block in BLOCK.finditer(PAGE.read_text(encoding="utf-8")):
        if block[1] == "python":
            exec(compile(block[2], PAGE.name, "exec"), session)
        else:
            run(block[0], tmp_path)
