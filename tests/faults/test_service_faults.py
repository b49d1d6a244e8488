"""The service under kill -9 and in a crowd: what was answered is charged once, and no more."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
import pytest

from tests.unit.server.examples import BUDGET, MORE, PEOPLE, PEOPLES_BUDGET, ROWS, home
from tests.unit.server.test_running import Process, process
from voile.app.budget.verification import Evidence, verify
from voile.app.workspace.file import WorkspaceFile
from voile.records.ledger import budget_report
from voile.records.ledger.history import entries_of
from voile.records.ledger.tables import Act
from voile.records.vault import Vault, open_vault_at

CLIENTS, RACERS = 8, 64
EVERY = 4
"""Of so many questions one is to the account that runs out; the others are about new people."""


@dataclass
class Asked:
    """A question with a key of its own, and what was answered: its bytes, once there are any."""

    key: str
    body: dict[str, Any]
    content: bytes = b""
    refused: bool = False


@dataclass
class Crowd:
    """Clients that ask until the service is gone, and what they were told."""

    asked: list[Asked] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def next(self, again: list[Asked]) -> Asked:
        """A question that was not answered to the end, or a new one."""
        with self.lock:
            if again:
                return again.pop()
            number = len(self.asked)
            found = Asked(f"key {number}", body(number))
            self.asked.append(found)
            return found

    def ask(self, service: Process, again: list[Asked], first: threading.Event) -> None:
        """Until the connection breaks."""
        with httpx.Client(base_url=service.url, timeout=30) as client:
            while True:
                asked = self.next(again)
                try:
                    found = send(client, service.key, asked)
                except httpx.HTTPError:
                    return
                check(asked, found)
                first.set()


def body(number: int) -> dict[str, Any]:
    """With fresh noise: without its key, each would be charged each time it is sent."""
    if number % EVERY:
        rows = {**PEOPLE, "id": [f"person {number}"]}
        return {"release": "people", "rows": rows, "account": PEOPLES_BUDGET, "redraw": True}
    rows = {**ROWS, "income": [number % 1000 / 100]}
    return {"release": "approval", "rows": rows, "account": BUDGET, "redraw": True}


def send(client: httpx.Client, key: str, asked: Asked) -> httpx.Response:
    headers = {"Authorization": f"Bearer {key}", "Idempotency-Key": asked.key}
    return client.post("/api/v1/explanations", json=asked.body, headers=headers)


def check(asked: Asked, found: httpx.Response) -> None:
    """The same bytes as before, if it was answered before."""
    assert found.status_code in (200, 403), found.text
    if asked.content:
        assert found.content == asked.content
    if found.status_code == 200:
        asked.content, asked.refused = found.content, False
    else:
        assert found.json()["type"] == "urn:voile:problem:budget-exceeded"
        asked.refused = True


def charges_in(folder: Path) -> tuple[Counter[str], Vault]:
    """Of every charge in the journal, how often it is there; what was kept is verified."""
    place = WorkspaceFile.read(folder).place
    with open_vault_at(place, signing=None) as vault:
        evidence = Evidence(vault.policy, vault.kept_copies, replay_key=vault.key_as_found)
        assert verify(vault.storage, vault.ledger, vault.log, evidence).verified

        def look(t: Any) -> Counter[str]:
            for account in (BUDGET, PEOPLES_BUDGET):
                assert budget_report(vault.ledger, t, account).consumed <= 1
            return Counter(
                f"{root}#{entry.number}"
                for root in (BUDGET, PEOPLES_BUDGET)
                for entry in entries_of(t, root)
                if entry.act == Act.CHARGED
            )

        return vault.storage.read_snapshot(look), vault


def kill_while_serving(folder: Path, rounds: int, *, database: str = "", seed: int = 5) -> int:
    """How many answers were checked; `AssertionError` if one is not charged, or charged twice."""
    chance, crowd = random.Random(seed), Crowd()
    with patch.dict(os.environ, {"VOILE_DATABASE": database}):
        place = home(folder / "home", MORE, server=database or None)
        for _ in range(rounds):
            again = [each for each in crowd.asked if not each.content and not each.refused]
            answered = [each for each in crowd.asked if each.content]
            again += chance.sample(answered, min(5, len(answered)))
            with process(place, folder / "log") as service:
                first = threading.Event()
                with ThreadPoolExecutor(CLIENTS) as pool:
                    asking = [pool.submit(crowd.ask, service, again, first) for _ in range(CLIENTS)]
                    assert first.wait(60)
                    time.sleep(chance.uniform(0, 0.4))
                    service.end(signal.SIGKILL)
                for each in asking:
                    each.result()
        with process(place, folder / "log") as service:
            answer_all(service, crowd)
            before, _ = charges_in(place)
            answer_all(service, crowd)
            assert service.end(signal.SIGTERM) == 0
        found, _ = charges_in(place)
    assert found == before  # asking all of it again has cost nothing
    answered = [each for each in crowd.asked if each.content]
    told = Counter(charge for each in answered for charge in charges_of(each))
    assert told == found  # each charge was answered, and each answer is charged, exactly once
    assert set(found.values()) <= {1}
    return len(answered)


def charges_of(asked: Asked) -> list[str]:
    import json

    found: list[str] = json.loads(asked.content)["charges"]
    return found


def answer_all(service: Process, crowd: Crowd) -> None:
    """Every question once more: with the same key, the same bytes."""
    with httpx.Client(base_url=service.url, timeout=30) as client:
        for each in crowd.asked:
            if not each.refused:
                check(each, send(client, service.key, each))


def race_for_the_last_grant(
    folder: Path, rounds: int, *, database: str = "", workers: int = 1
) -> int:
    """How many races; `AssertionError` unless exactly one of many clients gets the last grant."""
    with patch.dict(os.environ, {"VOILE_DATABASE": database}), ExitStack() as stack:
        place = home(folder / "home", MORE, server=database or None)
        services = [
            stack.enter_context(process(place, folder / f"log {n}")) for n in range(workers)
        ]
        most = grants_of(services[0], "somebody")
        for number in range(rounds):
            name = f"racer {number}"
            for grant in range(most - 1):
                assert status(services[0], name, f"{name} {grant}") == 200
            start = threading.Barrier(RACERS)

            def race(racer: int, name: str = name, start: threading.Barrier = start) -> int:
                start.wait()
                return status(services[racer % workers], name, f"{name} racer {racer}")

            with ThreadPoolExecutor(RACERS) as pool:
                found = Counter(pool.map(race, range(RACERS)))
            assert found == {200: 1, 403: RACERS - 1}, found
        charges_in(place)
    return rounds


def grants_of(service: Process, name: str) -> int:
    """How many answers one person's budget covers."""
    number = 0
    while status(service, name, f"{name} {number}") == 200:
        number += 1
    assert number > 1
    return number


def status(service: Process, name: str, key: str) -> int:
    rows = {**PEOPLE, "id": [name]}
    asked = {"release": "people", "rows": rows, "account": PEOPLES_BUDGET, "redraw": True}
    with httpx.Client(base_url=service.url, timeout=60) as client:
        return send(client, service.key, Asked(key, asked)).status_code


def test_killed_under_load_what_was_answered_is_charged_once(tmp_path: Path) -> None:
    assert kill_while_serving(tmp_path, 2) > 0


def test_of_many_clients_one_gets_the_last_grant(tmp_path: Path) -> None:
    assert race_for_the_last_grant(tmp_path, 1) == 1


@pytest.mark.real
def test_the_same_with_two_processes_on_a_server(tmp_path: Path, postgres_url: str) -> None:
    assert race_for_the_last_grant(tmp_path, 1, database=postgres_url, workers=2) == 1
