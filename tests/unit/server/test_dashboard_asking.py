"""Explanations for people: price first, charged once, shown with what is uncertain."""

from __future__ import annotations

import re

import pytest
from tests.unit.server.dashboard_examples import Reader, reader
from tests.unit.server.examples import BUDGET, CANARY, PEOPLES_BUDGET, House

from voile.core.transparency import Level
from voile.records.access import Duty

PERSON = {"a.0": "3", "a.1": "6", "a.2": "no"}
OTHER = {"b.0": "9", "b.1": "1", "b.2": "yes", "compare": "yes"}
PAYING = {"account": BUDGET, "purpose": "appeal"}


def size(house: House) -> int:
    vault = house.workspace.vault
    return vault.storage.read_snapshot(vault.log.head).size


def repeat_of(text: str) -> str:
    found = re.search(r'name="repeat" value="([0-9a-f]+)"', text)
    assert found is not None
    return found[1]


def ask(somebody: Reader, release: str, fields: dict[str, str], **more: str) -> str:
    page = f"/explain/{release}"
    answer = somebody.post(page, page, fields | more)
    assert answer.status_code == 200, answer.text
    return answer.text


def test_the_price_comes_first_and_costs_nothing(house: House) -> None:
    somebody, before = reader(house, house.key()), None
    before = size(house)
    shown = somebody.get("/explain/approval").text
    assert "of 100 units" in shown
    assert "Explain and spend" in shown
    part = somebody.post("/explain/approval/price", "/explain/approval", PERSON | PAYING | OTHER)
    assert "2 people" in part.text
    assert "<html" not in part.text
    whole = ask(somebody, "approval", PERSON | PAYING, act="price")
    assert "The answer" not in whole
    assert size(house) == before


def test_an_answer_is_charged_by_its_button_and_once(house: House) -> None:
    somebody = reader(house, house.key())
    repeat = repeat_of(somebody.get("/explain/approval").text)
    before = size(house)
    first = ask(somebody, "approval", PERSON | PAYING, act="explain", repeat=repeat)
    assert "Charged: " in first
    assert "±" in first
    assert size(house) == before + 1
    ask(somebody, "approval", PERSON | PAYING, act="explain", repeat=repeat)
    assert size(house) == before + 1


def test_after_an_answer_the_form_asks_something_new(house: House) -> None:
    somebody = reader(house, house.key())
    repeat = repeat_of(somebody.get("/explain/approval").text)
    shown = ask(somebody, "approval", PERSON | PAYING, act="explain", repeat=repeat)
    assert repeat_of(shown) != repeat, "the form"
    assert f'name="repeat" value="{repeat}"' in shown, "what gives this answer again"
    ask(
        somebody, "approval", PERSON | PAYING | {"a.0": "4"}, act="explain", repeat=repeat_of(shown)
    )


def test_nothing_is_charged_without_its_button(house: House) -> None:
    somebody, before = reader(house, house.key()), 0
    before = size(house)
    answer = somebody.post("/explain/approval/answer", "/explain/approval", PERSON | PAYING)
    assert answer.status_code == 403
    assert size(house) == before


def test_a_free_answer_needs_no_button(house: House) -> None:
    somebody = reader(house, house.key())
    answer = somebody.post("/explain/open/answer", "/explain/open", PERSON)
    assert answer.status_code == 200
    assert "<html" not in answer.text
    assert "result" in answer.text


def test_two_people_are_compared(house: House) -> None:
    somebody = reader(house, house.key())
    shown = ask(somebody, "open", PERSON | OTHER, act="explain")
    assert "How they differ" in shown
    assert "Second person" in shown


def test_a_refusal_says_why_and_keeps_what_was_typed(house: House) -> None:
    somebody = reader(house, house.key())
    page = "/explain/approval"
    for number in range(200):
        fields = PERSON | PAYING | {"a.0": f"{number / 100}", "act": "explain"}
        answer = somebody.post(page, page, fields)
        if answer.status_code != 200:
            break
    assert answer.status_code == 403
    assert "does not cover this" in answer.text
    assert f'value="{number / 100}"' in answer.text


@pytest.mark.parametrize("typed", ["many", "1e999", "<b>7</b>"])
def test_a_value_that_is_none_is_named_and_not_repeated_as_html(house: House, typed: str) -> None:
    somebody = reader(house, house.key())
    answer = somebody.post("/explain/open", "/explain/open", PERSON | {"a.0": typed})
    assert answer.status_code == 422
    assert "income" in answer.text
    assert "<b>7" not in answer.text


def test_of_a_protected_person_nothing_but_the_form_holds_values(house: House) -> None:
    somebody = reader(house, house.key())
    fields = PERSON | {"a.id": CANARY, "account": PEOPLES_BUDGET, "act": "explain"}
    shown = ask(somebody, "people", fields)
    answer = shown.partition('id="answer"')[2].partition("To keep")[0]
    assert "<td>no</td>" not in answer
    assert CANARY not in answer
    other = reader(house, house.key(caller="somebody else"))
    for path in ("/", "/records", "/explain/people", "/model/people"):
        assert CANARY not in other.get(path).text


def test_files_are_the_same_answer(house: House) -> None:
    somebody = reader(house, house.key())
    repeat = repeat_of(somebody.get("/explain/approval").text)
    fields = PERSON | PAYING | {"repeat": repeat}
    ask(somebody, "approval", fields, act="explain")
    before = size(house)
    for act, start in (("page", b"<!doctype html>"), ("picture", b"<?xml"), ("saved", b"")):
        path = "/explain/approval/file"
        answer = somebody.post(path, "/explain/approval", fields | {"act": act})
        assert answer.status_code == 200
        assert answer.content.startswith(start)
        assert "attachment" in answer.headers["content-disposition"]
    assert size(house) == before


def test_the_receipt_is_for_whoever_got_the_answer(house: House) -> None:
    somebody = reader(house, house.key())
    shown = ask(somebody, "approval", PERSON | PAYING, act="explain")
    found = re.search(r'href="(/explain/receipts/\d+)"', shown)
    assert found is not None
    house.workspace.vault.keep()
    receipt = somebody.get(found[1])
    assert receipt.text.startswith("c2sp.org/tlog-proof@v1")
    other = reader(house, house.key(caller="somebody else"))
    assert other.get(found[1]).status_code == 404


def test_accounts_and_levels_of_others_are_refused(house: House) -> None:
    somebody = reader(house, house.key(Duty.EXPLAIN, accounts=(BUDGET,)))
    page = "/explain/approval"
    fields = PERSON | {"account": PEOPLES_BUDGET, "act": "explain"}
    assert somebody.post(page, page, fields).status_code == 403
    low = reader(house, house.key(Duty.EXPLAIN, level=Level.SUMMARY))
    assert low.get(page).status_code == 403
    assert "approval" not in low.get("/explain").text
    assert somebody.get("/explain/nothing").status_code == 404


def test_whoever_may_only_explain_begins_there(house: House) -> None:
    somebody = reader(house, house.key(Duty.EXPLAIN))
    assert somebody.get("/").status_code == 403
    assert somebody.get("/explain").status_code == 200
