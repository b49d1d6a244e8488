"""A report shows what was collected and verified before: its view opens nothing."""

from __future__ import annotations

import html
import shutil
from pathlib import Path

import pytest

from voile.app.artefact import load_artefact
from voile.app.report import report_contents
from voile.views.reports import report_html

OLD = Path(__file__).parents[1] / "app" / "artefact_without_calibration"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return shutil.copytree(OLD, tmp_path / "artefact")


def test_a_page_is_made_when_the_artefact_is_gone(folder: Path) -> None:
    contents = report_contents(load_artefact(folder))
    page = report_html(contents)
    shutil.rmtree(folder)
    assert report_html(contents) == page
    assert page.count("signed and complete") == len(contents.logs)


def test_a_log_that_was_changed_is_noticed_before_and_said_on_the_page(folder: Path) -> None:
    artefact = load_artefact(folder)
    path = sorted(folder.glob("logs/*/*.jsonl"))[0]
    path.write_bytes(path.read_bytes().replace(b"1", b"2", 1))
    contents = report_contents(artefact)
    (changed,) = (log for log in contents.logs if log.failure)
    assert changed.party == path.parent.name
    page = report_html(contents)
    assert page.count("signed and complete") == len(contents.logs) - 1
    assert changed.failure in html.unescape(page)


def test_the_page_has_one_layout_and_carries_its_style(folder: Path) -> None:
    page = report_html(report_contents(load_artefact(folder)))
    assert page.startswith('<!doctype html>\n<html lang="en" class="voile">')
    assert page.count("@media print") == 1
    for outside in ("https://", "<link", "<script", "@import"):
        assert outside not in page
