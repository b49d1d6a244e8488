"""The picture of the architecture is the tree on disk, and its rows are those that lint checks."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import voile

SOURCE = Path(voile.__path__[0])
ROOT = SOURCE.parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PICTURE = PAGE.split("```")[1]
PACKAGE = re.compile(r"^ ?(\d+) {3}(\w+) ")
INSIDE = re.compile(r"^ {7}(\w+) ")
ONE_SCREEN = 72


def shown() -> dict[str, int]:
    """Folders in the picture, each with its row."""
    found: dict[str, int] = {}
    package, row = "", 0
    for line in PICTURE.splitlines()[2:]:
        if outer := PACKAGE.match(line):
            package, row = outer[2], int(outer[1])
            found[package] = row
        else:
            inner = INSIDE.match(line)
            assert inner, f"neither a package nor a folder of one: {line!r}"
            found[f"{package}/{inner[1]}"] = row
    return found


def on_disk() -> set[str]:
    files = [*SOURCE.glob("*/__init__.py"), *SOURCE.glob("*/*/__init__.py")]
    return {file.parent.relative_to(SOURCE).as_posix() for file in files}


def test_the_picture_shows_every_folder_and_no_other() -> None:
    assert set(shown()) == on_disk()


def test_the_rows_are_those_that_lint_checks() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract = config["tool"]["importlinter"]["contracts"][0]
    there = {folder for folder in on_disk() if "/" not in folder}
    checked = [set(re.findall(r"\w+", layer)) & there for layer in contract["layers"]]
    rows: dict[int, set[str]] = {}
    for folder, row in shown().items():
        if folder in there:
            rows.setdefault(row, set()).add(folder)
    assert list(rows) == sorted(rows)
    assert list(rows.values()) == [layer for layer in checked if layer]


def test_the_page_fits_on_one_screen() -> None:
    assert len(PAGE.splitlines()) <= ONE_SCREEN
