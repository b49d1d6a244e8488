"""What the tests of the service share: a workspace with releases of three kinds, and a client."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
from fastapi import FastAPI
from tests.unit.app.recommend.test_training import opened
from tests.unit.app.workspace.examples import started
from tests.unit.recommenders.examples import DELTA, shop

from voile.app.calls import handle
from voile.app.commands.budget import OpenBudget
from voile.app.explain import ReleaseService
from voile.app.keys import issue
from voile.app.recommend import TrainingTerms, save_recommender, train
from voile.app.serving import ServedWorkspace, open_served
from voile.core.guarantee import ProtectedUnit, Relation
from voile.records.access import Duty, Grants
from voile.records.vault import Place, open_vault_at
from voile.server import create_app

CANARY: Final = "kanarienvogel7731"
ROWS: Final[dict[str, list[Any]]] = {"income": [3], "debt": [6], "employed": ["no"]}
OTHER_ROWS: Final[dict[str, list[Any]]] = {"income": [9], "debt": [1], "employed": ["yes"]}
PEOPLE: Final[dict[str, list[Any]]] = {"id": ["ada"], **ROWS}
BUDGET: Final = "customers v1"
PEOPLES_BUDGET: Final = "people v1"
MORE: Final = """
[backgrounds.public]
file = "public.csv"
origin = "public"
[accounts."people v1"]
dataset = "people v1"
unit = "explained row"
relation = "replace one"
epsilon = 2.0
delta = 1e-5
[releases.open]
model = "approval"
schema = "approval"
background = "public"
protect = "training"
anonymous = true
[releases.people]
model = "approval"
schema = "approval"
background = "public"
protect = "explained-row"
account = "people v1"
id_column = "id"
epsilon = 0.5
[serve]
delay = false
gather = 0.001
largest_body = 20_000
most_rows = 50
"""


def home(folder: Path, more: str = MORE, *, server: str | None = None) -> Path:
    """A folder with a workspace: `approval` is charged by question, `people` by record, and `open`
    is free for anybody.

    Args:
        server: address of a database that VOILE_DATABASE holds as well; else a file in the folder.
    """
    found = started(folder, **({} if server is None else {"storage": "env:VOILE_DATABASE"}))
    handle(
        OpenBudget(
            database=server or str(folder / "log.db"),
            signing_key=folder / "audit.key",
            policy=folder / "audit-policy.toml",
            account=PEOPLES_BUDGET,
            dataset=PEOPLES_BUDGET,
            unit=ProtectedUnit.EXPLAINED_ROW,
            relation=Relation.REPLACE_ONE,
            epsilon=2.0,
            delta=1e-5,
            parallel=True,
        )
    )
    found.file.write_text(found.file.read_text() + more)
    return folder


def shop_beside(folder: Path, epsilon: float = 3.0) -> Path:
    """The same with a recommender of films, which the workspace's own ledger paid for."""
    with open_vault_at(Place.within(folder), signing=None) as vault:
        opened(vault, epsilon)
        terms = TrainingTerms(account="users", epsilon=epsilon, delta=DELTA)
        moments = train(ReleaseService(vault), shop(800), terms)
        vault.keep()
    save_recommender(moments, folder / "films")
    file = folder / "voile.toml"
    file.write_text(file.read_text() + '[recommenders.films]\nsource = "films"\n')
    return folder


@dataclass
class House:
    """A service, and somebody who asks it."""

    workspace: ServedWorkspace
    app: FastAPI
    runner: asyncio.Runner

    def key(self, *duties: Duty, accounts: tuple[str, ...] = ("*",), **more: Any) -> str:
        """A new key, as it is sent."""
        told = {"caller": "ward 3", "rate": 0, **more}
        grants = Grants(duties=frozenset(duties or Duty), accounts=accounts, **told)
        return issue(self.workspace.vault, grants, seconds=1000, issuer="test").text

    def ask(self, method: str, path: str, key: str | None = None, **more: Any) -> httpx.Response:
        """One request."""
        return self.ask_all([(method, path, key, more)])[0]

    def ask_all(self, asked: Sequence[tuple[str, str, str | None, Any]]) -> list[httpx.Response]:
        """Several requests at once."""
        return self.runner.run(self._ask_all(asked))

    def explain(self, key: str | None, release: str = "approval", **more: Any) -> httpx.Response:
        """One explanation, of the usual rows for the usual account."""
        headers = more.pop("headers", {})
        usual: dict[str, Any] = {"approval": (ROWS, BUDGET), "people": (PEOPLE, PEOPLES_BUDGET)}
        rows, account = usual.get(release, (ROWS, None))
        body = {"release": release, "rows": rows, "account": account} | more
        return self.ask("POST", "/api/v1/explanations", key, json=body, headers=headers)

    async def _ask_all(
        self, asked: Sequence[tuple[str, str, str | None, Any]]
    ) -> list[httpx.Response]:
        transport = httpx.ASGITransport(self.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
            return await asyncio.gather(*(_send(client, *each) for each in asked))


class Through(httpx.BaseTransport):
    """To the application, without a network; some sendings break off after they were answered."""

    def __init__(self, house: House, breaks: int = 0) -> None:
        self.house, self.breaks, self.sent = house, breaks, 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.sent += 1
        found = self.house.ask(
            request.method,
            request.url.raw_path.decode(),
            content=request.read(),
            headers=dict(request.headers),
        )
        if self.sent <= self.breaks:
            raise httpx.ReadError("broken")
        return httpx.Response(found.status_code, headers=found.headers, content=found.content)


async def _send(
    client: httpx.AsyncClient, method: str, path: str, key: str | None, more: Any
) -> httpx.Response:
    headers = httpx.Headers(more.get("headers", {}))
    if key is not None:
        headers["Authorization"] = f"Bearer {key}"
    return await client.request(method, path, **{**more, "headers": headers})


@contextmanager
def serving(folder: Path) -> Iterator[House]:
    """The service over a workspace that is there."""
    with open_served(folder) as workspace, asyncio.Runner() as runner:
        app = create_app(workspace)
        try:
            yield House(workspace, app, runner)
        finally:
            runner.run(app.state.service.gathering.drain())
