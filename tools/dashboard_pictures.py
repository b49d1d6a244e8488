"""Pictures of the dashboard for the documentation: `python -m tools.dashboard_pictures`.

A service over invented data, and the browser of the system. Pictures are kept small: few colours.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Literal

from PIL import Image
from tests.support import dashboards
from tests.support.dashboards import PATIENCE, QUIET, DashboardHouse, find_browser, running, sign_in
from tests.unit.server.examples import BUDGET

from voile.records.access import Duty

FOLDER: Final = Path(__file__).parents[1] / "docs" / "dashboard"
_COLOURS: Final = 40
Act = Callable[[Any, DashboardHouse], None]


def _nothing(_page: Any, _house: DashboardHouse) -> None:
    """The page as it opens."""


def _explained(page: Any, _: DashboardHouse) -> None:
    page.click("text=Explain and spend")
    page.wait_for_selector("#answer-title")


def _compared(page: Any, _: DashboardHouse) -> None:
    page.fill("[id='a.0']", "7")
    page.wait_for_selector("#answer-title")
    page.locator("summary", has_text="Compare").click()
    page.check("#compare")
    page.get_by_text("How they differ").wait_for()


def _verified(page: Any, house: DashboardHouse) -> None:
    with tempfile.TemporaryDirectory() as folder:
        page.goto(f"{house.url}/records/3")
        with page.expect_download() as kept:
            page.click("text=The proof as a file")
        proof = Path(folder) / "record-3.tlog-proof"
        kept.value.save_as(proof)
        page.goto(f"{house.url}/verify")
        page.set_input_files("#receipt", str(proof))
        page.set_input_files("#policy", str(house.workspace.vault.place.policy))
        page.click("#verify button")
        page.get_by_text("No step failed").wait_for()


PAGES: Final[dict[str, tuple[str, Act]]] = {
    "overview": ("/", _nothing),
    "budgets": ("/budgets", _nothing),
    "account": ("/budgets/{budget}", _nothing),
    "releases": ("/explain", _nothing),
    "explain": ("/explain/approval", _explained),
    "compare": ("/explain/open", _compared),
    "model": ("/model/open", _nothing),
    "federation": ("/federation", _nothing),
    "records": ("/records", _nothing),
    "refusals": ("/records?q=kind:refusal", _nothing),
    "record": ("/records/3", _nothing),
    "evidence": ("/evidence", _nothing),
    "keys": ("/keys", _nothing),
    "verify": ("/verify", _verified),
}


def main() -> None:
    """Draw all of them: on a desk in the light, on a phone in the dark."""
    from playwright.sync_api import sync_playwright

    FOLDER.mkdir(exist_ok=True)
    dashboards.HTML_NAME = "customers north"  # tests have a name that looks like HTML
    with (
        tempfile.TemporaryDirectory() as folder,
        running(Path(folder) / "home") as house,
        sync_playwright() as driver,
    ):
        key = house.issue("ward 3", *Duty)
        browser = driver.chromium.launch(executable_path=find_browser(), args=list(QUIET))
        kinds: tuple[tuple[str, int, Literal["light", "dark"]], ...] = (
            ("", 1000, "light"),
            ("-phone", 390, "dark"),
        )
        for kind, width, scheme in kinds:
            context = browser.new_context(
                viewport={"width": width, "height": 600}, color_scheme=scheme
            )
            context.set_default_timeout(PATIENCE)
            page = context.new_page()
            page.goto(f"{house.url}/signin")
            _keep(page, f"signin{kind}")
            sign_in(page, house, key)
            for name, (path, act) in PAGES.items():
                public = house.workspace.public_name(BUDGET)
                page.goto(house.url + path.replace("{budget}", public))
                act(page, house)
                _keep(page, f"{name}{kind}")
        browser.close()


def _keep(page: Any, name: str) -> None:
    height = min(page.evaluate("document.documentElement.scrollHeight"), 1600)
    clip = {"x": 0, "y": 0, "width": page.viewport_size["width"], "height": height}
    drawn = Image.open(io.BytesIO(page.screenshot(full_page=True, clip=clip))).convert("RGB")
    few = drawn.quantize(_COLOURS, dither=Image.Dither.NONE)
    few.save(FOLDER / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
