"""Who is signed in, and what a form has to carry."""

from __future__ import annotations

import time

import pytest
from tests.unit.server.dashboard_examples import Reader, reader, sign_in
from tests.unit.server.examples import CANARY, House

from voile.app.dashboard.sessions import LONGEST
from voile.app.keys import end


def test_a_cookie_is_for_this_service_alone(house: House) -> None:
    answer = sign_in(house, house.key())
    cookie = answer.headers["set-cookie"]
    assert answer.status_code == 303
    assert cookie.startswith("__Host-voile=")
    for part in ("HttpOnly", "SameSite=strict", "Secure", "Path=/"):
        assert part in cookie


def test_on_this_machine_a_cookie_needs_no_https(house: House) -> None:
    answer = house.ask("POST", "http://127.0.0.1/signin", data={"key": house.key(), "next": "/"})
    assert answer.headers["set-cookie"].startswith("voile-session=")
    assert "HttpOnly" in answer.headers["set-cookie"]


@pytest.mark.parametrize("key", ["", "wrong", "voile_000000000000_" + 43 * "a", CANARY])
def test_a_wrong_key_is_told_so_and_not_shown(house: House, key: str) -> None:
    answer = sign_in(house, key)
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers
    assert "it has ended" in answer.text
    assert not key or key not in answer.text


def test_who_is_not_signed_in_is_asked_to_and_comes_back(house: House) -> None:
    answer = house.ask("GET", "/records?q=kind:refusal")
    assert answer.status_code == 303
    following = answer.headers["location"]
    assert following == "/signin?next=%2Frecords%3Fq%3Dkind%3Arefusal"
    assert 'value="/records?q=kind:refusal"' in house.ask("GET", following).text
    back = sign_in(house, house.key(), "/records?q=kind:refusal")
    assert back.headers["location"] == "/records?q=kind:refusal"


@pytest.mark.parametrize(
    "elsewhere", ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:1", ""]
)
def test_nobody_is_led_to_another_site(house: House, elsewhere: str) -> None:
    assert sign_in(house, house.key(), elsewhere).headers["location"] == "/"


def test_a_changed_cookie_signs_nobody_in(house: House) -> None:
    cookie = reader(house, house.key()).cookie
    for place in (15, 30, 45, len(cookie) - 1):
        other = "0" if cookie[place] != "0" else "1"
        changed = cookie[:place] + other + cookie[place + 1 :]
        assert Reader(house, changed).get("/").status_code == 303
    assert Reader(house, cookie).get("/").status_code == 200


def test_a_session_ends_with_its_key(house: House) -> None:
    signed_in = reader(house, house.key())
    identifier = signed_in.cookie.partition("=")[2][:12]
    end(house.workspace.vault, identifier, issuer="test")
    assert signed_in.get("/").status_code == 303


def test_a_session_ends_after_its_time(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    signed_in, now = reader(house, house.key()), time.time()
    monkeypatch.setattr("time.time", lambda: now + LONGEST - 60)
    monkeypatch.setattr("voile.records.access.KeyRow.is_valid", lambda *_: True)
    assert signed_in.get("/").status_code == 200
    monkeypatch.setattr("time.time", lambda: now + LONGEST + 60)
    assert signed_in.get("/").status_code == 303


def test_who_signs_out_is_out(house: House) -> None:
    signed_in = reader(house, house.key())
    answer = signed_in.post("/signout", "/", {})
    assert (answer.status_code, answer.headers["location"]) == (303, "/signin")
    assert signed_in.get("/").status_code == 303


FORMS = ["/signout", "/budgets", "/budgets/x/renew"]


@pytest.mark.parametrize("path", FORMS)
def test_a_form_without_the_token_of_its_session_is_refused(house: House, path: str) -> None:
    signed_in, other = reader(house, house.key()), reader(house, house.key())
    for token in ({}, {"token": ""}, {"token": other.token()}, {"token": "é"}):
        answer = signed_in.send(path, {"name": "x", "reason": "y", **token})
        assert answer.status_code == 403, token
        assert "not made for your session" in answer.text
    assert signed_in.get("/").status_code == 200


@pytest.mark.parametrize("path", ["/signin", *FORMS])
def test_a_form_of_another_site_is_refused(house: House, path: str) -> None:
    signed_in = reader(house, house.key())
    fields = {"token": signed_in.token(), "key": house.key()}
    for site in ("cross-site", "same-site"):
        answer = signed_in.send(path, fields, **{"sec-fetch-site": site})
        assert answer.status_code == 403
        assert "set-cookie" not in answer.headers
