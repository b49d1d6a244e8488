"""Whatever is sent, the service answers, and never fails."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from tests.unit.server.examples import BUDGET, PEOPLE, ROWS, House, home, serving

schemathesis = pytest.importorskip("schemathesis")
EACH: Final = int(os.environ.get("VOILE_REQUESTS_EACH", "25"))
RELEASES: Final = ("approval", "people", "open")


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with serving(home(tmp_path_factory.mktemp("any") / "home")) as found:
        yield found


class Sender:
    """Sends what was made up from the description; every other time, what it names is there."""

    def __init__(self, house: House) -> None:
        self.house, self.key = house, house.key()
        self.account = house.workspace.public_name(BUDGET)
        self.count = 0
        self.statuses: Counter[int] = Counter()

    def __call__(self, case: Any) -> httpx.Response:
        self.count += 1
        if self.count % 2:
            self._name_what_is_there(case)
        told = case.as_transport_kwargs(base_url="http://service")
        more = {name: told[name] for name in ("params", "json") if told.get(name) is not None}
        headers = {"Voile-Account": BUDGET, "Idempotency-Key": str(self.count)}
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
                body["rows"] = PEOPLE if release == "people" else ROWS


def test_no_request_makes_it_fail(house: House) -> None:
    described = schemathesis.openapi.from_dict(house.app.openapi())
    send = Sender(house)
    for operation in described.get_all_operations():
        _check(operation.ok(), send)
    assert send.statuses[200] > EACH
    assert {404, 422} <= send.statuses.keys()


def _check(operation: Any, send: Sender) -> None:
    @settings(max_examples=EACH, suppress_health_check=list(HealthCheck), database=None)
    @given(case=operation.as_strategy())
    def check(case: Any) -> None:
        found = send(case)
        assert found.status_code < 500, (case.method, case.path, case.body, found.text)

    check()
