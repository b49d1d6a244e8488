"""The documentation is true: tables follow the results, links lead somewhere, examples run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from docs import tables

LINK = re.compile(r"\]\((?!https?://|#|mailto:)([^)#\s]+)")
EXAMPLE = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
# Pages whose examples go with commands run where their commands do, in order.
WITH_COMMANDS = {
    "README.md": "tests/unit/docs/test_readme.py",
    "audit.md": "tests/unit/records/audit_log/test_docs.py",
    "budget.md": "tests/unit/app/budget/test_page.py",
    "explain-with-a-guarantee.md": "tests/unit/app/explain/test_page.py",
    "eight-tasks.md": "tests/unit/docs/test_eight_tasks.py",
    "train.md": "tests/unit/cli/test_train.py",
}
PAGES = [pytest.param(page, id=str(page.relative_to(tables.ROOT))) for page in tables.pages()]


@pytest.mark.parametrize("page", PAGES)
def test_tables_say_what_the_results_say(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert tables.filled(text) == text, "run: python docs/tables.py"


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files_that_exist(page: Path) -> None:
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")  # shap's use of matplotlib
@pytest.mark.parametrize("page", PAGES)
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All examples of a page run in order, in one namespace, in an empty folder."""
    if page.parent.name == "first-hour":  # run as a whole by tests/journeys
        return
    if page.name in WITH_COMMANDS:
        assert page.name in (tables.ROOT / WITH_COMMANDS[page.name]).read_text(encoding="utf-8")
        return
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    for example in EXAMPLE.findall(page.read_text(encoding="utf-8")):
        exec(compile(example, str(page.name), "exec"), namespace)


def test_no_result_is_left_out_of_the_documentation() -> None:
    texts = [page.read_text(encoding="utf-8") for page in tables.pages()]
    shown = {found["name"] for text in texts for found in tables.BLOCK.finditer(text)}
    measured = {path.stem for path in (tables.ROOT / "results").glob("*.json")}
    assert measured <= shown, f"no table shows {sorted(measured - shown)}"
