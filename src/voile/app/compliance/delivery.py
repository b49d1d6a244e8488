"""Telling people: an outbox in the database, emptied in order, again and again until it succeeds.

What is to be told was written in the transaction that caused it. Each channel goes through the
outbox by itself and remembers how far it has come, so a crash loses nothing; what was sent and not
yet remembered is sent once more, with the same identifier. One that fails is tried again, later and
later, up to five minutes.

A webhook is signed as standardwebhooks.com says: HMAC-SHA256 over identifier, time and body.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import json
import logging
import math
import os
import smtplib
import ssl
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from email.message import EmailMessage
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import urlsplit

from voile.app.compliance.enforcement import (
    StoredStandings,
    finding_message,
    rules_in_force,
)
from voile.compliance import Metric, State
from voile.core.errors import InvalidInput, VoileError
from voile.core.input_file import read_private
from voile.records.ledger import watch
from voile.records.rule_book import (
    OutboxRow,
    add_message,
    channel,
    keep_channel,
    message_count,
    messages,
)
from voile.records.storage import Reader, Transaction
from voile.records.vault import Vault

_PATIENCE: Final = 10.0
_LONGEST_WAIT: Final = 300.0
_SHORTEST_SECRET: Final = 24
_PREFIX: Final = "whsec_"
_POLL: Final = 1.0
_WATCHED: Final = "findings of the watch"
_MOST_FINDINGS: Final = 500
_DAY: Final = 86_400
_log = logging.getLogger(__name__)


class DeliveryFault(VoileError):
    """A channel did not take a message; it is tried again."""


class Channel(Protocol):
    """Where messages go.

    Args:
        name: by which it remembers how far it has come.
        custodian: whether the custodian, and nobody else, reads it.
    """

    @property
    def name(self) -> str: ...

    @property
    def custodian(self) -> bool: ...

    def send(self, row: OutboxRow) -> None:
        """Deliver one message; `DeliveryFault` if that did not work."""


@dataclass(frozen=True)
class Webhook:
    """A POST to a URL.

    Args:
        secret: what it is signed with.
    """

    name: str
    url: str
    secret: bytes
    custodian: bool = False

    @classmethod
    def from_file(cls, name: str, url: str, key: Path, *, custodian: bool) -> Webhook:
        """With the secret that a file holds; `whsec_` and base64, or any text."""
        text = read_private(key, "the secret of a webhook").decode(errors="replace").strip()
        secret = text.encode()
        if text.startswith(_PREFIX):
            secret = base64.b64decode(text.removeprefix(_PREFIX))
        if len(secret) < _SHORTEST_SECRET:
            raise InvalidInput(f"{key}: a secret has at least {_SHORTEST_SECRET} bytes")
        return cls(name, url, secret, custodian)

    def send(self, row: OutboxRow) -> None:
        """See `Channel`."""
        body, now = row.body.encode(), str(int(time.time()))
        identifier = json.loads(row.body).get("event.id", f"{self.name}/{row.number}")
        signed = hmac.digest(self.secret, f"{identifier}.{now}.".encode() + body, hashlib.sha256)
        headers = {
            "content-type": "application/json",
            "webhook-id": identifier,
            "webhook-timestamp": now,
            "webhook-signature": f"v1,{base64.b64encode(signed).decode()}",
        }
        place = urlsplit(self.url)
        path = (place.path or "/") + (f"?{place.query}" if place.query else "")
        try:
            connection = self._connection(place.scheme, place.netloc)
            try:
                connection.request("POST", path, body, headers)
                status = connection.getresponse().status
            finally:
                connection.close()
        except (OSError, http.client.HTTPException) as error:
            raise DeliveryFault(f"{type(error).__name__}") from error
        if not 200 <= status < 300:
            raise DeliveryFault(f"answered with status {status}")

    def _connection(self, scheme: str, place: str) -> http.client.HTTPConnection:
        if scheme == "https":
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(place, timeout=_PATIENCE, context=context)
        return http.client.HTTPConnection(place, timeout=_PATIENCE)


@dataclass(frozen=True)
class Mail:
    """An e-mail by SMTP.

    Args:
        server: host and port.
        tls: "starttls", "tls" from the first byte, or "none".
        user, password: an environment variable holds the password.
    """

    name: str
    server: tuple[str, int]
    sender: str
    to: tuple[str, ...]
    tls: str = "starttls"
    user: str | None = None
    password: str | None = None
    custodian: bool = False

    def send(self, row: OutboxRow) -> None:
        """See `Channel`."""
        told = json.loads(row.body)
        letter = EmailMessage()
        letter["From"], letter["To"] = self.sender, ", ".join(self.to)
        letter["Subject"] = f"voile: {told['message']}"[:200].replace("\n", " ")
        letter.set_content(json.dumps(told, indent=1, ensure_ascii=False))
        try:
            with self._session() as session:
                session.send_message(letter)
        except (OSError, smtplib.SMTPException) as error:
            raise DeliveryFault(f"{type(error).__name__}") from error

    def _session(self) -> smtplib.SMTP:
        host, port = self.server
        if self.tls == "tls":
            context = ssl.create_default_context()
            session: smtplib.SMTP = smtplib.SMTP_SSL(host, port, timeout=_PATIENCE, context=context)
        else:
            session = smtplib.SMTP(host, port, timeout=_PATIENCE)
        if self.tls == "starttls":
            session.starttls(context=ssl.create_default_context())
        if self.user is not None:
            session.login(self.user, os.environ.get(self.password or "", ""))
        return session


@dataclass(frozen=True)
class LogLines:
    """A line of JSON for each message, in a file or on standard error."""

    name: str
    file: Path | None = None
    custodian: bool = False

    def send(self, row: OutboxRow) -> None:
        """See `Channel`."""
        if self.file is None:
            sys.stderr.write(row.body + "\n")
            return
        try:
            with self.file.open("a", encoding="utf-8") as lines:
                lines.write(row.body + "\n")
        except OSError as error:
            raise DeliveryFault(f"{type(error).__name__}") from error


# --- through the outbox --------------------------------------------------------------------------


@dataclass(frozen=True)
class Delivered:
    """What became of one look into the outbox.

    Args:
        sent: how many messages were sent.
        waiting: how many are left.
        problem: what went wrong; empty if nothing did.
    """

    channel: str
    sent: int
    waiting: int
    problem: str = ""


def deliver(vault: Vault, one: Channel, *, now: float, patient: bool = True) -> Delivered:
    """Send what a channel was not sent yet, in order, until something goes wrong.

    Args:
        patient: wait after a failure, longer each time.
    """
    storage, sent = vault.storage, 0
    at = storage.read_snapshot(lambda t: channel(t, one.name))
    problem = at.problem
    while not (patient and now < at.retry):
        page = storage.read_snapshot(lambda t, after=at.number: messages(t, after))  # type: ignore[misc]
        if not page:
            break
        for row in page:
            try:
                if one.custodian or not row.custodian:
                    one.send(row)
                    sent += 1
            except DeliveryFault as fault:
                wait = min(2.0**at.attempts, _LONGEST_WAIT)
                problem = str(fault)
                at = at._replace(attempts=at.attempts + 1, retry=now + wait, problem=problem)
            else:
                problem = ""
                at = at._replace(number=row.number, attempts=0, retry=0.0, problem="")
            storage.submit(lambda t, kept=at: keep_channel(t, kept))  # type: ignore[misc]
            if problem:
                return Delivered(one.name, sent, _waiting(vault, at.number), problem)
    return Delivered(one.name, sent, _waiting(vault, at.number), problem)


def _waiting(vault: Vault, number: int) -> int:
    return max(0, vault.storage.read_snapshot(message_count) - number)


def look_for_findings(vault: Vault, *, now: float) -> int:
    """Findings of the reconstruction watch that the custodian was not told of today.

    They depend on protected records. So they are looked for outside of any answer, never appear in
    the log, and only channels of the custodian get them.
    """
    rules = vault.storage.read_snapshot(rules_in_force).of_metric(Metric.OVERLAP)
    accounts = [rule.account for rule in rules if rule.account is not None]
    return sum(_look(vault, account, now) for account in accounts)


def _look(vault: Vault, account: str, now: float) -> int:
    place = (account, _WATCHED)

    def entries(t: Reader) -> int:
        if not vault.ledger.is_open(t, account):
            return 0
        return vault.ledger.path(t, account)[-1].balance.entries

    def seen(t: Reader) -> int:
        return StoredStandings(t).read(place).get("seen", State()).window

    found, before = vault.storage.read_snapshot(lambda t: (entries(t), seen(t)))
    if found == before:
        return 0

    def command(t: Transaction) -> int:
        standings = StoredStandings(t)
        states = dict(standings.read(place))
        new = 0
        for each in watch(vault.ledger, t, account):
            said = json.dumps([each.rule, sorted(each.callers)]).encode()
            name, day = hashlib.sha256(said).hexdigest()[:12], int(now // _DAY)
            if states.get(name, State()).window == day:
                continue
            states[name] = State(stage=1, window=day)
            body = finding_message(account, each.rule, each.detail, each.charges, now)
            add_message(t, body, time=now, custodian=True)
            new += 1
        states["seen"] = State(window=found)
        kept = sorted(states.items(), key=lambda item: item[1].window)[-_MOST_FINDINGS:]
        standings.write({place: dict(kept)})
        return new

    return vault.storage.submit(command)


class Delivering:
    """Empties the outbox while a service runs, in a thread of its own.

    Nobody waits for it, and what goes wrong in it stops nothing.
    """

    def __init__(
        self, vault: Vault, channels: Sequence[Channel], clock: Callable[[], float] = time.time
    ) -> None:
        self._vault, self._channels, self._clock = vault, tuple(channels), clock
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="voile telling", daemon=True)

    def __enter__(self) -> Delivering:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(_PATIENCE)

    def once(self) -> None:
        """One round through all channels."""
        now = self._clock()
        look_for_findings(self._vault, now=now)
        for each in self._channels:
            found = deliver(self._vault, each, now=now)
            if found.problem and found.sent == 0 and math.isfinite(now):
                _log.debug("alerts wait for %s: %s", each.name, found.problem)

    def _run(self) -> None:
        while not self._ended.wait(_POLL):
            try:
                self.once()
            except Exception:
                _log.exception("alerts were not sent; it is tried again")
