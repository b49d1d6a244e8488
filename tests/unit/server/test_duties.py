"""Every endpoint takes its duty, and nothing else opens it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.server.examples import (
    BUDGET,
    OTHER_ROWS,
    PEOPLE,
    PEOPLES_BUDGET,
    ROWS,
    House,
    home,
    serving,
    shop_beside,
)

from voile.app.budget import request_approval
from voile.privacy.events import Gaussian
from voile.records.access import Duty

OPEN = {
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/v2"),
    ("GET", "/v2/health/live"),
    ("GET", "/v2/health/ready"),
    ("POST", "/witness/add-checkpoint"),
}
OPENING = {"name": "new", "dataset": "new", "epsilon": 1.0, "delta": 1e-6}
CHARGE = {"event": {"kind": "gaussian", "noise_multiplier": 50.0}, "purpose": "review"}
ENDPOINTS: list[tuple[str, str, Any, set[Duty]]] = [
    ("GET", "/api/v1/releases", None, {Duty.EXPLAIN}),
    (
        "POST",
        "/api/v1/explanations",
        {"release": "approval", "rows": ROWS, "account": BUDGET},
        {Duty.EXPLAIN},
    ),
    (
        "POST",
        "/api/v1/explanations/batch",
        {"release": "approval", "requests": [{"rows": OTHER_ROWS, "account": BUDGET}]},
        {Duty.EXPLAIN},
    ),
    (
        "POST",
        "/api/v1/recommendations",
        {"recommender": "films", "history": ["1", 3], "group_by": "genre", "count": 2},
        {Duty.EXPLAIN},
    ),
    ("POST", "/api/v1/previews", {"release": "people", "rows": PEOPLE}, {Duty.EXPLAIN}),
    ("GET", "/api/v1/receipts/{record}", None, {Duty.EXPLAIN}),
    ("GET", "/v1/models", None, {Duty.EXPLAIN}),
    ("GET", "/v1/models/{name}", None, {Duty.EXPLAIN}),
    ("POST", "/v1/models/{name}:explain", {"instances": [[3, 6, "no"]]}, {Duty.EXPLAIN}),
    ("GET", "/v2/models/{name}", None, {Duty.EXPLAIN}),
    ("GET", "/v2/models/{name}/ready", None, {Duty.EXPLAIN}),
    (
        "POST",
        "/v2/models/{name}/infer",
        {"inputs": [{"name": "rows", "shape": [1, 3], "datatype": "FP64", "data": [3, 6, 0]}]},
        {Duty.EXPLAIN},
    ),
    ("GET", "/api/v1/budgets", None, {Duty.OBSERVE, Duty.AUDIT}),
    ("GET", "/api/v1/budgets/{account}", None, {Duty.OBSERVE, Duty.AUDIT}),
    ("GET", "/api/v1/budgets/{account}/forecast", None, {Duty.OBSERVE, Duty.AUDIT}),
    ("GET", "/api/v1/budgets/{account}/history", None, {Duty.OBSERVE}),
    ("GET", "/api/v1/reports/{account}", None, {Duty.OBSERVE, Duty.AUDIT}),
    ("GET", "/api/v1/records", None, {Duty.AUDIT}),
    ("GET", "/log/checkpoint", None, {Duty.AUDIT}),
    ("GET", "/log/tile/{place}", None, {Duty.AUDIT}),
    ("POST", "/api/v1/budgets", OPENING, {Duty.ADMINISTER}),
    ("GET", "/api/v1/budgets/{account}/requests", None, {Duty.APPROVE}),
    ("POST", "/api/v1/budgets/{account}/requests", CHARGE, {Duty.EXPLAIN}),
    ("POST", "/api/v1/budgets/{account}/requests/{request}/approve", None, {Duty.APPROVE}),
    ("POST", "/api/v1/budgets/{account}/renew", {"reason": "new year"}, {Duty.ADMINISTER}),
    ("GET", "/api/v1/keys", None, {Duty.ADMINISTER}),
    ("POST", "/api/v1/keys", {"caller": "bob", "duties": ["explain"]}, {Duty.ADMINISTER}),
    ("DELETE", "/api/v1/keys/{key}", None, {Duty.ADMINISTER}),
    ("GET", "/metrics", None, {Duty.OPERATE}),
    ("GET", "/openapi.json", None, {Duty.OPERATE}),
    ("GET", "/docs", None, {Duty.OPERATE}),
]


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with serving(shop_beside(home(tmp_path / "home"))) as found:
        yield found


def test_the_list_names_every_endpoint(house: House) -> None:
    described = house.app.openapi()["paths"]
    there = {(method.upper(), path) for path, methods in described.items() for method in methods}
    assert there == OPEN | {(method, path) for method, path, *_ in ENDPOINTS}


@pytest.fixture
def places(house: House) -> dict[str, str]:
    """What stands in addresses; somebody has got an answer, and it is signed."""
    record = house.explain(house.key(Duty.EXPLAIN)).json()["records"][0]
    house.workspace.vault.publish()
    return {
        "{record}": str(record),
        "{name}": "approval",
        "{account}": house.workspace.public_name(BUDGET),
        "{request}": _requested(house),
        "{place}": "0/000.p/2",
    }


def _requested(house: House) -> str:
    vault = house.workspace.vault
    asked = {"purpose": "review", "caller": "somebody else"}
    storage, ledger, log = vault.storage, vault.ledger, vault.log
    done = request_approval(storage, ledger, log, BUDGET, Gaussian(50.0), **asked)
    return done.row.number


def test_each_endpoint_takes_its_duty_and_no_other(house: House, places: dict[str, str]) -> None:
    keys = {duty: house.key(duty) for duty in Duty}
    for method, path, body, duties in ENDPOINTS:
        for duty, key in keys.items():
            used = {**places, "{key}": house.key(Duty.EXPLAIN)[6:18]}
            address = path
            for name, value in used.items():
                address = address.replace(name, value)
            more = {} if body is None else {"json": body}
            headers = {"Voile-Account": BUDGET}
            found = house.ask(method, address, key, headers=headers, **more)
            expected = {200, 201} if duty in duties else {403}
            assert found.status_code in expected, (method, path, duty, found.text)


def test_nothing_is_open_but_health(house: House) -> None:
    for method, path, body, _ in ENDPOINTS:
        path = path.replace("{record}", "1").replace("{name}", "approval")
        more = {} if body is None else {"json": body}
        for headers in ({}, {"Authorization": "Basic eDp5"}, {"Authorization": "Bearer voile_x"}):
            found = house.ask(method, path, headers=headers, **more)
            assert found.status_code == 401, (method, path)
            assert found.headers["www-authenticate"] == "Bearer"
            assert found.json()["type"] == "urn:voile:problem:not-authenticated"
    for method, path in OPEN - {("POST", "/witness/add-checkpoint")}:
        assert house.ask(method, path).status_code == 200


def test_health_says_yes_or_no(house: House) -> None:
    assert house.ask("GET", "/readyz").json() == {"ready": True}
    house.app.state.service.leaving = True
    assert house.ask("GET", "/readyz").status_code == 503
    assert house.ask("GET", "/healthz").json() == {"live": True}


def test_a_key_covers_its_accounts_only(house: House) -> None:
    other = house.key(accounts=("another",))
    account = house.workspace.public_name(BUDGET)
    assert house.explain(other).status_code == 403
    assert house.ask("GET", "/api/v1/budgets", house.key(Duty.OBSERVE, accounts=())).json() == {
        "budgets": []
    }
    observing = house.key(Duty.OBSERVE, Duty.ADMINISTER, accounts=("another",))
    for path in ("", "/forecast", "/history"):
        found = house.ask("GET", f"/api/v1/budgets/{account}{path}", observing)
        assert found.status_code == 404
    renewed = house.ask("POST", f"/api/v1/budgets/{account}/renew", observing, json={"reason": "x"})
    assert renewed.status_code == 404
    assert house.ask("POST", "/api/v1/budgets", observing, json=OPENING).status_code == 403


def test_an_administrator_grants_no_more_than_their_own(house: House) -> None:
    some = house.key(Duty.ADMINISTER, accounts=(BUDGET,))
    body = {"caller": "bob", "duties": ["explain", "observe"], "accounts": [BUDGET]}
    found = house.ask("POST", "/api/v1/keys", some, json=body)
    assert found.status_code == 201
    for wrong in ({"duties": ["audit"]}, {"accounts": ["*"]}, {"accounts": ["another"]}):
        refused = house.ask("POST", "/api/v1/keys", some, json=body | wrong)
        assert refused.status_code == 403, wrong
    listed = house.ask("GET", "/api/v1/keys", some).json()["keys"]
    assert [each["key"] for each in listed] == [found.json()["key"]]
    auditor = house.key(Duty.AUDIT)[6:18]
    assert house.ask("DELETE", f"/api/v1/keys/{auditor}", some).status_code == 404


def test_a_key_shows_its_levels_only(house: House) -> None:
    from voile.core.transparency import Level, Role

    assert house.explain(house.key(level=Level.SUMMARY)).status_code == 403
    assert house.explain(house.key(roles=frozenset({Role.READER}))).status_code == 403
    assert house.explain(house.key(roles=frozenset({Role.READER, Role.AUDITOR}))).status_code == 200


def test_anybody_may_ask_what_is_anonymous(house: House) -> None:
    assert house.explain(None, "open").status_code == 200
    assert house.explain(None, "approval").status_code == 401
    assert house.explain(None, "people").status_code == 401
    assert house.explain(None, "no such release").status_code == 401


def test_a_revoked_key_ends_at_once_and_an_expired_one_too(house: House) -> None:
    import time

    from voile.app.keys import issue
    from voile.records.access import Grants

    key, admin = house.key(Duty.EXPLAIN), house.key(Duty.ADMINISTER)
    assert house.explain(key).status_code == 200
    assert house.ask("DELETE", f"/api/v1/keys/{key[6:18]}", admin).status_code == 200
    assert house.explain(key).status_code == 401
    grants = Grants(caller="late", duties=frozenset({Duty.EXPLAIN}), accounts=("*",))
    late = issue(house.workspace.vault, grants, seconds=1e-9, issuer="test").text
    time.sleep(0.001)
    assert house.explain(late).status_code == 401
    wrong = key[:-1] + ("A" if key[-1] != "A" else "B")
    assert house.explain(wrong).status_code == 401


def test_too_many_requests_are_told_when_to_come_back(house: House) -> None:
    key = house.key(Duty.EXPLAIN, rate=3)
    found = [house.ask("GET", "/v1/models", key) for _ in range(4)]
    assert [each.status_code for each in found] == [200, 200, 200, 429]
    assert int(found[-1].headers["retry-after"]) >= 1


def test_administrative_acts_are_on_record(house: House) -> None:
    admin = house.key(Duty.ADMINISTER)
    body = {"caller": "bob the builder", "duties": ["explain"]}
    key = house.ask("POST", "/api/v1/keys", admin, json=body).json()["key"]
    house.ask("DELETE", f"/api/v1/keys/{key}", admin)
    records = house.ask("GET", "/api/v1/records", house.key(Duty.AUDIT)).json()["records"]
    acts = [each for each in records if each.get("key") == key]
    assert [each["kind"] for each in acts] == ["key issued", "key revoked"]
    assert {each["issuer"] for each in acts} == {f"key {admin[6:18]}"}
    assert "bob" not in str(records)


def test_nobody_gets_a_key_in_the_name_of_somebody_else(house: House) -> None:
    """Else an administrator of one tenant would get the receipts of another's."""
    house.key(Duty.EXPLAIN, accounts=(BUDGET,), caller="ward 3")
    some = house.key(Duty.ADMINISTER, accounts=(PEOPLES_BUDGET,), caller="tenant")
    body = {"caller": "ward 3", "duties": ["explain"], "accounts": [PEOPLES_BUDGET]}
    assert house.ask("POST", "/api/v1/keys", some, json=body).status_code == 403
    assert house.ask("POST", "/api/v1/keys", some, json=body | {"caller": "x"}).status_code == 201
    assert house.ask("POST", "/api/v1/keys", some, json=body | {"caller": "x"}).status_code == 201


