"""Explanations over HTTP: charged once, on record, each caller with an outcome of their own."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uvicorn
from tests.unit.server.examples import (
    BUDGET,
    MORE,
    OTHER_ROWS,
    PEOPLE,
    PEOPLES_BUDGET,
    ROWS,
    House,
    home,
    serving,
)
from tests.unit.server.iris import NAMES, flowers_beside
from uvicorn.server import ServerState

from voile.core.errors import InvalidInput, StorageFull
from voile.core.explanation import Explanation
from voile.records.access import Duty
from voile.records.audit_log import explanation_bytes, verify_receipt
from voile.records.ledger import budget_report
from voile.server.gathering import Waiting
from voile.server.running import PatientProtocol

EXPLANATIONS = "/api/v1/explanations"


def spent(house: House, account: str = BUDGET) -> list[str]:
    """Names of the charges of an account."""
    from voile.app.budgets import budget_history

    vault = house.workspace.vault
    acts = vault.storage.read_snapshot(
        lambda t: budget_history(vault.ledger, vault.log, t, account)
    )
    return [act.charge for act in acts if act.act == "charged"]


# --- what is answered ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rows",
    [
        ROWS,
        [{"income": 3, "debt": 6, "employed": "no"}],
        [[3, 6, "no"]],
        {**ROWS, "name of somebody": ["x"]},
    ],
    ids=["columns", "records", "matrix", "more columns"],
)
def test_rows_come_in_three_forms_and_are_one_question(house: House, rows: Any) -> None:
    key = house.key(Duty.EXPLAIN)
    first, again = house.explain(key).json(), house.explain(key, rows=rows).json()
    assert first["charges"] == again["charges"] == [f"{BUDGET}#1"]
    assert (first["replayed"], again["replayed"]) == (False, True)
    assert again["values"] == first["values"]
    assert first["guarantees"][0]["epsilon"] == 0.5
    assert np.shape(first["values"]) == (1, 3, 1)


def test_without_an_account_there_is_a_price(house: House) -> None:
    found = house.explain(house.key(), account=None)
    assert found.status_code == 402
    assert found.headers["content-type"] == "application/problem+json"
    assert found.json()["price"]["guarantees"][0]["epsilon"] == 0.5
    assert spent(house) == []


def test_a_preview_charges_nothing(house: House) -> None:
    key = house.key(Duty.EXPLAIN)
    for rows, count in ((1, 1), (7, 7), (ROWS, 1)):
        body = {"release": "approval", "rows": rows, "account": BUDGET}
        found = house.ask("POST", "/api/v1/previews", key, json=body)
        assert found.json()["rows"] == count
        assert found.json()["guarantees"]
    assert spent(house) == []


FREE_INSTEAD = "the release 'free' explains the same model exactly and at no cost"


def test_noise_without_need_is_said_before_and_beside_the_answer(tmp_path: Path) -> None:
    free = MORE.replace("[releases.open]", "[releases.free]").replace("anonymous = true\n", "")
    with serving(home(tmp_path / "home", free)) as house:
        key = house.key(Duty.EXPLAIN)

        def remarks(found: Any) -> list[str]:
            return [each for each in found["remarks"] if FREE_INSTEAD in each]

        def previewed(release: str, account: str | None) -> list[str]:
            body = {"release": release, "account": account}
            return remarks(house.ask("POST", "/api/v1/previews", key, json=body).json())

        assert len(previewed("approval", BUDGET)) == len(previewed("people", PEOPLES_BUDGET)) == 1
        assert previewed("free", None) == []
        listed = house.ask("GET", "/api/v1/releases", key).json()["releases"]
        told = {each["name"]: len(remarks(each["price_of_one_row"])) for each in listed}
        assert told == {"approval": 1, "free": 0, "people": 1}
        assert len(remarks(house.explain(key, account=None).json()["price"])) == 1
        first, again = house.explain(key).json(), house.explain(key).json()
        assert len(remarks(first)) == 1
        assert again["remarks"] == first["remarks"]
        assert house.explain(key, "free").json()["remarks"] == []
        body, headers = {"instances": [[3, 6, "no"]]}, {"Voile-Account": BUDGET}
        path = "/v1/models/approval:explain"
        instances = house.ask("POST", path, key, json=body, headers=headers).json()
        assert len(remarks(instances["voile"])) == 1
        matrix = {"name": "rows", "shape": [1, 3], "datatype": "FP64", "data": [3, 6, 0]}
        path = "/v2/models/approval/infer"
        tensors = house.ask("POST", path, key, json={"inputs": [matrix]}, headers=headers).json()
        assert FREE_INSTEAD in tensors["parameters"]["remarks"]


def test_a_tenant_pays_from_an_account_below(house: House) -> None:
    admin = house.key(Duty.ADMINISTER)
    tenant = {"name": "tenant", "dataset": BUDGET, "epsilon": 1.0, "delta": 1e-6, "parent": BUDGET}
    public = house.ask("POST", "/api/v1/budgets", admin, json=tenant).json()["account"]
    key = house.key(Duty.EXPLAIN, Duty.OBSERVE, accounts=("tenant",))
    assert house.explain(key, account=public).json()["charges"] == [f"{BUDGET}#2"]
    assert house.explain(key, account=BUDGET).status_code == 403
    seen = house.ask("GET", f"/api/v1/budgets/{public}", key).json()
    assert seen["consumed"] > 0
    other = house.explain(house.key(), account=PEOPLES_BUDGET)
    assert (other.status_code, other.json()["detail"]) == (
        403,
        "this account does not pay for this release",
    )


def test_nobody_pays_from_the_account_of_another_person(house: House) -> None:
    key = house.key()
    house.explain(key, "people")
    vault = house.workspace.vault
    (ada,) = vault.storage.read_snapshot(lambda t: vault.ledger.children(t, PEOPLES_BUDGET))
    bob = {**PEOPLE, "id": ["bob"]}
    found = house.explain(key, "people", rows=bob, account=ada)
    assert (found.status_code, found.json()["type"]) == (403, "urn:voile:problem:not-granted")
    assert house.explain(key, "people", rows=bob).status_code == 200


def test_nobody_learns_which_accounts_there_are(house: House) -> None:
    key = house.key(accounts=("another",))
    found = [house.explain(key, account=each) for each in (BUDGET, "no such account")]
    assert [each.status_code for each in found] == [403, 403]
    assert found[0].json() == found[1].json()


def test_the_budget_ends_with_what_is_left(house: House) -> None:
    key = house.key()
    for number in range(200):
        found = house.explain(key, rows={**ROWS, "income": [number / 100]})
        if found.status_code != 200:
            break
    assert found.status_code == 403
    problem = found.json()
    assert problem["type"] == "urn:voile:problem:budget-exceeded"
    assert problem["remaining"] < problem["requested"]
    assert f"{BUDGET}#{number}" in spent(house)


def test_many_at_once_get_what_the_budget_covers_and_no_more(house: House) -> None:
    key = house.key()

    def asked(number: int) -> tuple[str, str, str, Any]:
        rows = {**ROWS, "income": [number / 100]}
        body = {"release": "approval", "rows": rows, "account": BUDGET}
        return ("POST", EXPLANATIONS, key, {"json": body})

    found = house.ask_all([asked(number) for number in range(90)])
    granted = [each for each in found if each.status_code == 200]
    refused = [each for each in found if each.status_code == 403]
    assert len(granted) + len(refused) == 90
    assert 0 < len(refused) < 90
    assert len(spent(house)) == len(granted)
    vault = house.workspace.vault
    report = vault.storage.read_snapshot(lambda t: budget_report(vault.ledger, t, BUDGET))
    assert 1 - 1 / len(granted) < report.consumed <= 1  # full: one more would not fit


def gather_for(house: House, seconds: float) -> None:
    """As if many had just asked together: whoever comes within this time is answered with them."""
    gathering, served = house.app.state.service.gathering, house.workspace.releases["approval"]
    gathering._seconds = seconds
    gathering._waiting["approval"] = Waiting(served, is_busy=True)


def test_requests_of_strangers_share_a_transaction_and_no_outcome(house: House) -> None:
    gather_for(house, 1.0)  # however slow this machine is
    one, other = house.key(caller="one"), house.key(caller="other", accounts=("nothing",))
    asked = [
        ("POST", EXPLANATIONS, key, {"json": {"release": "approval", "rows": rows, **paid}})
        for key, rows, paid in (
            (one, ROWS, {"account": BUDGET}),
            (other, OTHER_ROWS, {"account": BUDGET}),
            (one, OTHER_ROWS, {"account": BUDGET}),
            (one, {**ROWS, "debt": ["no number"]}, {"account": BUDGET}),
            (one, ROWS, {}),
        )
    ]
    found = house.ask_all(asked)
    assert [each.status_code for each in found] == [200, 403, 200, 422, 402]
    assert sorted(each.json()["charges"][0] for each in (found[0], found[2])) == spent(house)
    told = house.ask("GET", "/metrics", house.key(Duty.OPERATE)).text
    assert 'voile_answered_together_bucket{le="2.0"} 1.0' in told
    assert 'voile_answers_total{outcome="charged",release="approval"} 2.0' in told


def test_a_batch_has_an_outcome_for_each(house: House) -> None:
    requests = [
        {"rows": ROWS, "account": BUDGET},
        {"rows": OTHER_ROWS},
        {"rows": {**ROWS, "debt": [99]}, "account": BUDGET},
        {"rows": OTHER_ROWS, "account": BUDGET},
    ]
    body = {"release": "approval", "requests": requests}
    found = house.ask("POST", f"{EXPLANATIONS}/batch", house.key(), json=body).json()["answers"]
    assert [each.get("problem", {}).get("status") for each in found] == [None, 402, 422, None]
    assert found[2]["problem"]["errors"] == [{"column": "debt", "row": 1, "problem": "above"}]


def test_protected_rows_are_never_an_error_and_need_a_name(house: House) -> None:
    key = house.key()
    odd = {"id": ["eve"], "income": ["?"], "debt": [None], "employed": [1e300]}
    assert house.explain(key, "people", rows=odd).status_code == 200
    unnamed = {**PEOPLE, "id": [None]}
    found = house.explain(key, "people", rows=unnamed)
    assert (found.status_code, found.json()["type"]) == (
        400,
        "urn:voile:problem:idempotency-key-needed",
    )
    headers = {"Idempotency-Key": "1"}
    assert house.explain(key, "people", rows=unnamed, headers=headers).status_code == 200
    assert house.explain(key, "people", redraw=True).status_code == 400


# --- once only -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("release", "account"), [("approval", BUDGET), ("people", PEOPLES_BUDGET)])
def test_sent_again_it_is_the_same_answer_and_no_charge(
    house: House, release: str, account: str
) -> None:
    key, headers = house.key(), {"Idempotency-Key": "order 17"}
    first = house.explain(key, release, redraw=True, headers=headers)
    again = house.explain(key, release, redraw=True, headers=headers)
    assert first.status_code == 200
    assert again.content == first.content
    assert len(spent(house, account)) == 1
    house.explain(key, release, redraw=True, headers={"Idempotency-Key": "order 18"})
    assert len(spent(house, account)) == 2


def test_another_request_under_the_same_key_is_refused(house: House) -> None:
    key, headers = house.key(), {"Idempotency-Key": "order 17"}
    house.explain(key, headers=headers)
    for change in ({"rows": OTHER_ROWS}, {"redraw": True}, {"purpose": "appeal"}):
        found = house.explain(key, headers=headers, **change)
        assert (found.status_code, found.json()["type"]) == (
            422,
            "urn:voile:problem:idempotency-key-reused",
        )
    assert len(spent(house)) == 1


def test_also_where_nothing_was_charged_the_first_time(house: House) -> None:
    key, headers = house.key(), {"Idempotency-Key": "order 17"}
    house.explain(key)
    first = house.explain(key, headers=headers)
    assert first.json()["replayed"]
    assert house.explain(key, headers=headers).content == first.content
    assert house.explain(key, rows=OTHER_ROWS, headers=headers).status_code == 422


def test_a_key_belongs_to_caller_account_and_endpoint(house: House) -> None:
    headers = {"Idempotency-Key": "order 17"}
    one, other = house.key(caller="one"), house.key(caller="other")
    for key in (one, other):
        assert house.explain(key, redraw=True, headers=headers).status_code == 200
    found = house.ask(
        "POST",
        "/v1/models/approval:explain",
        one,
        json={"instances": [[3, 6, "no"]]},
        headers={**headers, "Voile-Account": BUDGET},
    )
    assert found.status_code == 200
    assert len(spent(house)) == 2  # the last one asked for no new noise


def test_a_key_that_expired_is_a_new_charge(tmp_path: Path) -> None:
    folder = home(tmp_path / "home", MORE + "repeat_hours = 1e-9\n")
    headers = {"Idempotency-Key": "order 17"}
    with serving(folder) as house:
        key = house.key()
        first = house.explain(key, redraw=True, headers=headers)
        again = house.explain(key, redraw=True, headers=headers)
        assert first.json()["charges"] != again.json()["charges"]
        assert len(spent(house)) == 2


def test_a_service_that_was_started_again_gives_the_same_answer(tmp_path: Path) -> None:
    folder = home(tmp_path / "home")
    headers = {"Idempotency-Key": "order 17"}
    with serving(folder) as house:
        key = house.key()
        first = house.explain(key, redraw=True, headers=headers)
    with serving(folder) as house:
        assert house.explain(key, redraw=True, headers=headers).content == first.content
        assert len(spent(house)) == 1


def test_sent_twice_at_once_it_is_charged_once(house: House) -> None:
    key, headers = house.key(), {"Idempotency-Key": "order 17"}
    body = {"release": "approval", "rows": ROWS, "account": BUDGET, "redraw": True}
    one = ("POST", EXPLANATIONS, key, {"json": body, "headers": headers})
    found = house.ask_all([one] * 5)
    assert sorted({each.status_code for each in found}) == [200, 409]
    assert len(spent(house)) == 1


def test_two_processes_with_one_key_charge_once(house: House) -> None:
    """Each process knows only its own running requests: the transaction decides."""
    key, headers = house.key(), {"Idempotency-Key": "order 17"}
    body = {"release": "approval", "rows": ROWS, "account": BUDGET, "redraw": True}

    class Forgetful(set[bytes]):
        def __contains__(self, _: object) -> bool:
            return False

    house.app.state.service.running = Forgetful()
    one = ("POST", EXPLANATIONS, key, {"json": body, "headers": headers})
    found = house.ask_all([one] * 3)
    assert {each.status_code for each in found} == {200}
    assert len({each.content for each in found}) == 1
    assert len(spent(house)) == 1


# --- proofs --------------------------------------------------------------------------------------


def test_a_receipt_is_for_whoever_got_the_answer(house: House) -> None:
    key, other = house.key(Duty.EXPLAIN, caller="one"), house.key(Duty.EXPLAIN, caller="other")
    for release in ("open", "approval"):
        found = house.explain(key, release, saved=True)
        (entry,) = found.json()["entries"]
        path = f"/api/v1/receipts/{entry['record']}"
        early = house.ask("GET", path, key)
        assert (early.status_code, early.headers["retry-after"]) == (409, "5")
        house.workspace.vault.publish()
        receipt = house.ask("GET", path, key, headers={"Prefer": "wait=1"})
        stored = Explanation.from_bytes(base64.b64decode(entry["explanation"]))
        report = verify_receipt(
            receipt.content, house.workspace.vault.policy, answer=explanation_bytes(stored)
        )
        assert report.verified
        assert house.ask("GET", path, other).status_code == 404
        assert stored.values.tolist() == found.json()["values"]
    assert house.explain(other).json()["replayed"]
    record = found.json()["records"][0]
    assert house.ask("GET", f"/api/v1/receipts/{record}", other).status_code == 200


# --- protocols of inference platforms ------------------------------------------------------------


KSERVE: bytes = (
    b"POST /v1/models/sklearn-iris:explain HTTP/1.1\r\n"
    b"Host: sklearn-iris.kserve-test.example.com\r\n"
    b"User-Agent: curl/8.5.0\r\n"
    b"Accept: */*\r\n"
    b"Content-Type: application/json\r\n"
    b"Content-Length: 76\r\n"
    b"\r\n"
    b'{  "instances": [    [6.8,  2.8,  4.8,  1.4],    [6.0,  3.4,  4.5,  1.6]  ]}'
)
"""What curl sends of the request in KServe's first example (it leaves out ends of lines), with the
verb of explainers."""


def test_kserve_v1_byte_for_byte_as_its_documentation_shows(tmp_path: Path) -> None:
    """From a free release that is open to anybody: no key, no header of ours."""
    with serving(flowers_beside(home(tmp_path / "home"))) as house:
        head, _, content = house.runner.run(sent(house, KSERVE)).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK\r\n")
        found = json.loads(content)
    assert len(found["explanations"]) == len(found["predictions"]) == 2
    for explained, predicted in zip(found["explanations"], found["predictions"], strict=True):
        assert explained["feature_names"] == list(NAMES)
        total = np.sum(explained["values"], axis=0) + explained["base_values"]
        assert total == pytest.approx(predicted)
        assert np.argmax(predicted) == 1  # as in the answer that the documentation shows


async def sent(house: House, request: bytes) -> bytes:
    """What comes back from the service's own HTTP server."""
    config = uvicorn.Config(house.app, http=PatientProtocol, ws="none", lifespan="off")
    config.load()

    def connect() -> PatientProtocol:
        return PatientProtocol(config, ServerState(), {})

    async with await asyncio.get_running_loop().create_server(connect, "127.0.0.1") as server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        (length,) = re.findall(rb"content-length: (\d+)", head)
        content = await reader.readexactly(int(length))
        writer.close()
        return head + content


