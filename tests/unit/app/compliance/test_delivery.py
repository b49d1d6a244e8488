"""Alerts reach people: signed, in order, again until it works, and only whom they are for."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.unit.app.budget_examples import drawn, request
from tests.unit.app.compliance.examples import Ruled, rule
from tests.unit.app.compliance.test_enforcement import STOP, exactly

from voile.app.compliance.delivery import (
    Delivering,
    DeliveryFault,
    LogLines,
    Mail,
    Webhook,
    deliver,
    look_for_findings,
)
from voile.core.errors import InvalidInput
from voile.records.rule_book import OUTBOX, OutboxRow, channel

SECRET = b"0123456789abcdef0123456789"
NOW = 2e9


@dataclass
class Box:
    """Takes messages, or fails."""

    name: str = "box"
    custodian: bool = False
    broken: bool = False
    sent: list[dict[str, Any]] = field(default_factory=list)

    def send(self, row: OutboxRow) -> None:
        if self.broken:
            raise DeliveryFault("refused")
        self.sent.append(json.loads(row.body))


def alerted(folder: Path) -> Ruled:
    ruled = Ruled.create(folder, STOP)
    ruled.ask("one", event=exactly(0.85))
    return ruled


def test_messages_are_sent_once_and_in_order(tmp_path: Path) -> None:
    ruled, box = alerted(tmp_path), Box()
    assert deliver(ruled.vault, box, now=NOW).sent == 2
    assert [each["event.action"] for each in box.sent] == ["alert", "measure"]
    assert deliver(ruled.vault, box, now=NOW).sent == 0
    assert deliver(ruled.vault, Box("other"), now=NOW).sent == 2  # each channel by itself


def test_a_channel_that_fails_is_tried_again_later_and_later(tmp_path: Path) -> None:
    ruled, box = alerted(tmp_path), Box(broken=True)
    now, waits = NOW, []
    for _ in range(12):
        found = deliver(ruled.vault, box, now=now)
        assert (found.sent, found.waiting, found.problem) == (0, 2, "refused")
        at = ruled.vault.storage.read_snapshot(lambda t: channel(t, "box"))
        waits.append(at.retry - now)
        assert deliver(ruled.vault, box, now=at.retry - 0.1).sent == 0
        now = at.retry
    assert waits[:4] == [1, 2, 4, 8]
    assert waits[-1] == 300
    box.broken = False
    assert deliver(ruled.vault, box, now=now).sent == 2


def test_a_message_names_fields_of_the_elastic_common_schema_and_nobody(tmp_path: Path) -> None:
    file = tmp_path / "alerts.jsonl"
    ruled = alerted(tmp_path)
    deliver(ruled.vault, LogLines("log", file), now=NOW)
    alert, measure = map(json.loads, file.read_text().splitlines())
    assert alert["event.kind"] == "alert"
    assert alert["ecs.version"].startswith("8.")
    assert alert["rule.id"] == STOP.name
    assert alert["voile.subject"] == "clinic"
    assert measure["log.level"] == "error"
    assert "ada" not in file.read_text()
    assert "stop" in measure["message"]


# --- webhook -------------------------------------------------------------------------------------


@contextmanager
def receiving(status: int = 200) -> Iterator[tuple[str, list[tuple[dict[str, str], bytes]]]]:
    """A receiver on this machine: its address, and what it got."""
    got: list[tuple[dict[str, str], bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            got.append((dict(self.headers.items()), body))
            self.send_response(status)
            self.send_header("location", "http://127.0.0.1:9/elsewhere")
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Says nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/alerts", got
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_webhook_is_signed(tmp_path: Path) -> None:
    ruled = alerted(tmp_path)
    with receiving() as (url, got):
        assert deliver(ruled.vault, Webhook("hook", url, SECRET), now=NOW).sent == 2
    headers, body = got[0]
    lower = {name.lower(): value for name, value in headers.items()}
    signed = f"{lower['webhook-id']}.{lower['webhook-timestamp']}.".encode() + body
    expected = base64.b64encode(hmac.digest(SECRET, signed, hashlib.sha256)).decode()
    assert lower["webhook-signature"] == f"v1,{expected}"
    assert json.loads(body)["event.id"] == lower["webhook-id"]


@pytest.mark.parametrize("status", [301, 404, 500])
def test_whatever_is_no_success_is_tried_again(tmp_path: Path, status: int) -> None:
    ruled = alerted(tmp_path)
    with receiving(status) as (url, got):
        found = deliver(ruled.vault, Webhook("hook", url, SECRET), now=NOW)
    assert (found.sent, found.problem) == (0, f"answered with status {status}")
    assert len(got) == 1  # nobody is followed elsewhere


def test_nobody_there(tmp_path: Path) -> None:
    ruled = alerted(tmp_path)
    found = deliver(ruled.vault, Webhook("hook", "http://127.0.0.1:9/x", SECRET), now=NOW)
    assert found.problem == "ConnectionRefusedError"


def test_a_secret_comes_from_a_file_and_is_long_enough(tmp_path: Path) -> None:
    key = tmp_path / "hook.key"
    key.touch(mode=0o600)
    key.write_text("whsec_" + base64.b64encode(SECRET).decode() + "\n")
    assert Webhook.from_file("hook", "https://x", key, custodian=False).secret == SECRET
    key.write_text("short")
    with pytest.raises(InvalidInput, match="at least 24"):
        Webhook.from_file("hook", "https://x", key, custodian=False)


# --- mail ----------------------------------------------------------------------------------------


class _Smtp(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        self.wfile.write(b"220 here\r\n")
        letter: list[str] = []
        reading = False
        for raw in self.rfile:
            line = raw.decode().rstrip("\r\n")
            if reading:
                if line == ".":
                    reading = False
                    self.server.letters.append("\n".join(letter))  # type: ignore[attr-defined]
                    self.wfile.write(b"250 kept\r\n")
                letter.append(line)
            elif line.upper() == "DATA":
                reading = True
                self.wfile.write(b"354 go on\r\n")
            elif line.upper() == "QUIT":
                self.wfile.write(b"221 bye\r\n")
                return
            else:
                self.wfile.write(b"250 fine\r\n")


def test_a_mail_says_what_happened(tmp_path: Path) -> None:
    ruled = alerted(tmp_path)
    with socketserver.TCPServer(("127.0.0.1", 0), _Smtp) as server:
        server.letters = []  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        place = ("127.0.0.1", server.server_address[1])
        mail = Mail("mail", place, "voile@example.org", ("dpo@example.org",), tls="none")
        found = deliver(ruled.vault, mail, now=NOW)
        server.shutdown()
        thread.join()
    assert (found.sent, found.problem) == (2, "")
    assert "Subject: voile: alert: budget.used of clinic" in server.letters[0]  # type: ignore[attr-defined]


# --- for the custodian alone ---------------------------------------------------------------------


def test_findings_of_the_watch_reach_the_custodian_alone(tmp_path: Path) -> None:
    ruled = Ruled.create(tmp_path, rule(metric="caller.overlap", account="clinic"))
    ruled.clock.time = NOW
    size = len(ruled.records())
    people = [bytes([number]) * 32 for number in range(20)]
    for number in range(2):  # their difference is about one person
        asked = request(f"population {number}", population=frozenset(people[number:]))
        ruled.service.answer_request(asked, drawn("x"))
    assert look_for_findings(ruled.vault, now=NOW) >= 1
    assert look_for_findings(ruled.vault, now=NOW) == 0  # told today
    anybody, custodian = Box(), Box("custodian", custodian=True)
    deliver(ruled.vault, anybody, now=NOW)
    deliver(ruled.vault, custodian, now=NOW)
    assert anybody.sent == []
    assert any("differencing" in each["message"] for each in custodian.sent)
    assert len(ruled.records()) == size + 2  # two charges: the log says nothing of it
    left = ruled.vault.storage.read_snapshot(lambda t: t.scan(OUTBOX))
    assert all(row.custodian for row in left)


def test_a_service_tells_by_itself_and_outlives_a_channel_that_breaks(tmp_path: Path) -> None:
    ruled, box, told = alerted(tmp_path), Box(), threading.Event()

    class Breaking(Box):
        def send(self, row: OutboxRow) -> None:
            raise RuntimeError(f"a bug at {row.number}")

    class Telling(Box):
        def send(self, row: OutboxRow) -> None:
            super().send(row)
            if len(self.sent) == 2:
                told.set()

    box = Telling()
    with Delivering(ruled.vault, [box, Breaking("worse")]):
        assert told.wait(60)
    assert len(box.sent) == 2
