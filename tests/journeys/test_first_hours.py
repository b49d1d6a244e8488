"""Every page of `docs/first-hour/` works as it is written, in a folder of the reader's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.journeys.beginnings import BEGINNINGS
from tests.journeys.pages import FOLDER, Typed, commands, files_of, run, run_page

PAGES = sorted(page for page in FOLDER.glob("*.md") if page.name != "index.md")


def param(page: Path) -> object:
    real = "VOILE_DATABASE" in page.read_text(encoding="utf-8")
    return pytest.param(page, id=page.stem, marks=[pytest.mark.real] if real else [])


@pytest.mark.parametrize("page", [param(page) for page in PAGES])
def test_a_first_hour(
    page: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    if request.node.get_closest_marker("real") is not None:
        monkeypatch.setenv("VOILE_DATABASE", request.getfixturevalue("postgres_url"))
    BEGINNINGS[files_of(page)](tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    run_page(page)


@pytest.mark.parametrize("page", [pytest.param(page, id=page.stem) for page in PAGES])
def test_a_reader_is_told_how_the_files_are_made(page: Path) -> None:
    beginning = page.read_text(encoding="utf-8").partition("```")[0]
    assert files_of(page) == "nothing" or "`python VOILE/examples/clinics.py`" in beginning


def test_a_page_that_says_something_else_is_noticed() -> None:
    (typed,) = commands("$ echo one \\\n  two three\none\n...\nthree\n")
    assert typed == Typed("echo one    two three", ("one", "three"))
    run(typed)
    for line, excerpts in (("echo one", ("two",)), ("false", ()), ("true", ("voile: error: no",))):
        with pytest.raises(AssertionError):
            run(Typed(line, excerpts))
    with pytest.raises(AssertionError, match="expected: one"):
        run(Typed("echo one two", ("two", "one")))
