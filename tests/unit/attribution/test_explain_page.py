"""The examples of the page on explaining run, one after the other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "explain.md"


@pytest.mark.filterwarnings("ignore:The set_:PendingDeprecationWarning")
def test_examples_run(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 6
    names: dict[str, Any] = {}
    for number, block in enumerate(blocks):
        exec(compile(block, f"explain.md, example {number + 1}", "exec"), names)
    assert "no privacy guarantee" in capsys.readouterr().out
