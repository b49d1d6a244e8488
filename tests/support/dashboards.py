"""A service with a dashboard, on a port of this machine, and a browser that looks at it."""

from __future__ import annotations

import shutil
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import uvicorn

from tests.unit.server.examples import BUDGET, OTHER_ROWS, PEOPLES_BUDGET, ROWS, home
from voile.app.budget import open_budget
from voile.app.keys import issue
from voile.app.serving import (
    AskedExplanation,
    Caller,
    CallerRequest,
    ServedRelease,
    ServedWorkspace,
    open_served,
)
from voile.core.guarantee import Protected, ProtectedUnit, Relation
from voile.records.access import Duty, Grants
from voile.records.audit_log import FederationRoundRecord, ParticipationRecord
from voile.records.ledger import Opening
from voile.server import create_app

HTML_NAME = "<b onclick=alert(1)>odd & 'quoted'</b>"
NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "chrome")
QUIET: Final = (
    "--no-sandbox",  # tests may run as root
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PATIENCE: Final = 60_000
"""Milliseconds: a busy machine is slow, and nothing here waits for time."""


@dataclass
class DashboardHouse:
    """A running service.

    Args:
        url: where it answers.
        keys: by name of who holds them.
    """

    workspace: ServedWorkspace
    url: str
    keys: dict[str, str] = field(default_factory=dict)

    def issue(self, name: str, *duties: Duty, accounts: tuple[str, ...] = ("*",)) -> str:
        """A new key for somebody."""
        grants = Grants(caller=name, duties=frozenset(duties), accounts=accounts, rate=0)
        self.keys[name] = issue(self.workspace.vault, grants, seconds=10_000, issuer="test").text
        return self.keys[name]


def lived_in(workspace: ServedWorkspace) -> None:
    """Something has happened: answers, refusals, accounts with odd names, rounds."""
    caller = Caller("key test", Grants(caller="ward 3", duties=frozenset(Duty), accounts=("*",)))
    _open(workspace, HTML_NAME, parent=BUDGET)
    charged = workspace.releases["approval"]
    for number in range(40):
        asked = AskedExplanation(ROWS, BUDGET, redraw=True, repeat=f"r{number}")
        workspace.answer(charged, [CallerRequest(asked, caller)])
    _refuse(workspace, charged, caller)
    people = workspace.releases["people"]
    for who in ("ada", "bob"):
        rows = {"id": [who], **ROWS}
        asked = AskedExplanation(rows, PEOPLES_BUDGET)
        workspace.answer(people, [CallerRequest(asked, caller)])
    free = workspace.releases["open"]
    workspace.answer(free, [CallerRequest(AskedExplanation(ROWS), caller)])
    _federate(workspace)
    workspace.vault.keep()


def _refuse(workspace: ServedWorkspace, charged: ServedRelease, caller: Caller) -> None:
    """One question that the account with the odd name cannot pay."""
    asked = AskedExplanation(OTHER_ROWS, HTML_NAME, redraw=True, repeat="too much")
    for number in range(9):
        again = replace(asked, repeat=f"too much {number}")
        (found,) = workspace.answer(charged, [CallerRequest(again, caller)])
        if isinstance(found, Exception):
            return
    raise AssertionError("nothing was refused")


def _open(workspace: ServedWorkspace, name: str, parent: str | None = None) -> None:
    vault = workspace.vault
    parent_account = None if parent is None else vault.account(parent)
    protected = (
        Protected(ProtectedUnit.ROW, Relation.BLANK_ONE, name)
        if parent_account is None
        else parent_account.protected
    )
    opening = Opening(name=name, protected=protected, epsilon=1.0, delta=1e-5, parent=parent)
    open_budget(vault.storage, vault.ledger, vault.log, opening, caller="test")
    workspace.name_accounts(name)


def _federate(workspace: ServedWorkspace) -> None:
    vault, now = workspace.vault, int(time.time())

    def command(t: Any) -> None:
        for number in range(1, 4):
            for party in ("north", "south"):
                vault.log.append(
                    t,
                    ParticipationRecord(
                        time=now, account=party, charge=f"{party}#{number}", federation="clinics",
                        stage="black box", round=number, epsilon=1.0, delta=1e-6, unit="row",
                        relation="zero-out", dataset=party,
                    ),
                )  # fmt: skip
            vault.log.append(
                t,
                FederationRoundRecord(
                    time=now, federation="clinics", round=number, clients=2, epsilon=1.0,
                    delta=1e-6, model=bytes(32), published_hash=bytes(32),
                ),
            )  # fmt: skip

    vault.storage.submit(command)


@contextmanager
def running(folder: Path, *, more: str | None = None) -> Iterator[DashboardHouse]:
    """The service over a workspace in which something has happened."""
    place = home(folder) if more is None else home(folder, more)
    with open_served(place) as workspace, _listening() as listening:
        lived_in(workspace)
        config = uvicorn.Config(create_app(workspace), log_config=None, ws="none", lifespan="on")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        while not server.started and thread.is_alive():
            time.sleep(0.01)
        try:
            yield DashboardHouse(workspace, f"http://127.0.0.1:{listening.getsockname()[1]}")
        finally:
            server.should_exit = True
            thread.join(60)


@contextmanager
def _listening() -> Iterator[socket.socket]:
    listening = socket.create_server(("127.0.0.1", 0))
    try:
        yield listening
    finally:
        listening.close()


def find_browser() -> str | None:
    """Where a browser of the system is."""
    return next(filter(None, map(shutil.which, NAMES)), None)


def sign_in(page: Any, house: DashboardHouse, key: str) -> None:
    """By the form, as people do."""
    page.goto(f"{house.url}/signin")
    page.fill("#key", key)
    page.click("main button")
    page.wait_for_url(lambda url: "/signin" not in url, timeout=PATIENCE)


def until(page: Any, condition: str, argument: Any = None) -> None:
    """Wait until something holds on a page. Playwright's way needs eval, which pages refuse.

    Args:
        condition: a function in JavaScript.
    """
    ends = time.monotonic() + PATIENCE / 1000
    while not page.evaluate(condition, argument):
        assert time.monotonic() < ends, f"this never came: {condition}"
        page.wait_for_timeout(30)
