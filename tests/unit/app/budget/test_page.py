"""Pages about budgets can be followed in order, in one folder: each command and each example."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.journeys.pages import Typed, commands, run
from tests.unit.records.audit_log.test_docs import BLOCK

DOCS = Path(__file__).parents[4] / "docs"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")


def follow(name: str) -> None:
    """Examples share a session, as in a notebook; what commands print is what the page shows."""
    session: dict[str, Any] = {}
    for block in BLOCK.finditer((DOCS / name).read_text(encoding="utf-8")):
        if block[1] == "python":
            exec(compile(block[2], name, "exec"), session)
            continue
        for typed in commands(block[2]):
            run(typed)


def test_the_page_about_budgets_works_as_written() -> None:
    follow("budget.md")


def test_the_page_about_real_life_works_as_written() -> None:
    """With the books of the page about budgets."""
    run(Typed("voile audit init log.db --origin example.org/clinic", ()))
    opened = 'voile budget open log.db clinic --dataset "clinic v1" --epsilon 3 --delta 1e-6'
    run(Typed(opened, ()))
    follow("real-life.md")
