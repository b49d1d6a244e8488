"""Whatever is sent, the service answers, never fails, and tells nobody what was sent."""

from __future__ import annotations

import contextlib
import copy
import json
import logging
import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from tests.unit.server.examples import BUDGET, CANARY, PEOPLE, ROWS, House, home, serving
from tests.unit.server.test_edge import Kept

from voile.server.edge import LOG

schemathesis = pytest.importorskip("schemathesis")
IN_THE_SUITE: Final = 2_000
RELEASES: Final = ("approval", "people", "open")
HEADERS: Final = ("User-Agent", "X-Request-Id", "Referer", "Prefer", "traceparent", "tracestate")
BOOKS: Final = ("/api/v1/keys", "/api/v1/records", "/api/v1/budgets", "/api/v1/reports")
"""What administrators and auditors read: what somebody called something, and why, stands there."""
TOLD: Final = re.compile(
    rf'"(caller|purpose|reason|name|dataset|holder|parent|accounts?)": ?\[?"{CANARY}"'
)


def fuzz_service(folder: Path, requests: int, *, number: int = 0) -> int:
    """How many requests were sent; `AssertionError` at the first that fails or tells something.

    Args:
        number: other ones for each.
    """
    with serving(home(folder / "home")) as house, recorded() as recording:
        send = Sender(house, number)
        operations = [
            each.ok()
            for each in schemathesis.openapi.from_dict(house.app.openapi()).get_all_operations()
        ]
        each = -(-requests // len(operations))
        for operation in operations:
            _check(operation, send, each, recording)
        recording.check()
        assert CANARY not in house.ask("GET", "/metrics", send.key).text
        assert send.statuses[200] > requests // 50
        assert {404, 422} <= send.statuses.keys()
        return send.count


def _check(operation: Any, send: Sender, requests: int, recording: Recording) -> None:
    sent = 0

    # No example is minimised: whichever is found first is told as it is.
    @seed(send.number)
    @settings(
        max_examples=requests,
        suppress_health_check=list(HealthCheck),
        database=None,
        deadline=None,
        phases=[Phase.generate],
    )
    @given(case=operation.as_strategy())
    def check(case: Any) -> None:
        nonlocal sent
        sent += 1
        ask(case)

    def ask(case: Any) -> None:
        found = send(case)
        assert found.status_code < 500, (case.method, case.path, case.body, found.text)
        told = TOLD.sub("", found.text) if case.path.startswith(BOOKS) else found.text
        assert CANARY not in told, (case.method, case.path, case.body, found.text)
        assert CANARY not in str(found.headers)
        if send.count % 500 == 0:
            recording.check()

    check()
    while sent < requests:  # one without parameters has one example
        sent += 1
        ask(operation.Case())


class Sender:
    """Sends what was made up from the description.

    Every other time, what it names is there. Of the rest, every other one holds the canary in place
    of a text, or in a member that nobody knows. All hold it in headers.
    """

    def __init__(self, house: House, number: int) -> None:
        self.house, self.key, self.number = house, house.key(), number
        self.account = house.workspace.public_name(BUDGET)
        self.count = 0
        self.statuses: Counter[int] = Counter()
        self._chance = random.Random(number)

    def __call__(self, case: Any) -> httpx.Response:
        self.count += 1
        if self.count % 2:
            self._name_what_is_there(case)
        if self.count % 4 in (1, 2):
            self._plant(case)
        told = case.as_transport_kwargs(base_url="http://service")
        more = {name: told[name] for name in ("params", "json") if told.get(name) is not None}
        headers = dict.fromkeys(HEADERS, CANARY)
        headers |= {"Voile-Account": self._chance.choice([BUDGET, CANARY])}
        headers |= {"Idempotency-Key": self._chance.choice([f"{self.count}", CANARY])}
        path = told["url"].removeprefix("http://service")
        found = self.house.ask(told["method"], path, self.key, headers=headers, **more)
        self.statuses[found.status_code] += 1
        return found

    def _name_what_is_there(self, case: Any) -> None:
        release = RELEASES[self.count // 2 % len(RELEASES)]
        known = {"name": release, "account": self.account, "record": 1, "place": "0/000.p/1"}
        for name in case.path_parameters or {}:
            case.path_parameters[name] = known.get(name, case.path_parameters[name])
        body = case.body
        if isinstance(body, dict) and "release" in body:
            body.update(release=release, account=BUDGET)
            if "rows" in body and self.count % 4 == 1:
                body["rows"] = copy.deepcopy(PEOPLE if release == "people" else ROWS)

    def _plant(self, case: Any) -> None:
        """In one place: a text, the name of a member, a parameter."""
        if isinstance(case.body, dict | list):
            places = list(_texts(case.body))
            if places and self._chance.random() < 0.8:
                holder, key = self._chance.choice(places)
                holder[key] = CANARY
            elif isinstance(case.body, dict):
                case.body[CANARY] = CANARY
        elif case.path_parameters:
            case.path_parameters[self._chance.choice(list(case.path_parameters))] = CANARY
        else:
            case.query = {**(case.query or {}), CANARY: CANARY}


def _texts(body: Any) -> Iterator[tuple[Any, Any]]:
    """Where texts stand: what holds them, and at which key."""
    for key, value in list(body.items() if isinstance(body, dict) else enumerate(body)):
        if isinstance(value, str):
            yield body, key
        elif isinstance(value, dict | list):
            yield from _texts(value)


# --- what is written meanwhile --------------------------------------------------------------------


class Recording:
    """Lines of all logs, and traces, as others get to see them."""

    def __init__(self) -> None:
        self.kept, self.traced = Kept(), list[str]()
        self.seen = 0

    def check(self) -> None:
        """The canary is in none of them; they are forgotten."""
        lines = [each for each in self.kept.lines if '"logger": "httpx"' not in each]
        assert not [line for line in [*lines, *self.traced] if CANARY in line]
        assert '"event": "request"' in "".join(lines)
        assert "POST /api/v1/explanations" in "".join(self.traced) or self.seen
        self.seen += len(lines)
        self.kept.lines.clear()
        self.traced.clear()


class Span:
    """A span that tells what is written into it; the rest of its interface does nothing."""

    def __init__(self, traced: list[str], inner: Any) -> None:
        self._traced, self._inner = traced, inner

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        def noted(*given: Any, **more: Any) -> Any:
            self._traced.append(f"{name} {given} {more}")
            return found(*given, **more)

        return noted


@contextlib.contextmanager
def recorded() -> Iterator[Recording]:
    """What all loggers write, and what is written into spans."""
    from opentelemetry import trace

    found, root = Recording(), logging.getLogger()
    plain = trace.NoOpTracer.start_as_current_span

    @contextlib.contextmanager
    def started(tracer: Any, *given: Any, **more: Any) -> Iterator[Any]:
        found.traced.append(f"{given} {more}")
        with plain(tracer, *given, **more) as span:
            yield Span(found.traced, span)

    before = root.level, LOG.level
    root.addHandler(found.kept)
    root.setLevel(logging.INFO)
    LOG.setLevel(logging.DEBUG)
    try:
        with (
            patch.object(trace.NoOpTracer, "start_as_current_span", started),
            patch.object(trace, "get_tracer", lambda *_: trace.NoOpTracer()),
        ):
            yield found
    finally:
        root.removeHandler(found.kept)
        root.setLevel(before[0])
        LOG.setLevel(before[1])


def test_no_request_makes_it_fail_or_tell(tmp_path: Path) -> None:
    assert fuzz_service(tmp_path, IN_THE_SUITE) >= IN_THE_SUITE


def test_a_line_that_tells_is_noticed() -> None:
    with recorded() as recording:
        LOG.info("request", extra={"facts": {"value": CANARY}})
        with pytest.raises(AssertionError):
            recording.check()


def test_texts_are_found_wherever_they_stand() -> None:
    body: Any = {"a": "x", "b": [1, "y", {"c": "z"}], "d": None}
    for holder, key in list(_texts(body)):
        holder[key] = CANARY
    assert body == {"a": CANARY, "b": [1, CANARY, {"c": CANARY}], "d": None}
    assert re.fullmatch(r"\w+", CANARY)
    assert json.dumps(body)