def test_a_receipt_takes_the_account_that_paid(house: House) -> None:
    """A key of the same name that was issued for another account does not do."""
    key = house.key(Duty.EXPLAIN, accounts=(BUDGET,), caller="ward 3")
    record = house.explain(key).json()["records"][0]
    house.workspace.vault.publish()
    other = house.key(Duty.EXPLAIN, accounts=(PEOPLES_BUDGET,), caller="ward 3")
    path = f"/api/v1/receipts/{record}"
    assert house.ask("GET", path, other).status_code == 404
    assert house.ask("GET", path, key).status_code == 200
    person = house.explain(other, "people").json()["records"][0]
    house.workspace.vault.publish()
    assert house.ask("GET", f"/api/v1/receipts/{person}", other).status_code == 200


def test_an_administrator_grants_no_level_and_no_role_beyond_their_own(house: House) -> None:
    some = house.key(Duty.ADMINISTER, accounts=(BUDGET,))
    body = {"caller": "bob", "duties": ["explain"], "accounts": [BUDGET]}
    for wrong in ({"level": "granular"}, {"roles": ["analyst", "auditor"]}):
        refused = house.ask("POST", "/api/v1/keys", some, json=body | wrong)
        assert refused.status_code == 403, wrong
    assert house.ask("POST", "/api/v1/keys", some, json=body | {"level": "summary"}).is_success
    every = house.key(Duty.ADMINISTER)
    assert house.ask("POST", "/api/v1/keys", every, json=body | {"level": "granular"}).is_success
