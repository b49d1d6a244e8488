"""What stands around every call; that both ways in agree is in tests/contract/test_both_ways.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.unit.app.test_notebook import ROWS
from tests.unit.app.workspace.examples import started
from tests.unit.cli.test_explain import prepared, run

from voile.app.calls import Context, handle
from voile.app.commands.explain import Explain
from voile.app.notebook import open_workspace
from voile.core.errors import BudgetExceeded, InvalidInput

__all__ = ["prepared", "run"]
TYPED = {
    "model": "tests.unit.cli.test_explain:SCORE",
    "data": "applicants.csv",
    "schema": "loans.toml",
    "model_origin": "public",
    "protect": "background",
    "background": "customers.csv",
    "epsilon": 0.5,
    "account": "customers",
}


@pytest.mark.usefixtures("run")
def test_files_are_overwritten_only_if_somebody_says_so() -> None:
    Path("why.json").write_text("mine")
    command = Explain.read({**TYPED, "save_as": "why.json"})
    with pytest.raises(InvalidInput, match="exists already"):
        handle(command)
    assert Path("why.json").read_text() == "mine"
    asked_about: list[Path] = []
    handle(command, Context(confirm=asked_about.extend))
    assert asked_about == [Path("why.json")]
    assert json.loads(Path("why.json").read_text())["guarantees"]


def test_a_refused_notebook_call_leaves_nothing_unsigned(tmp_path: Path) -> None:
    started(tmp_path)
    with open_workspace(tmp_path) as workspace:
        vault = workspace.service.vault

        def ask() -> None:
            for _ in range(1_000):
                workspace.explain("approval", ROWS, redraw=True)

        with pytest.raises(BudgetExceeded):
            ask()
        assert vault.unsigned == 0
