"""Limits, headers and logs; and nothing that was sent comes out again."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.server.examples import (
    BUDGET,
    CANARY,
    PEOPLE,
    PEOPLES_BUDGET,
    ROWS,
    House,
    home,
    serving,
    shop_beside,
)
from tests.unit.server.test_duties import ENDPOINTS

from voile.records.access import Duty
from voile.server import create_app, edge
from voile.server.edge import LOG, JsonLines


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with serving(shop_beside(home(tmp_path / "home"))) as found:
        yield found


class Kept(logging.Handler):
    """Lines of a log as they are written."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(JsonLines())
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@pytest.fixture
def lines() -> Iterator[list[str]]:
    """What all loggers write."""
    kept, root = Kept(), logging.getLogger()
    before = root.level, LOG.level
    root.addHandler(kept)
    root.setLevel(logging.DEBUG)
    LOG.setLevel(logging.DEBUG)
    yield kept.lines
    root.removeHandler(kept)
    root.setLevel(before[0])
    LOG.setLevel(before[1])


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Where spans of requests end up, as an operator exports them."""
    trace = pytest.importorskip("opentelemetry.sdk.trace")
    export = pytest.importorskip("opentelemetry.sdk.trace.export")
    memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    kept, provider = memory.InMemorySpanExporter(), trace.TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(export.SimpleSpanProcessor(kept))
    monkeypatch.setattr("opentelemetry.trace.get_tracer", provider.get_tracer)
    return kept


def planted(body: Any) -> Iterator[Any]:
    """The body with the canary in place of each value and each name, one at a time."""
    if isinstance(body, dict):
        for name, value in body.items():
            rest = {key: each for key, each in body.items() if key != name}
            yield {CANARY: value, **rest}
            yield {**body, CANARY: value}
            for inner in planted(value):
                yield {**body, name: inner}
    elif isinstance(body, list):
        for place, value in enumerate(body):
            for inner in planted(value):
                yield [*body[:place], inner, *body[place + 1 :]]
    yield CANARY
    yield [CANARY]
    yield {CANARY: CANARY}


def requests(house: House) -> Iterator[tuple[str, str, Any]]:
    """Every endpoint, with the canary in every place of its path, query and body."""
    account = house.workspace.public_name(BUDGET)
    usual = {"{name}": "approval", "{account}": account, "{record}": "1", "{place}": "0/000.p/1"}
    for method, path, body, _ in ENDPOINTS:
        names = re.findall(r"\{\w+\}", path)
        for planted_name in [None, *names]:
            address = path
            for name in names:
                value = CANARY if name == planted_name else usual.get(name, CANARY)
                address = address.replace(name, value)
            yield method, f"{address}?{CANARY}={CANARY}&first={CANARY}&hours={CANARY}", body
        address = path
        for name in names:
            address = address.replace(name, usual.get(name, "0"))
        for wrong in planted(body) if body is not None else ():
            yield method, address, wrong
    for rows in planted(PEOPLE):
        body = {"release": "people", "rows": rows, "account": PEOPLES_BUDGET}
        yield "POST", "/api/v1/explanations", body
    yield "POST", "/v1/models/open:explain", {"instances": [[CANARY, 6, "no"]]}


ALLOWED = re.compile(rf'"(caller|purpose|name|dataset|holder|accounts?)": ?\[?"{CANARY}"')


def test_a_canary_in_any_place_comes_out_nowhere(
    spans: Any, house: House, lines: list[str]
) -> None:
    """But to whom it is to be told: an administrator sees the key that they have named so."""
    key = house.key()
    headers = {
        "Voile-Account": CANARY,
        "X-Request-Id": CANARY,
        "traceparent": CANARY,
        "User-Agent": CANARY,
        "Cookie": f"a={CANARY}",
        "Prefer": CANARY,
        "Referer": CANARY,
    }
    count = 0
    for method, path, body in requests(house):
        more = {} if body is None else {"json": body}
        for extra in ({}, headers):
            found = house.ask(method, path, key, headers=extra, **more)
            count += 1
            assert found.status_code < 500, (method, path, body, found.text)
            told = ALLOWED.sub("", found.text) if path.startswith("/api/v1/keys") else found.text
            assert CANARY not in told, (method, path, body, found.text)
            assert CANARY not in str(found.headers)
    assert count > 300
    assert CANARY not in house.ask("GET", "/metrics", key).text
    assert len(lines) > 300
    assert not [line for line in lines if CANARY in line and '"logger": "httpx"' not in line]
    traced = [each.to_json() for each in spans.get_finished_spans()]
    assert len(traced) > 300
    assert not [each for each in traced if CANARY in each]


def test_a_span_is_part_of_the_trace_of_its_caller(spans: Any, house: House) -> None:
    trace, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
    house.explain(house.key(), headers={"traceparent": f"00-{trace}-{parent}-01"})
    (span,) = spans.get_finished_spans()
    assert span.name == "POST /api/v1/explanations"
    assert f"{span.context.trace_id:032x}" == trace
    assert f"{span.parent.span_id:016x}" == parent
    assert dict(span.attributes) == {"http.response.status_code": 200}


def test_what_cannot_be_read_is_told_without_what_it_was(house: House) -> None:
    for content in (
        b"{" + CANARY.encode(),
        b"\xff\xfe",
        b"[1e999, NaN]",
        b"",
        b"null",
        b'"\\ud800"',
    ):
        found = house.ask("POST", "/api/v1/explanations", house.key(), content=content)
        assert found.status_code == 422
        assert CANARY not in found.text
        assert found.headers["content-type"] == "application/problem+json"


def test_a_line_of_the_log_names_the_route_and_no_value(house: House, lines: list[str]) -> None:
    key = house.key(Duty.EXPLAIN)
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    headers = {"traceparent": f"00-{trace}-00f067aa0ba902b7-01"}
    found = house.explain(key, headers=headers)
    (line,) = [json.loads(each) for each in lines if '"event": "request"' in each]
    assert line["id"] == found.headers["x-request-id"]
    assert (line["method"], line["route"], line["status"]) == ("POST", "/api/v1/explanations", 200)
    assert (line["trace"], line["caller"]) == (trace, f"key {key[6:18]}")
    assert "ward 3" not in "".join(lines)


def test_a_fault_is_told_by_its_place(
    house: House, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise RuntimeError(CANARY)

    monkeypatch.setattr(type(house.workspace), "release", broken)
    found = house.explain(house.key())
    assert (found.status_code, found.json()["type"]) == (500, "urn:voile:problem:fault")
    assert "x-request-id" in found.headers
    (line,) = [json.loads(each) for each in lines if '"event": "fault"' in each]
    assert line["error"] == "RuntimeError"
    assert any(place.startswith("broken:") for place in line["at"])
    assert CANARY not in "".join(lines)


def test_a_body_has_a_limit_whether_it_is_declared_or_not(house: House) -> None:
    async def parts() -> Any:
        for _ in range(10):
            yield b" " * 5_000

    found = [
        house.ask("POST", "/api/v1/explanations", house.key(), content=content)
        for content in (b" " * 50_000, parts())
    ]
    assert [each.status_code for each in found] == [413, 413]
    assert [each.headers["connection"] for each in found] == ["close", "close"]
    assert found[1].json()["type"] == "urn:voile:problem:too-large"


def test_there_are_at_most_so_many_rows(house: House) -> None:
    many = {name: cells * 51 for name, cells in ROWS.items()}
    assert house.explain(house.key(), rows=many).status_code == 422


def test_browsers_are_told_what_to_heed(house: House) -> None:
    for path in ("/healthz", "/nothing", "/api/v1/releases"):
        found = house.ask("GET", path)
        assert found.headers["x-content-type-options"] == "nosniff"
        assert found.headers["content-security-policy"].startswith("default-src 'none'")
        assert found.headers["cache-control"] == "no-store"
        assert "server" not in found.headers


def test_other_methods_are_told_which_there_are(house: House) -> None:
    found = house.ask("DELETE", "/api/v1/explanations", house.key())
    assert (found.status_code, found.headers["allow"]) == (405, "POST")


def test_other_loggers_write_no_arguments() -> None:
    record = logging.LogRecord("uvicorn", logging.ERROR, "f", 1, "bad %s", (CANARY,), None)
    assert CANARY not in JsonLines().format(record)


def test_no_answer_repeats_what_a_request_calls_this_host(house: House) -> None:
    for path in ("/api/v1/budgets/", "/docs/", "/healthz/"):
        found = house.ask("GET", path, house.key(), headers={"Host": "evil.example"})
        assert found.status_code == 404
        assert "location" not in found.headers


def test_a_body_that_does_not_arrive_is_not_waited_for(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edge, "LONGEST_BODY", 0.01)

    async def parts() -> Any:
        yield b'{"release": '
        await asyncio.sleep(60)

    found = house.ask("POST", "/api/v1/explanations", house.key(), content=parts())
    assert (found.status_code, found.json()["type"]) == (408, "urn:voile:problem:too-slow")
    assert found.headers["connection"] == "close"


def test_a_key_against_repetition_is_one_short_text(house: House) -> None:
    key = house.key()
    for given in (["x" * 256], [""], ["a", "b"]):
        headers = [("Idempotency-Key", each) for each in given]
        body = {"release": "approval", "rows": ROWS, "account": BUDGET}
        found = house.ask("POST", "/api/v1/explanations", key, json=body, headers=headers)
        assert found.json()["type"] == "urn:voile:problem:idempotency-key-unusable", given


def test_without_the_tracing_package_requests_are_answered_all_the_same(
    house: House, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [each for each in sys.modules if each.startswith("opentelemetry")]:
        monkeypatch.setitem(sys.modules, name, None)
    house.app = create_app(house.workspace)
    headers = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
    assert house.ask("GET", "/healthz", headers=headers).status_code == 200
    (line,) = [json.loads(each) for each in lines if '"event": "request"' in each]
    assert line["trace"] is None


def test_services_in_threads_of_one_process_name_their_requests_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While one draws identifiers, another one does: a shared generator raised there."""
    nothing: Any = None
    one, other = (edge.Edge(nothing, metrics=nothing, largest=1) for _ in range(2))
    draw, inside = secrets.token_hex, list[str]()

    def interrupted(size: int) -> str:
        if not inside:
            inside.append("now")
            inside.append(next(other._identifiers))
        return draw(size)

    monkeypatch.setattr(secrets, "token_hex", interrupted)
    first = next(one._identifiers)
    assert len({first, inside[1]}) == 2
