"""Pages of the product as a browser shows them: complete, alone, readable, on a phone and on paper.

Chromium from the system (Debian's package `chromium`), driven by playwright. A browser comes from
no package index, so `make test` works without one: these tests are then skipped, and are not marked
`real`, also in CI, which uses a browser where there is one.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import pytest

from tests.journeys.beginnings import BEGINNINGS
from tests.journeys.pages import FOLDER, Typed, commands, run
from tests.support.pages import framed, row_html
from voile.app.artefact import load_artefact
from voile.core.description import WIDTH
from voile.core.explanation import Explanation

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "chrome")
QUIET: Final = (
    "--no-sandbox",  # tests may run as root
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PHONE: Final = 390
DESK: Final = 1200
Scheme = Literal["light", "dark"]
SCHEMES: Final[tuple[Scheme, ...]] = ("light", "dark")
COMMANDS: Final = """
$ voile init north.csv south.csv --label readmitted
$ sed -i 's/^rows = 0/rows = 400/' federation.toml
$ sed -i 's/^pipeline = "statistics"/pipeline = "private explainer"/' federation.toml
$ sed -i 's/^# distillation_steps = 3000/distillation_steps = 5/' server.toml
$ mv described.toml schema.toml
$ voile federate federation.toml --yes
$ (head -1 people.csv; sed -n 4p people.csv) > grace.csv
$ voile explain output/artefact grace.csv --page person.html
$ voile audit init log.db --origin example.org/north
$ voile budget open log.db north --dataset "north 2026" --epsilon 2 --delta 1e-6
$ voile budget report log.db north --html budget.html
"""
NOTEBOOK: Final = """<meta charset="utf-8"><meta name="viewport" content="width=device-width">
<style>table {{ color: #000 }} tbody tr:nth-child(odd) {{ background: #f5f5f5 }}</style>
<body style="margin: 0">{}"""
"""Somebody else's page, light in both schemes, with a style of its own for tables."""
CONTRAST: Final = """() => {
  const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (colour) => {
    const parts = numbers(colour).slice(0, 3).map((part) => {
      const share = part / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  const behind = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const found = getComputedStyle(each).backgroundColor;
      if (numbers(found)[3] !== 0) return found;
    }
    return "rgb(255, 255, 255)";
  };
  const ratio = (one, other) => {
    const [low, high] = [light(one), light(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const own = (element) => [...element.childNodes].some(
    (node) => node.nodeType === Node.TEXT_NODE && node.textContent.trim());
  return [...document.querySelectorAll("body *")]
    .filter((element) => !element.closest("style") &&
      (own(element) || element.matches("svg.picture")))
    .map((element) => {
      const style = getComputedStyle(element);
      const ink = element.closest("svg") ? style.fill : style.color;
      const said = element.getAttribute("aria-label") || element.textContent;
      return [ratio(ink, behind(element)), said.trim().slice(0, 60)];
    });
}"""
PAPER: Final = 'getComputedStyle(document.querySelector(".voile")).backgroundColor'
BARS: Final = """() => [...document.querySelectorAll(".bars tr")].slice(1).map((row) => {
  const bar = row.querySelector("rect");
  return {
    name: row.cells[0].textContent,
    said: row.querySelector("td.number").textContent,
    width: bar.getBoundingClientRect().width,
    whole: row.querySelector("svg").getBoundingClientRect().width,
    opacity: Number(getComputedStyle(bar).opacity),
  };
})"""
BLOCKED: Final = """() => new Promise((done) => {
  document.addEventListener("securitypolicyviolation", (event) => done(event.violatedDirective));
  document.body.append(Object.assign(new Image(), { src: "https://example.org/seen.png" }));
  setTimeout(() => done("nothing"), 3000);
})"""


@dataclass(frozen=True)
class WrittenFiles:
    """What a reader has after a first hour."""

    folder: Path

    @property
    def pages(self) -> dict[str, Path]:
        return {
            "person": self.folder / "person.html",
            "report": self.folder / "output" / "artefact" / "report.html",
            "budget": self.folder / "budget.html",
            "notebook": self.folder / "notebook.html",
        }


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is installed (Debian: chromium)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=found, args=list(QUIET))
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def written(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> WrittenFiles:
    """Two clinics federate, explain one patient who left a cell empty, and open a budget."""
    request.getfixturevalue("browser")  # without one, nothing is trained either
    folder = tmp_path_factory.mktemp("first-hour")
    BEGINNINGS["clinics"](folder)
    schema = re.search(
        r'```toml title="schema.toml"\n(.*?)```',
        (FOLDER / "two-clinics.md").read_text(encoding="utf-8"),
        re.DOTALL,
    )
    assert schema is not None
    (folder / "described.toml").write_text(schema[1], encoding="utf-8")
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        for typed in commands(COMMANDS):
            run(Typed(typed.line, ()))
    made = WrittenFiles(folder)
    inside = Explanation.load(folder / "person.voile")._repr_html_()
    made.pages["notebook"].write_text(NOTEBOOK.format(inside), encoding="utf-8")
    return made


@contextmanager
def blank(browser: Any, scheme: Scheme = "light", width: int = DESK) -> Iterator[Any]:
    """A window that has no network."""
    context = browser.new_context(
        color_scheme=scheme, viewport={"width": width, "height": 900}, offline=True
    )
    yield context.new_page()
    context.close()


@contextmanager
def shown(browser: Any, path: Path, scheme: Scheme = "light", width: int = DESK) -> Iterator[Any]:
    """A page from the disk."""
    with blank(browser, scheme, width) as page:
        page.goto(path.as_uri())
        yield page


@pytest.mark.parametrize("name", ["person", "report", "budget"])
def test_a_page_needs_nothing_else_and_may_ask_nobody(
    browser: Any, written: WrittenFiles, name: str
) -> None:
    path = written.pages[name]
    said: list[str] = []
    asked: list[str] = []
    with blank(browser) as page:
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(path.as_uri(), wait_until="networkidle")
        assert (said, asked) == ([], [path.as_uri()])
        assert page.evaluate(BLOCKED) == "img-src"


@pytest.mark.parametrize("width", [DESK, PHONE])
def test_bars_are_as_long_as_contributions(browser: Any, written: WrittenFiles, width: int) -> None:
    explanation = Explanation.load(written.folder / "person.voile")
    values = dict(zip(explanation.feature_names, explanation.values[0, :, 0], strict=True))
    stability = load_artefact(written.folder / "output" / "artefact").figures["stability"]
    with shown(browser, written.pages["person"], width=width) as page:
        bars = page.evaluate(BARS)
    assert [bar["name"] for bar in bars] == sorted(values, key=lambda each: -abs(values[each]))
    scale = bars[0]["width"] / abs(values[bars[0]["name"]])
    for bar in bars:
        value, near = values[bar["name"]], WIDTH * stability["deviations"][bar["name"]]
        assert bar["width"] == pytest.approx(scale * abs(value), abs=0.5)
        assert (bar["opacity"] < 1) == (abs(value) <= near)
        assert bar["whole"] > 150, "large enough to be compared"


def test_bars_that_cannot_be_told_from_zero_are_pale(browser: Any, tmp_path: Path) -> None:
    """The same with known numbers: those of a trained model are others each time."""
    explanation = Explanation(
        values=np.array([[0.4, -0.2, 0.05, 0.0]]),
        base_values=np.array([0.3]),
        feature_names=("a", "b", "c", "d"),
        output_names=("yes",),
        half_widths=np.full((1, 4), 0.1),
    )
    path = tmp_path / "known.html"
    path.write_text(framed("known", row_html(explanation.describe())), encoding="utf-8")
    with shown(browser, path) as page:
        bars = page.evaluate(BARS)
    assert [bar["opacity"] < 1 for bar in bars] == [False, False, True, True]
    parts = [bar["width"] / bars[0]["width"] for bar in bars]
    assert parts == pytest.approx([1.0, 0.5, 0.125, 0.0], abs=0.01)


@pytest.mark.parametrize("name", ["person", "report", "budget", "notebook"])
def test_text_can_be_read_in_light_and_in_the_dark(
    browser: Any, written: WrittenFiles, name: str
) -> None:
    papers = set()
    for scheme in SCHEMES:
        with shown(browser, written.pages[name], scheme) as page:
            found = page.evaluate(CONTRAST)
            papers.add(page.evaluate(PAPER))
        assert len(found) > 20
        assert [(round(ratio, 2), said) for ratio, said in found if ratio < 4.5] == []
    assert len(papers) == 2, "the scheme changes the colours"


@pytest.mark.parametrize("name", ["person", "report", "budget", "notebook"])
def test_nothing_scrolls_sideways_on_a_phone(
    browser: Any, written: WrittenFiles, name: str
) -> None:
    with shown(browser, written.pages[name], width=PHONE) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE


@pytest.mark.parametrize("name", ["person", "report", "budget"])
def test_it_prints_on_white_paper(browser: Any, written: WrittenFiles, name: str) -> None:
    with shown(browser, written.pages[name], "dark") as page:
        printed = page.pdf(prefer_css_page_size=True)
        page.emulate_media(media="print", color_scheme="dark")
        paper = page.evaluate(PAPER)
    pages = len(re.findall(rb"/Type\s*/Page\b", printed))
    assert printed.startswith(b"%PDF")
    assert 1 <= pages <= (12 if name == "report" else 4)
    assert paper == "rgb(255, 255, 255)"
