"""The pages as files: whole, linked with each other, and at no cost."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.support.dashboards import HTML_NAME, lived_in
from tests.unit.server.examples import home
from typer.testing import CliRunner

from voile.app.calls import handle
from voile.app.commands.dashboard import ExportDashboard
from voile.app.serving import open_served
from voile.cli.app import build
from voile.core.errors import InvalidInput


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = home(tmp_path_factory.mktemp("export") / "home")
    with open_served(found) as workspace:
        lived_in(workspace)
    return found


def size_of_log(folder: Path) -> int:
    with open_served(folder) as workspace:
        return workspace.vault.storage.read_snapshot(workspace.vault.log.head).size


def test_every_link_leads_to_a_file_and_nothing_is_charged(folder: Path, tmp_path: Path) -> None:
    before, pages = size_of_log(folder), tmp_path / "pages"
    duties = ("audit", "observe", "explain", "administer")
    done = handle(ExportDashboard(folder=pages, workspace=folder, duties=duties))
    assert size_of_log(folder) == before
    written = {each.name for each in pages.glob("*.html")}
    assert done.pages == len(written) - 1, "and the verifier"
    for name in written - {"check-receipt.html"}:
        text = (pages / name).read_text(encoding="utf-8")
        assert "<script" not in text
        assert "<form" not in text
        for link in re.findall(r'(?:href|src)="([^"#]+)"', text):
            assert (pages / link).is_file(), (name, link)
    assert HTML_NAME not in (pages / "budgets.html").read_text(encoding="utf-8")


def test_pages_are_those_of_the_duties(folder: Path, tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    handle(ExportDashboard(folder=pages, workspace=folder, duties=("observe",)))
    assert not list(pages.glob("record*.html"))
    assert not list(pages.glob("model*.html"))
    assert "Records" not in (pages / "index.html").read_text(encoding="utf-8")
    with pytest.raises(InvalidInput, match="exists already"):
        handle(ExportDashboard(folder=pages, workspace=folder))


def test_the_command_line_does_the_same(folder: Path, tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    words = ["dashboard", "export", str(pages), "--workspace", str(folder), "--json"]
    ran = CliRunner().invoke(build(words), words)
    assert ran.exit_code == 0, ran.output
    assert json.loads(ran.stdout)["pages"] == len(list(pages.glob("*.html"))) - 1
