"""The page of the same eight tasks: its table is counted, and its code of voile and shap runs."""

from __future__ import annotations

import ast
import warnings
from pathlib import Path
from typing import Any

import matplotlib
import pandas
import pytest
from docs import tasks

from tests.support.eight_tasks import PAGE as WRITTEN
from tests.support.eight_tasks import prepared

PAGE = tasks.PAGE.read_text(encoding="utf-8")
assert tasks.PAGE.name == "eight-tasks.md"


def test_the_table_is_counted_from_the_code() -> None:
    assert tasks.filled(PAGE) == PAGE, "run: python docs/tasks.py"


def test_every_task_has_code_of_voile_and_every_package_some() -> None:
    found = tasks.snippets(PAGE)
    assert [title[:2] for title in found] == [f"{number}." for number in range(1, 9)]
    assert all("voile" in code for code in found.values())
    assert {name for code in found.values() for name in code} == set(tasks.PACKAGES)


def test_all_code_is_python() -> None:
    blocks = PAGE.count("```python")
    code = [each for found in tasks.snippets(PAGE).values() for each in found.values()]
    assert len(code) == blocks
    for each in code:
        ast.parse(each)


@pytest.mark.parametrize(
    ("code", "count"),
    [("a = 1; b = 2", 2), ("import a\nb", 1), ("def f():\n    return 1\nf(\n    2\n)", 3)],
)
def test_statements_are_counted_wherever_they_stand(code: str, count: int) -> None:
    assert tasks.statements(code) == count


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")  # shap's use of matplotlib
def test_the_code_of_shap_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shap = pytest.importorskip("shap")
    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {**prepared(), "shap": shap, "pandas": pandas}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        for code in tasks.snippets(PAGE).values():
            exec(code.get("shap", ""), names)
    assert names["why"].shape == (20, 4)


def test_the_code_of_voile_is_that_of_the_page_which_runs() -> None:
    """By tests/unit/python/test_page.py."""
    page = {ast.unparse(each) for each in ast.parse(WRITTEN).body}
    for code in tasks.snippets(PAGE).values():
        assert {ast.unparse(each) for each in ast.parse(code["voile"]).body} <= page