def test_rows_that_are_none_are_told_so(house: House) -> None:
    for release in ("approval", "people"):
        rows = PEOPLE if release == "people" else ROWS
        nothing: dict[str, list[Any]] = {name: [] for name in rows}
        for wrong in (nothing, {**rows, "debt": [1, 2]}):
            found = house.explain(house.key(), release, rows=wrong).json()
            assert found["errors"][0]["problem"].startswith("expected one row at least")


@pytest.mark.parametrize("called", ["instances", "inputs"])
@pytest.mark.parametrize("kind", [None, "application/x-www-form-urlencoded", "text/plain"])
def test_what_its_documentation_shows_for_curl_is_read_as_json(
    house: House, called: str, kind: str | None
) -> None:
    content = f'{{"{called}": [[3.0, 6.0, "no"]]}}'.encode()
    headers = {} if kind is None else {"Content-Type": kind}
    found = house.ask("POST", "/v1/models/open:explain", content=content, headers=headers)
    assert len(found.json()["explanations"]) == 1


def test_predictions_of_protected_rows_do_not_leave(house: House) -> None:
    instances = {"instances": [{"id": "ada", "income": 3, "debt": 6, "employed": "no"}]}
    found = house.ask(
        "POST",
        "/v1/models/people:explain",
        house.key(),
        json=instances,
        headers={"Voile-Account": PEOPLES_BUDGET},
    )
    assert found.json()["predictions"] is None
    assert found.json()["voile"]["charges"] == [f"{PEOPLES_BUDGET}#2"]


