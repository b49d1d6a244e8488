"""Models, federations, keys and people; files that pages load."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.support.dashboards import lived_in
from tests.unit.server.dashboard_examples import reader
from tests.unit.server.examples import BUDGET, CANARY, MORE, House, home, serving

from voile.records.access import Duty


def test_a_free_model_says_what_matters_and_a_charged_one_does_not(house: House) -> None:
    vault = house.workspace.vault
    somebody = reader(house, house.key())
    before = vault.storage.read_snapshot(vault.log.head).size
    free, charged = somebody.get("/model/open").text, somebody.get("/model/approval").text
    assert "contributions over 3 public background rows, each compared with 3" in free
    assert "as income changes" in free
    assert "Asking costs something here" in charged
    assert "changes" not in charged
    other = somebody.get("/model/open?feature=employed").text
    assert "as employed changes" in other
    assert somebody.get(f"/model/open?feature={CANARY}").status_code == 404
    assert vault.storage.read_snapshot(vault.log.head).size == before


def test_the_ladder_names_what_is_offered(house: House) -> None:
    text = reader(house, house.key()).get("/model/open").text
    for level, role in (("summary", "reader"), ("granular", "auditor")):
        assert f"<td>{level}</td><td>{role}</td>" in text
    assert "<b>approval</b>: charged, ±" in text


def test_a_federation_is_told_from_the_log(house: House) -> None:
    lived_in(house.workspace)
    somebody = reader(house, house.key(Duty.AUDIT))
    for path in ("/federation", "/federation/rounds"):
        text = somebody.get(path).text
        assert "clinics" in text
        assert len(re.findall(r"2 parties", text)) == 3
    assert "<html" not in somebody.get("/federation/rounds").text


def test_a_key_is_issued_shown_once_and_ended(house: House) -> None:
    somebody = reader(house, house.key(Duty.ADMINISTER))
    fields = {"caller": "ward 7", "days": "3", "level": "detailed", "accounts": f"{BUDGET}\r\n"}
    made = somebody.post("/keys", "/keys", fields | {"duty-observe": "yes"})
    assert made.status_code == 200
    found = re.search(r"voile_([0-9a-f]{12})_[A-Za-z0-9_-]{43}", made.text)
    assert found is not None
    assert found[0] not in somebody.get("/keys").text
    assert "ward 7" in somebody.get("/keys").text
    new = reader(house, found[0])
    assert new.get("/budgets").status_code == 200
    ended = somebody.post(f"/keys/{found[1]}/end", "/keys", {})
    assert ended.status_code == 303
    assert new.get("/budgets").status_code == 303
    assert "ended" in somebody.get("/keys").text


@pytest.mark.parametrize(
    "wrong", [{}, {"duty-everything": "yes"}, {"duty-audit": "yes", "days": CANARY}]
)
def test_a_key_that_cannot_be_is_refused(house: House, wrong: dict[str, str]) -> None:
    somebody = reader(house, house.key(Duty.ADMINISTER))
    fields = {"caller": "x", "days": "3", "level": "detailed", "accounts": ""}
    answer = somebody.post("/keys", "/keys", fields | wrong)
    assert answer.status_code == 422
    assert CANARY not in answer.text


def test_an_administrator_of_one_account_grants_no_more(house: House) -> None:
    somebody = reader(house, house.key(Duty.ADMINISTER, accounts=(BUDGET,), caller="small"))
    fields = {"caller": "x", "days": "3", "level": "detailed", "accounts": "*", "duty-audit": "y"}
    assert somebody.post("/keys", "/keys", fields).status_code == 403


def test_files_are_the_same_for_everybody_and_no_others_are_there(house: House) -> None:
    for name, kind in (
        ("voile.css", "text/css"),
        ("htmx.min.js", "javascript"),
        ("icon.svg", "svg"),
    ):
        answer = house.ask("GET", f"/static/{name}")
        assert answer.status_code == 200
        assert kind in answer.headers["content-type"]
    for name in ("..%2Fhtml.py", "nothing.js", "html.py"):
        assert house.ask("GET", f"/static/{name}").status_code == 404


def test_the_verifier_is_for_anybody(house: House) -> None:
    assert house.ask("GET", "/verify").status_code == 200
    whole = house.ask("GET", "/verify/offline")
    assert "attachment" in whole.headers["content-disposition"]
    assert "script-src 'sha256-" in whole.text
    assert "src=" not in whole.text


def test_rules_are_shown_with_what_they_led_to(tmp_path: Path) -> None:
    more = f"""
[[rules]]
metric = "budget.used"
account = "{BUDGET}"
rate = "10/minute"
alert = 0.001
act = 0.9
"""
    with serving(home(tmp_path / "home", MORE + more)) as house:
        key = house.key()
        assert house.explain(key).status_code == 200
        text = reader(house, key).get("/evidence").text
        assert "<td>budget.used</td>" in text
        assert "limit to 10/minute" in text
        assert "people are told from 0.001 on" in text
