"""Pages of the dashboard: who may open them, and what stands on them."""

from __future__ import annotations

import threading
from typing import Final

import pytest
from tests.support.dashboards import HTML_NAME, lived_in
from tests.unit.server.dashboard_examples import Reader, reader
from tests.unit.server.examples import BUDGET, CANARY, PEOPLES_BUDGET, ROWS, House

from voile.records.access import Duty

POLICY: Final = "default-src 'none'; script-src 'self'; style-src 'self'"
PAGES: Final[dict[str, set[Duty]]] = {
    "/": {Duty.OBSERVE, Duty.AUDIT},
    "/budgets": {Duty.OBSERVE, Duty.AUDIT, Duty.APPROVE},
    "/budgets/{budget}": {Duty.OBSERVE, Duty.AUDIT, Duty.APPROVE},
    "/explain": {Duty.EXPLAIN},
    "/explain/open": {Duty.EXPLAIN},
    "/model": {Duty.EXPLAIN},
    "/model/open": {Duty.EXPLAIN},
    "/federation": {Duty.OBSERVE, Duty.AUDIT},
    "/federation/rounds": {Duty.OBSERVE, Duty.AUDIT},
    "/evidence": {Duty.AUDIT},
    "/keys": {Duty.ADMINISTER},
    "/records": {Duty.AUDIT},
    "/records/0": {Duty.AUDIT},
    "/records/0/proof": {Duty.AUDIT},
    "/records/export": {Duty.AUDIT},
    "/records/checkpoint": {Duty.AUDIT},
}


def place(house: House, path: str) -> str:
    return path.replace("{budget}", house.workspace.public_name(BUDGET))


@pytest.mark.parametrize("duty", list(Duty))
def test_each_page_is_for_its_duties(house: House, duty: Duty) -> None:
    """403 and not an empty page; and the menu leads nowhere else."""
    house.workspace.vault.keep()
    somebody = reader(house, house.key(duty))
    for path, duties in PAGES.items():
        answer = somebody.get(place(house, path))
        assert answer.status_code == (200 if duty in duties else 403), path
        if duty not in duties:
            assert "needed" in answer.text
        for menu in ("/", "/budgets", "/explain", "/model", "/records", "/evidence", "/keys"):
            assert (f'<li><a href="{menu}"' in answer.text) <= (duty in PAGES[menu])


def test_every_page_has_a_strict_policy(house: House) -> None:
    somebody = reader(house, house.key())
    for path in ("/", "/budgets", "/records", "/records/0", "/records/99999", "/signin"):
        answer = somebody.get(path)
        assert answer.headers["content-security-policy"].startswith(POLICY)
        assert "style=" not in answer.text
        assert "<style" not in answer.text


def test_who_observes_one_account_sees_no_other(house: House) -> None:
    lived_in(house.workspace)
    somebody = reader(house, house.key(Duty.OBSERVE, accounts=(BUDGET,)))
    for path in ("/", "/budgets"):
        text = somebody.get(path).text
        assert BUDGET in text
        assert PEOPLES_BUDGET not in text
    other = house.workspace.public_name(PEOPLES_BUDGET)
    hidden, missing = somebody.get(f"/budgets/{other}"), somebody.get("/budgets/0123")
    assert (hidden.status_code, missing.status_code) == (404, 404)
    assert hidden.text.replace(other, "") == missing.text.replace("0123", "")


def test_names_with_html_are_text(house: House) -> None:
    lived_in(house.workspace)
    somebody = reader(house, house.key())
    account = house.workspace.public_name(HTML_NAME)
    for path in ("/budgets", f"/budgets/{account}", "/records?q=kind:%22budget+opened%22"):
        text = somebody.get(path).text
        assert "&lt;b onclick=alert(1)&gt;odd" in text
        assert "<b onclick" not in text
    searched = somebody.get('/records?q=<script>alert("x")</script>')
    assert searched.status_code == 200
    assert "<script>alert" not in searched.text


def test_single_people_are_counted_and_never_listed(house: House) -> None:
    lived_in(house.workspace)
    somebody = reader(house, house.key())
    people = house.workspace.public_name(PEOPLES_BUDGET)
    listed = somebody.get("/budgets").text
    assert "2 accounts of single people are counted" in listed
    shown = somebody.get(f"/budgets/{people}").text
    found = somebody.get("/records?q=kind:release+account:%22people+v1%22").text
    for text in (listed, shown, found):
        assert f"{PEOPLES_BUDGET}/" not in text
    assert "2 records" in found


def test_callers_are_named_to_owners_only(house: House) -> None:
    lived_in(house.workspace)
    account = house.workspace.public_name(BUDGET)
    owner = reader(house, house.key(Duty.OBSERVE, caller="owner"))
    auditor = reader(house, house.key(Duty.AUDIT, caller="auditor"))
    assert "ward 3" in owner.get(f"/budgets/{account}").text
    assert "ward 3" not in auditor.get(f"/budgets/{account}").text


def test_an_answer_is_shown_to_whoever_got_it_and_to_nobody_else(house: House) -> None:
    mine, others = house.key(caller="mine"), house.key(caller="others")
    assert house.explain(mine).status_code == 200
    assert "Your last charged answer" in reader(house, mine).get("/").text
    assert "Your last charged answer" not in reader(house, others).get("/").text