def test_open_inference_protocol(house: House) -> None:
    key, headers = house.key(), {"Voile-Account": house.workspace.public_name(BUDGET)}
    matrix = [{"name": "rows", "shape": [1, 3], "datatype": "FP64", "data": [3, 6, 0]}]
    columns = [
        {"name": "income", "shape": [1], "datatype": "INT64", "data": [3]},
        {"name": "debt", "shape": [1, 1], "datatype": "FP64", "data": [[6.0]]},
        {"name": "employed", "shape": [1], "datatype": "BYTES", "data": ["no"]},
    ]
    path = "/v2/models/approval/infer"
    found = [
        house.ask("POST", path, key, json={"inputs": each}, headers=headers).json()
        for each in (matrix, columns)
    ]
    assert found[0] == found[1]
    outputs = {each["name"]: each for each in found[0]["outputs"]}
    assert {name: each["shape"] for name, each in outputs.items()} == {
        "values": [1, 3, 1],
        "base_values": [1, 1],
        "half_widths": [1, 3, 1],
    }
    assert '"epsilon": 0.5' in found[0]["parameters"]["guarantees"]
    wanted = {"inputs": matrix, "outputs": [{"name": "values"}]}
    only = house.ask("POST", path, key, json=wanted, headers=headers).json()
    assert [each["name"] for each in only["outputs"]] == ["values"]


