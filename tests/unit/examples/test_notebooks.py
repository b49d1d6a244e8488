"""Every notebook runs from top to bottom, in an empty folder, and each result can be shown."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import matplotlib.pyplot
import pytest

NOTEBOOKS = Path(__file__).parents[3] / "examples" / "notebooks"
NAMES = ("audit", "federation", "first-hour", "private-training")


def cells(name: str) -> list[str]:
    """The code of a notebook; nothing else of it is kept."""
    content = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text(encoding="utf-8"))
    code = [each for each in content["cells"] if each["cell_type"] == "code"]
    assert all(each["outputs"] == [] and each["execution_count"] is None for each in code)
    return ["".join(each["source"]) for each in code]


def run(code: str, name: str, namespace: dict[str, Any]) -> Any:
    """A cell as Jupyter runs it: what its last line gives is shown."""
    tree = ast.parse(code, name)
    last = tree.body[-1]
    if not isinstance(last, ast.Expr):
        exec(compile(tree, name, "exec"), namespace)
        return None
    exec(compile(ast.Module(tree.body[:-1], []), name, "exec"), namespace)
    return eval(compile(ast.Expression(last.value), name, "eval"), namespace)


def shown(result: Any) -> str:
    rich = getattr(result, "_repr_html_", None)
    text = rich() if rich is not None else None
    return repr(result) if text is None else str(text)


def test_these_are_all() -> None:
    assert sorted(each.stem for each in NOTEBOOKS.glob("*.ipynb")) == list(NAMES)


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")  # shap's use of matplotlib
@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    try:
        for place, code in enumerate(cells(name)):
            assert shown(run(code, f"{name}, code cell {place}", namespace))
    finally:
        matplotlib.pyplot.close("all")


@pytest.mark.parametrize("name", NAMES)
def test_cells_are_short(name: str) -> None:
    for code in cells(name):
        assert len(code.splitlines()) <= 20, code
        assert max(map(len, code.splitlines())) <= 100, code
