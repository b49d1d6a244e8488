"""The dashboard as people use it: with a mouse, with keys alone, on a phone, in the dark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal

import pytest

from tests.support.dashboards import (
    HTML_NAME,
    PATIENCE,
    QUIET,
    DashboardHouse,
    find_browser,
    running,
    sign_in,
    until,
)
from tests.unit.server.examples import BUDGET, PEOPLES_BUDGET
from voile.records.access import Duty

AXE: Final = Path("tests/support/vendor/axe-core/axe.min.js")
LARGEST: Final = 150_000
DESK, PHONE = 1240, 390
Scheme = Literal["light", "dark"]
PATHS: Final = (
    "/",
    "/budgets",
    "/budgets/{budget}",
    "/budgets/{people}",
    "/budgets/{odd}",
    "/explain",
    "/explain/approval",
    "/explain/open",
    "/explain/people",
    "/model",
    "/model/open",
    "/model/approval",
    "/federation",
    "/records",
    "/records?q=kind:refusal",
    "/records?q=nonsense",
    "/records/3",
    "/records/999999",
    "/evidence",
    "/keys",
    "/verify",
)
RULES: Final = """async () => {
  const found = await axe.run(document, { resultTypes: ["violations"] });
  return found.violations.map(
    (each) => [each.id, each.nodes.map((node) => node.html.slice(0, 160))]);
}"""
VIOLATIONS: Final = """window.voileViolations = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.voileViolations.push(`${event.violatedDirective} ${event.blockedURI}`));"""


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DashboardHouse]:
    if find_browser() is None:
        pytest.skip("no browser")
    with running(tmp_path_factory.mktemp("dashboard") / "home") as found:
        found.issue("ward 3", *Duty)
        yield found


@pytest.fixture(scope="module")
def browser(house: DashboardHouse) -> Iterator[Any]:
    assert house.url
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=find_browser(), args=list(QUIET))
        yield opened
        opened.close()


class Told:
    """What a browser complained about, and what it asked for."""

    def __init__(self, page: Any) -> None:
        self.said: list[str] = []
        self.asked: list[str] = []
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("request", lambda request: self.asked.append(request.url))


@contextmanager
def signed_in(
    browser: Any,
    house: DashboardHouse,
    *,
    width: int = DESK,
    scheme: Scheme = "light",
    scripts: bool = True,
) -> Iterator[tuple[Any, Told]]:
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme=scheme,
        java_script_enabled=scripts,
        bypass_csp=False,
    )
    context.set_default_timeout(PATIENCE)
    context.add_init_script(VIOLATIONS)
    page = context.new_page()
    told = Told(page)
    sign_in(page, house, house.keys["ward 3"])
    yield page, told
    context.close()


def at(house: DashboardHouse, path: str) -> str:
    public = house.workspace.public_name
    for name, account in (("budget", BUDGET), ("people", PEOPLES_BUDGET), ("odd", HTML_NAME)):
        path = path.replace(f"{{{name}}}", public(account))
    return house.url + path


def is_own_status(text: str) -> bool:
    """A browser writes the status of a page that is not there into its console."""
    return "the server responded with a status of 404" in text


@pytest.mark.parametrize(
    ("width", "scheme"), [(DESK, "light"), (DESK, "dark"), (PHONE, "light"), (PHONE, "dark")]
)
def test_every_page_is_sound(
    browser: Any, house: DashboardHouse, width: int, scheme: Scheme
) -> None:
    """No violation of the policy, no error, no foreign request; small; nothing scrolls sideways;
    axe finds nothing, contrast included."""
    rules = AXE.read_text(encoding="utf-8")
    with signed_in(browser, house, width=width, scheme=scheme) as (page, told):
        for path in PATHS:
            answer = page.goto(at(house, path))
            assert len(answer.body()) <= LARGEST, path
            assert page.evaluate("document.documentElement.scrollWidth") <= width, path
            assert page.evaluate("window.voileViolations") == [], path
            page.evaluate(rules)
            assert page.evaluate(RULES) == [], path
        assert [each for each in told.said if not is_own_status(each)] == []
        assert [each for each in told.asked if not each.startswith(house.url)] == []


def test_what_is_foreign_is_refused_by_the_browser(browser: Any, house: DashboardHouse) -> None:
    """The look at violations can fail."""
    with signed_in(browser, house) as (page, _):
        page.evaluate(
            "document.body.append(Object.assign(new Image(), {src: 'https://example.org/x.png'}))"
        )
        until(page, "() => window.voileViolations.length > 0")
        page.evaluate("document.body.setAttribute('style', 'color: red')")
        until(page, "() => window.voileViolations.some((each) => each.startsWith('style-src'))")


def test_names_with_html_are_shown_as_text(browser: Any, house: DashboardHouse) -> None:
    with signed_in(browser, house) as (page, _):
        page.goto(at(house, "/budgets"))
        assert page.locator("main td a", has_text=HTML_NAME).text_content() == HTML_NAME
        assert page.locator("main b[onclick]").count() == 0


def focused(page: Any) -> str:
    return str(
        page.evaluate(
            "(document.activeElement.id || document.activeElement.textContent || '').trim()"
        )
    )


def tab_to(page: Any, wanted: str, most: int = 80) -> None:
    for _ in range(most):
        page.keyboard.press("Tab")
        if focused(page) == wanted:
            return
    raise AssertionError(f"{wanted!r} cannot be reached with keys; at {focused(page)!r}")


def test_a_refusal_is_found_with_keys_alone(browser: Any, house: DashboardHouse) -> None:
    with signed_in(browser, house) as (page, _):
        tab_to(page, "Records")
        page.keyboard.press("Enter")
        page.wait_for_url("**/records")
        tab_to(page, "q")
        page.keyboard.type("kind:refusal")
        page.keyboard.press("Enter")
        page.wait_for_url("**/records?q=*")
        number = page.locator("table.stack td a").first.text_content()
        tab_to(page, number)
        page.keyboard.press("Enter")
        page.wait_for_url(f"**/records/{number}")
        assert "refused: " in page.text_content("main")


def test_an_explanation_is_paid_for_with_keys_alone(browser: Any, house: DashboardHouse) -> None:
    vault = house.workspace.vault
    before = vault.storage.read_snapshot(vault.log.head).size
    with signed_in(browser, house) as (page, _):
        tab_to(page, "Explain")
        page.keyboard.press("Enter")
        page.wait_for_url("**/explain")
        tab_to(page, "people")
        page.keyboard.press("Enter")
        page.wait_for_url("**/explain/people")
        tab_to(page, "a.id")
        page.keyboard.type("carol")
        assert "100 units" in page.text_content("#price")
        assert vault.storage.read_snapshot(vault.log.head).size == before, "nothing but a price"
        tab_to(page, "Explain and spend")
        page.keyboard.press("Enter")
        page.wait_for_selector("#answer-title")
        assert "Charged" in page.text_content("#answer")
    assert vault.storage.read_snapshot(vault.log.head).size > before


def test_the_price_follows_and_nothing_is_spent(browser: Any, house: DashboardHouse) -> None:
    vault = house.workspace.vault
    before = vault.storage.read_snapshot(vault.log.head).size
    with signed_in(browser, house) as (page, told):
        page.goto(at(house, "/explain/people"))
        page.locator("summary", has_text="Compare").click()
        page.check("#compare")
        until(page, "() => document.getElementById('price').textContent.includes('2 people')")
        assert not [each for each in told.said if not is_own_status(each)]
    assert vault.storage.read_snapshot(vault.log.head).size == before


def test_a_free_answer_follows_the_values(browser: Any, house: DashboardHouse) -> None:
    with signed_in(browser, house) as (page, told):
        page.goto(at(house, "/explain/open"))
        page.fill("[id='a.0']", "7")
        until(page, "() => /result/.test(document.getElementById('answer').textContent)")
        first = page.text_content("#answer table")
        page.fill("[id='a.0']", "1")
        until(
            page,
            "(first) => (document.querySelector('#answer table')?.textContent ?? first) !== first",
            first,
        )
        page.locator("summary", has_text="Compare").click()
        page.check("#compare")
        page.get_by_text("How they differ").wait_for()
        for act, name in (("page", ".html"), ("picture", ".svg"), ("saved", ".voile")):
            with page.expect_download() as kept:
                page.click(f"button[value={act}]")
            assert kept.value.suggested_filename.endswith(name)
        assert told.said == []


def test_everything_but_the_verifier_works_without_scripts(
    browser: Any, house: DashboardHouse
) -> None:
    with signed_in(browser, house, scripts=False) as (page, _):
        page.goto(at(house, "/explain/open"))
        page.click("#ask button")
        assert "result" in page.text_content("#answer")
        page.goto(at(house, "/records"))
        page.fill("#q", "kind:refusal")
        page.press("#q", "Enter")
        assert "1 record" in page.text_content("[role=status]")


def test_a_proof_is_checked_in_the_browser(
    browser: Any, house: DashboardHouse, tmp_path: Path
) -> None:
    with signed_in(browser, house) as (page, told):
        page.goto(at(house, "/records/3"))
        with page.expect_download() as kept:
            page.click("text=The proof as a file")
        proof = tmp_path / "proof.tlog-proof"
        kept.value.save_as(proof)
        page.goto(at(house, "/verify"))
        page.set_input_files("#receipt", str(proof))
        page.set_input_files("#policy", str(house.workspace.vault.place.policy))
        page.click("#verify button")
        page.get_by_text("No step failed").wait_for()
        assert told.said == []
        assert page.evaluate("window.voileViolations") == []


def test_pages_print_on_white_paper_without_their_menu(browser: Any, house: DashboardHouse) -> None:
    with signed_in(browser, house, scheme="dark") as (page, _):
        page.emulate_media(media="print", color_scheme="dark")
        assert (
            page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        )
        assert not page.locator(".top").is_visible()
