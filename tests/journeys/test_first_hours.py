"""Every page of `docs/first-hour/` works as it is written, in a folder of the reader's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.journeys.beginnings import BEGINNINGS
from tests.journeys.pages import FOLDER, Typed, commands, files_of, run, run_page

PAGES = sorted(page for page in FOLDER.glob("*.md") if page.name != "index.md")


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_a_first_hour(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    BEGINNINGS[files_of(page)](tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    run_page(page)


def test_a_page_that_says_something_else_is_noticed() -> None:
    (typed,) = commands("$ echo one \\\n  two three\none\n...\nthree\n")
    assert typed == Typed("echo one    two three", ("one", "three"))
    run(typed)
    for line, excerpts in (("echo one", ("two",)), ("false", ()), ("true", ("voile: error: no",))):
        with pytest.raises(AssertionError):
            run(Typed(line, excerpts))
    with pytest.raises(AssertionError, match="expected: one"):
        run(Typed("echo one two", ("two", "one")))
