"""Results find their views: those of voile, those of others by entry point, or plain text."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
from tests.unit.views.test_pages import patient

from voile.core import rendering
from voile.core.errors import InvalidInput
from voile.core.rendering import draw_picture, find_view, render_html, write_page

HELP = "from voile import cli\ntry:\n    cli.main(['--help'])\nexcept SystemExit:\n    pass"


@dataclass(frozen=True)
class Toy:
    """A result of somebody else."""

    view: ClassVar[str] = "toy"

    said: str


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package with a view of its own, as pip leaves it."""
    (tmp_path / "toy_view.py").write_text("def page(toy):\n    return f'<h1>{toy.said}</h1>'\n")
    metadata = tmp_path / "toy_view-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-view\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        "[voile.views]\ntoy = toy_view:page\nreport = toy_view:page\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("shelf")
def test_a_view_of_others_is_found_by_entry_point() -> None:
    assert render_html(Toy("hello")) == "<h1>hello</h1>"


@pytest.mark.usefixtures("shelf")
def test_a_view_of_voile_is_not_replaced_by_others() -> None:
    assert find_view("report") is not find_view("toy")


def test_without_a_view_plain_text_is_shown(tmp_path: Path) -> None:
    shown = "Toy(said=&#x27;&lt;b&gt;&#x27;)"
    assert render_html(Toy("<b>")) == f'<pre style="white-space: pre-wrap">{shown}</pre>'
    page = write_page(Toy("<b>"), tmp_path / "toy.html", mode=0o600)
    assert "&lt;b&gt;" in page.read_text()
    assert page.stat().st_mode & 0o777 == 0o600


def test_an_explanation_without_its_view_is_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    assert '<table class="bars">' in patient()._repr_html_()
    monkeypatch.setattr(rendering, "_places", {})
    assert ">Explanation\n  no privacy guarantee" in patient()._repr_html_()


def test_what_nothing_draws_is_refused() -> None:
    with pytest.raises(InvalidInput, match="picture of toy"):
        draw_picture(Toy(""), "png")


def test_every_registered_view_is_there() -> None:
    assert {"explanation", "report", "person page", "budget page"} <= set(rendering._places)
    for kind in rendering._places:
        assert callable(find_view(kind))


@pytest.mark.parametrize("script", ["import voile", HELP], ids=["import", "help"])
def test_neither_templates_nor_pictures_are_loaded_before_they_are_needed(script: str) -> None:
    asked = "import sys\nprint(sorted({'jinja2', 'matplotlib', 'voile.views'} & set(sys.modules)))"
    run = subprocess.run(
        [sys.executable, "-c", f"{script}\n{asked}"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env=os.environ,
    )
    assert run.stdout.splitlines()[-1] == "[]"


def test_no_html_is_made_in_python() -> None:
    source = Path(rendering.__file__).parents[1]
    tags = ("<table", "<style", "<html", "<p class", "<div")
    found = [
        path.name
        for path in source.rglob("*.py")
        if any(tag in path.read_text(encoding="utf-8") for tag in tags)
    ]
    assert found == []
