"""The task page works as written: its examples in one namespace, its commands in order."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from voile import cli

PAGE = Path(__file__).parents[4] / "docs" / "explain-with-a-guarantee.md"
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def commands(console: str) -> list[list[str]]:
    """What follows a `$ voile`, with lines continued by a backslash joined."""
    lines = console.replace("\\\n", " ").splitlines()
    return [shlex.split(line)[2:] for line in lines if line.startswith("$ voile ")]


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_the_page_works_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    ran = 0
    for kind, block in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        if kind == "python":
            exec(compile(block, PAGE.name, "exec"), namespace)
            continue
        for command in commands(block):
            with pytest.raises(SystemExit) as left:
                cli.main(command)
            assert left.value.code == 0, command
            ran += 1
    assert ran == 15