DISAGREEING: list[dict[str, Any]] = [
    {"inputs": [{"name": "rows", "shape": [2, 3], "datatype": "FP64", "data": [3, 6, 0]}]},
    {"inputs": [{"name": "rows", "shape": [1, 3], "datatype": "BYTES", "data": ["a"] * 3}]},
    {"inputs": [{"name": "rows", "shape": [1, 3], "datatype": "FP64", "data": [3, 6, "no"]}]},
    {"inputs": [{"name": "rows", "shape": [1, 2], "datatype": "FP64", "data": [3, 6]}]},
    {"inputs": [{"name": "income", "shape": [1], "datatype": "odd", "data": [3]}]},
    {
        "inputs": [{"name": "rows", "shape": [1, 3], "datatype": "FP64", "data": [3, 6, 0]}],
        "outputs": [{"name": "gradients"}],
    },
]


def test_tensors_that_do_not_agree_are_told_before_anything_is_charged(house: House) -> None:
    headers, key = {"Voile-Account": BUDGET}, house.key()
    for wrong in DISAGREEING:
        found = house.ask("POST", "/v2/models/approval/infer", key, json=wrong, headers=headers)
        assert found.status_code == 422
    assert spent(house) == []


# --- faults --------------------------------------------------------------------------------------


def test_a_fault_of_the_database_is_everybody_s_and_charges_nobody(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = house.key()

    def broken(*_: object) -> None:
        raise StorageFull("no room left on /the/disk")

    with monkeypatch.context() as patched:
        patched.setattr(type(house.workspace.service), "answer_many", broken)
        one = ("POST", EXPLANATIONS, key, {"json": {"release": "open", "rows": ROWS}})
        for found in house.ask_all([one] * 3):
            assert (found.status_code, found.headers["retry-after"]) == (503, "5")
            assert "/the/disk" not in found.text
    assert house.explain(key).status_code == 200


def test_an_answer_that_cannot_be_read_any_more_is_one_caller_s_trouble(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    gather_for(house, 0.5)
    key, headers = house.key(), {"Idempotency-Key": "order 17"}
    house.explain(key, headers=headers)
    plain = type(house.workspace)._again

    def damaged(*_: object) -> None:
        raise InvalidInput("damaged")

    monkeypatch.setattr(type(house.workspace), "_again", damaged)
    body = {"release": "approval", "rows": ROWS, "account": BUDGET}
    again = ("POST", EXPLANATIONS, key, {"json": body, "headers": headers})
    other = ("POST", EXPLANATIONS, key, {"json": {**body, "rows": OTHER_ROWS}})
    assert [each.status_code for each in house.ask_all([again, other])] == [422, 200]
    monkeypatch.setattr(type(house.workspace), "_again", plain)
    assert house.explain(key, headers=headers).status_code == 200