def test_a_canary_in_a_protected_row_is_on_no_page(house: House) -> None:
    """A protected row and its identifier are in no page of anybody, whatever their duties."""
    rows = {"id": [CANARY], **ROWS}
    key = house.key()
    assert house.explain(key, "people", rows=rows).status_code == 200
    assert house.explain(key, "people", rows=rows, purpose="x").status_code == 200
    somebody = reader(house, key)
    size = house.workspace.vault.storage.read_snapshot(house.workspace.vault.log.head).size
    people = house.workspace.public_name(PEOPLES_BUDGET)
    paths = ["/", "/budgets", f"/budgets/{people}", "/records", "/records/export"]
    for path in [*paths, *(f"/records/{number}" for number in range(size))]:
        assert CANARY not in somebody.get(path).text


def test_a_problem_repeats_nothing_that_was_sent(house: House) -> None:
    somebody = reader(house, house.key())
    for path in (f"/budgets/{CANARY}", f"/records/{CANARY}", f"/records?before={CANARY}"):
        answer = somebody.get(path)
        assert answer.status_code in (404, 422)
        assert CANARY not in answer.text


def opened(somebody: Reader, **changes: str) -> int:
    fields = {"name": "new", "dataset": "new v1", "epsilon": "1", "delta": "1e-6", "unit": "row"}
    return somebody.post("/budgets", "/budgets", fields | changes).status_code


def test_an_administrator_opens_and_renews(house: House) -> None:
    somebody = reader(house, house.key())
    assert opened(somebody) == 303
    account = house.workspace.public_name("new")
    page = f"/budgets/{account}"
    assert "0 of 100 units" in somebody.get(page).text
    assert somebody.post(f"{page}/renew", page, {"reason": "new year"}).status_code == 303
    assert "renewed" in somebody.get(page).text
    for wrong in ({"epsilon": CANARY}, {"epsilon": "-1"}, {"name": ""}, {"unit": "person"}):
        assert opened(somebody, **wrong) == 422


def test_forms_are_for_administrators(house: House) -> None:
    somebody = reader(house, house.key(Duty.OBSERVE))
    assert "Open an account" not in somebody.get("/budgets").text
    fields = {"token": somebody.token("/"), "name": "new"}
    assert somebody.send("/budgets", fields).status_code == 403
    assert somebody.send("/budgets/x/renew", fields).status_code == 403


def test_a_search_that_is_wrong_says_what_can_be_searched_for(house: House) -> None:
    somebody = reader(house, house.key())
    for wrong in ("refusal", "caller:x", "kind:a kind:b", "since:yesterday"):
        answer = somebody.get("/records", params={"q": wrong})
        assert answer.status_code == 200
        assert 'role="alert"' in answer.text


def test_refusals_are_found(house: House) -> None:
    key = house.key()
    for number in range(200):
        answer = house.explain(key, redraw=True, headers={"Idempotency-Key": str(number)})
        if answer.status_code == 403:
            break
    assert answer.status_code == 403
    found = reader(house, key).get("/records?q=kind:refusal").text
    assert "1 record," in found
    assert "refused: " in found


def test_a_second_person_approves_what_another_asked_for(house: House) -> None:
    asking = house.key(Duty.EXPLAIN, caller="asking")
    account = house.workspace.public_name(BUDGET)
    page = f"/budgets/{account}"
    event = house.explain(house.key(caller="x"), redraw=True, headers={"Idempotency-Key": "1"})
    assert event.status_code == 200
    body = {"event": {"kind": "gaussian", "noise_multiplier": 8.0}, "purpose": "an appeal"}
    asked = house.ask("POST", f"/api/v1{page}/requests", asking, json=body)
    assert asked.status_code == 201, asked.text
    approver = reader(house, house.key(Duty.APPROVE, caller="second"))
    shown = approver.get(page).text
    assert "an appeal" in shown
    number = asked.json()["request"]
    path = f"{page}/requests/{number}/approve"
    auditor = reader(house, house.key(Duty.AUDIT, caller="auditor"))
    assert "an appeal" not in auditor.get(page).text
    assert auditor.send(path, {"token": auditor.token()}).status_code == 403
    done = approver.post(path, page, {})
    assert done.status_code == 303
    assert "an appeal" not in approver.get(page).text


def test_evidence_links_to_records_and_is_made_aside_for_a_long_log(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    lived_in(house.workspace)
    somebody = reader(house, house.key(Duty.AUDIT))
    text = somebody.get("/evidence").text
    assert "for you to state" in text
    assert '<a href="/records/' in text
    assert "Made from" not in text
    assert "Nothing was answered yet" not in text
    assert f"{PEOPLES_BUDGET}/" not in text
    monkeypatch.setattr("voile.app.dashboard.evidence.AT_ONCE", 1)
    monkeypatch.setattr("voile.app.dashboard.evidence._GROWN", 1.0)
    house.key()  # one more record
    assert somebody.get("/evidence").status_code == 200
    for thread in threading.enumerate():
        if thread.name == "voile evidence":
            thread.join(60)
    assert "Made from" not in somebody.get("/evidence").text
    monkeypatch.setattr("voile.app.dashboard.evidence.AT_ONCE", 10_000)
    monkeypatch.setattr("voile.app.dashboard.evidence.MOST_ACCOUNTS", 1)
    house.key()
    assert "3 accounts, too many for a page" in somebody.get("/evidence").text
