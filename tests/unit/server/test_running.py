"""`voile serve` as a process: it starts, answers, and ends with everything signed and kept."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from tests.unit.server.examples import BUDGET, MORE, ROWS, home
from uvicorn.server import ServerState

from voile.app.calls import handle
from voile.app.commands.serve import AddKey
from voile.records.vault import Place, open_vault_at
from voile.server import running

VOILE = [sys.executable, "-m", "voile.cli"]


@dataclass
class Process:
    """A service that runs."""

    url: str
    running: subprocess.Popen[str]
    key: str

    def explain(self, number: int, *, repeat: str | None = None) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.key}"}
        headers |= {} if repeat is None else {"Idempotency-Key": repeat}
        rows = {**ROWS, "income": [number / 100]}
        body = {
            "release": "approval",
            "rows": rows,
            "account": BUDGET,
            "redraw": repeat is not None,
        }
        return httpx.post(f"{self.url}/api/v1/explanations", json=body, headers=headers, timeout=30)

    def end(self, sign: signal.Signals) -> int:
        self.running.send_signal(sign)
        return self.running.wait(30)


@contextmanager
def process(folder: Path, log: Path) -> Iterator[Process]:
    """`voile serve`, on a free port."""
    key = handle(
        AddKey(
            workspace=folder,
            holder="ward 3",
            duties=("explain", "operator"),
            accounts=("*",),
            rate=0,
        )
    ).text
    command = [*VOILE, "serve", str(folder), "--port", "0", "--json"]
    with (
        log.open("ab") as stream,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stream, text=True) as running,
    ):
        assert running.stdout is not None
        told = ""
        while not told.endswith("}\n"):
            line = running.stdout.readline()
            assert line, log.read_text()
            told += line
        try:
            yield Process(json.loads(told)["url"], running, key)
        finally:
            running.kill()


def test_a_crash_and_an_orderly_end_lose_nothing(tmp_path: Path) -> None:
    """What was answered is charged once and given again; what is left is signed at the end."""
    folder, log = home(tmp_path / "home"), tmp_path / "log"
    with process(folder, log) as service:
        first = service.explain(1, repeat="order 17")
        assert first.json()["charges"] == [f"{BUDGET}#1"]
        service.end(signal.SIGKILL)
    with process(folder, log) as service:
        assert httpx.get(f"{service.url}/readyz").json() == {"ready": True}
        again = service.explain(1, repeat="order 17")
        assert again.content == first.content
        assert service.explain(1, repeat="order 18").json()["charges"] == [f"{BUDGET}#2"]
        assert service.end(signal.SIGTERM) == 0
    with open_vault_at(Place.within(folder), signing=None) as vault:
        assert vault.unsigned == 0
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    statuses = [line["status"] for line in lines if line["event"] == "request"]
    # The line is written after the answer: the process may be killed between the two.
    assert statuses in ([200] * 3, [200] * 4)


def test_a_connection_that_says_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "LONGEST_HEAD", 0.05)

    async def app(_: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    async def ask(*parts: bytes) -> bytes:
        """What comes back until the server hangs up."""
        config = uvicorn.Config(app, http=running.PatientProtocol, ws="none")
        config.load()

        def connect() -> running.PatientProtocol:
            return running.PatientProtocol(config, ServerState(), {})

        async with await asyncio.get_running_loop().create_server(connect, "127.0.0.1") as server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            for part in parts:
                writer.write(part)
                await writer.drain()
            found = await reader.read()
            writer.close()
            return found

    request = b"GET / HTTP/1.1\r\nHost: x\r\n"
    assert asyncio.run(ask()) == b""
    assert asyncio.run(ask(request)) == b""
    assert asyncio.run(ask(request + b"\r\n", request)).startswith(b"HTTP/1.1 204")
    ending = request + b"Connection: close\r\n\r\n"
    assert asyncio.run(ask(ending)).startswith(b"HTTP/1.1 204")


def test_a_new_connection_takes_the_place_of_the_oldest_that_is_not_being_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(running, "MOST_AT_ONCE", 3)

    async def ask() -> list[bytes]:
        """What the first gets, who is being answered; a silent one; one that comes later."""
        asked, finish = asyncio.Event(), asyncio.Event()

        async def app(scope: Any, _: Any, send: Any) -> None:
            if scope["path"] == "/slow":
                asked.set()
                await finish.wait()
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body"})

        config = uvicorn.Config(
            app, http=running.PatientProtocol, ws="none", limit_concurrency=running.MOST_AT_ONCE
        )
        config.load()
        state = ServerState()

        def connect() -> running.PatientProtocol:
            return running.PatientProtocol(config, state, {})

        async with await asyncio.get_running_loop().create_server(connect, "127.0.0.1") as server:
            place = server.sockets[0].getsockname()
            head = " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
            first, slow = await asyncio.open_connection(*place)
            slow.write(f"GET /slow{head}".encode())
            await asked.wait()
            silent, waiting = await asyncio.open_connection(*place)
            later, quick = await asyncio.open_connection(*place)
            dropped = await silent.read()
            quick.write(f"GET /quick{head}".encode())
            answered = await later.read()
            finish.set()
            found = [await first.read(), dropped, answered]
            for each in (slow, waiting, quick):
                each.close()
            return found

    first, dropped, later = asyncio.run(ask())
    assert first.startswith(b"HTTP/1.1 204")
    assert dropped == b""
    assert later.startswith(b"HTTP/1.1 204")


def test_who_is_being_answered_when_it_is_told_to_stop_gets_the_answer(tmp_path: Path) -> None:
    folder = home(tmp_path / "home", MORE.replace("delay = false", "delay = 1.0"))
    with process(folder, tmp_path / "log") as service, ThreadPoolExecutor(1) as pool:
        asking = pool.submit(service.explain, 1, repeat="order 17")
        headers = {"Authorization": f"Bearer {service.key}"}
        charged = 'voile_answers_total{outcome="charged",release="approval"} 1.0'
        while charged not in httpx.get(f"{service.url}/metrics", headers=headers).text:
            assert not asking.done() or asking.result().status_code == 200
        assert service.end(signal.SIGTERM) == 0
        assert asking.result().json()["charges"] == [f"{BUDGET}#1"]
    with open_vault_at(Place.within(folder), signing=None) as vault:
        assert vault.unsigned == 0


def test_the_log_is_signed_by_a_timer_while_it_runs(tmp_path: Path) -> None:
    folder = home(tmp_path / "home", MORE + "checkpoint_seconds = 0.05\n")
    with process(folder, tmp_path / "log") as service:
        record = service.explain(1).json()["records"][0]
        headers = {"Authorization": f"Bearer {service.key}", "Prefer": "wait=25"}
        found = httpx.get(f"{service.url}/api/v1/receipts/{record}", headers=headers, timeout=30)
        assert found.status_code == 200
