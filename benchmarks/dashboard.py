"""Pages of the dashboard over a long log and many accounts: seconds and bytes of each.

A database with a million records, a million charges in one journal and ten thousand accounts is
written straight into the tables (charging a million times would take an hour, and reads the same
afterwards). Then every page is asked for through the whole application, in this process: a page is
to take at most 200 ms and 150 kB. Where the machine is shared, CPU time is the figure that counts;
both are written down. Beside them: reading the log into memory after the start.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import numpy as np

from benchmarks.harness import Figure, write
from voile.app.dashboard import Dashboard
from voile.app.explain import ExplanationSpec
from voile.app.keys import issue
from voile.app.serving import ServedWorkspace, open_served
from voile.app.workspace import start_workspace
from voile.core.schema import Feature, Numbers, Schema
from voile.privacy.events import Gaussian
from voile.records.access import Duty, Grants
from voile.records.audit_log import RefusalRecord, ReleaseRecord
from voile.records.audit_log.log import HEADS, LEAVES, Leaf, TreeEdge
from voile.records.audit_log.merkle import grow, leaf_hash
from voile.records.audit_log.records import canonical_bytes
from voile.records.ledger import Opening
from voile.records.ledger.event_text import event_text, packed
from voile.records.ledger.tables import ENTRIES, Entry
from voile.records.storage import Transaction
from voile.records.vault import Vault
from voile.server import create_app

RECORDS: Final = 1_000_000
ACCOUNTS: Final = 10_000
BACKGROUND: Final = 100_000
"""Public rows that the model of the free release is compared with."""
REFUSED: Final = 100
"""One record in so many is a refusal."""
_CHUNK: Final = 20_000
_ROUNDS: Final = 7
_LARGEST, _LONGEST = 150_000, 0.2
_ACCOUNT: Final = "clinic 2026"
_NOISE: Final = 3000.0
_START: Final = 1_750_000_000
_FREE: Final = """
[backgrounds.public]
file = "public.csv"
origin = "public"
[releases.open]
model = "score"
schema = "score"
background = "public"
protect = "training"
[serve]
delay = false
"""
SCHEMA: Final = Schema("rows", (Feature("income", Numbers(0, 10)), Feature("debt", Numbers(0, 10))))


def score(rows: Any) -> Any:
    """A model that anybody may know."""
    return 1 / (1 + np.exp(-(np.asarray(rows)[:, 0] - np.asarray(rows)[:, 1])))


@dataclass(frozen=True)
class PageFigures:
    """One page: medians of wall-clock and CPU seconds, and its bytes."""

    path: str
    seconds: float
    cpu: float
    size: int


def run() -> None:
    """Fill, serve, ask; write `results/dashboard.json`."""
    with tempfile.TemporaryDirectory() as folder:
        place = filled(Path(folder) / "home")
        started = time.perf_counter()
        with open_served(place) as workspace:
            opened = time.perf_counter() - started
            read, pages = asyncio.run(ask(workspace))
    figures = list(as_figures(pages))
    for each in figures:
        print(f"{each.what:48} {each.ours:12.4f} {each.unit:8} {each.target} {each.met}")
    print(f"opened in {opened:.1f} s, log read in {read:.1f} s CPU")
    write(
        "dashboard",
        "none: the targets are fixed",
        figures,
        records=RECORDS,
        accounts=ACCOUNTS,
        background_rows=BACKGROUND,
        opened_seconds=round(opened, 2),
        log_read_cpu_seconds=round(read, 2),
    )


def filled(folder: Path) -> Path:
    """A workspace with all of it."""
    folder.mkdir()
    (folder / "schema.toml").write_text(SCHEMA.dumps())
    rows = np.random.default_rng(0).uniform(0, 10, (BACKGROUND, 2))
    text = "income,debt\n" + "".join(f"{a:.3f},{b:.3f}\n" for a, b in rows)
    (folder / "public.csv").write_text(text)
    (folder / "private.csv").write_text("\n".join(text.split("\n")[:401]) + "\n")
    spec = ExplanationSpec.read(
        {
            "model": "benchmarks.dashboard:score",
            "schema": str(folder / "schema.toml"),
            "model_origin": "public",
            "output_range": (0, 1),
            "protect": "background",
            "background": str(folder / "private.csv"),
            "epsilon": 0.1,
        }
    )
    promise = {"dataset": _ACCOUNT, "epsilon": 5.0, "delta": 1e-5}
    made = start_workspace(spec, promise, name="score", folder=folder)
    made.file.write_text(made.file.read_text() + _FREE)
    with open_served(folder) as workspace:
        fill(workspace.vault)
        workspace.vault.keep()
    return folder


def fill(vault: Vault) -> None:
    """Accounts below the one that pays, a long journal, a long log."""
    submit = vault.storage.submit
    for first in range(0, ACCOUNTS, 1000):
        submit(lambda t, first=first: _open(vault, t, first))  # type: ignore[misc]
    event = Gaussian(_NOISE)
    node = vault.storage.read_snapshot(lambda t: vault.ledger.node(t, _ACCOUNT))
    assert node.account.measure is not None
    cost = packed(node.account.measure.cost(event))
    begin, root = node.balance.entries + ACCOUNTS, node.account.root
    for first in range(0, RECORDS, _CHUNK):
        entries = [_entry(root, begin + n, cost, event) for n in range(first, first + _CHUNK)]
        submit(lambda t, entries=entries: t.insert_all(ENTRIES, entries))  # type: ignore[misc]
        submit(lambda t, first=first: _append(t, first))  # type: ignore[misc]


def _open(vault: Vault, t: Transaction, first: int) -> None:
    parent = vault.ledger.account(t, _ACCOUNT)
    for number in range(first, first + 1000):
        opening = Opening(
            name=f"tenant {number:05}",
            protected=parent.protected,
            epsilon=1.0,
            delta=1e-6,
            parent=_ACCOUNT,
        )
        vault.ledger.open(t, opening, caller="benchmark")


def _entry(root: str, number: int, cost: bytes, event: Gaussian) -> Entry:
    return Entry(
        root, number, "charged", root, 0, float(_START + number), 0, event_text(event), cost,
        "explanation", "", "ward 3", number.to_bytes(32, "big"), 0,
    )  # fmt: skip


def _append(t: Transaction, first: int) -> None:
    """Leaves and the edge of the tree, as the log writes them one by one."""
    head = t.get(HEADS, "log")
    assert head is not None
    size, edge, leaves = head.size, head.edge, []
    for number in range(first, first + _CHUNK):
        content = canonical_bytes(_record(number))
        edge, completed = grow(size, edge, leaf_hash(content))
        leaves.append(Leaf(size, content, b"".join(completed)))
        size += 1
    t.insert_all(LEAVES, leaves)
    t.replace(HEADS, TreeEdge("log", head.origin, size, edge))
    t.memory.clear()


def _record(number: int) -> ReleaseRecord | RefusalRecord:
    account = f"tenant {number % ACCOUNTS:05}"
    moment = _START + 20 * number
    if number % REFUSED == 0:
        return RefusalRecord(
            time=moment, account=account, reason="the budget is used up", epsilon=1.0, delta=1e-6
        )
    return ReleaseRecord(
        time=moment, account=account, charge=f"{_ACCOUNT}#{number}", subject="score",
        epsilon=0.1, delta=1e-6, unit="row", relation="blank one", dataset=_ACCOUNT,
        mechanism="Gaussian noise", guarantees=bytes(32), query=bytes(32), answer=bytes(32),
    )  # fmt: skip


async def ask(workspace: ServedWorkspace) -> tuple[float, list[PageFigures]]:
    """CPU seconds to read the log, and the figures of each page."""
    app = create_app(workspace)
    dashboard: Dashboard = app.state.dashboard
    before = time.process_time()
    dashboard.read_log(pause=0)
    read = time.process_time() - before
    grants = Grants(caller="ward 3", duties=frozenset(Duty), accounts=("*",), rate=0)
    key = issue(workspace.vault, grants, seconds=3600, issuer="benchmark").text
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        answer = await client.post("/signin", data={"key": key, "next": "/"})
        assert answer.status_code == 303
        return read, [await _asked(client, path) for path in _paths(workspace)]


def _paths(workspace: ServedWorkspace) -> list[str]:
    root = workspace.public_name(_ACCOUNT)
    tenant = workspace.public_name("tenant 05000")
    return [
        "/", "/budgets", "/budgets?first=5000", "/budgets?find=tenant+099", f"/budgets/{root}",
        f"/budgets/{tenant}", "/records", "/records?q=kind:refusal",
        "/records?q=kind:refusal+account:%22tenant+00700%22", f"/records/{RECORDS // 2}",
        "/explain", "/explain/score", "/explain/open", "/model", "/model/open", "/model/score",
        "/federation", "/evidence", "/keys", "/verify",
    ]  # fmt: skip


async def _asked(client: httpx.AsyncClient, path: str) -> PageFigures:
    walls, cpus, size = [], [], 0
    for number in range(_ROUNDS + 1):
        started, used = time.perf_counter(), time.process_time()
        answer = await client.get(path)
        passed, cpu = time.perf_counter() - started, time.process_time() - used
        assert answer.status_code == 200, (path, answer.status_code)
        size = len(answer.content)
        if number:
            walls.append(passed)
            cpus.append(cpu)
    return PageFigures(path, statistics.median(walls), statistics.median(cpus), size)


def as_figures(pages: list[PageFigures]) -> Iterator[Figure]:
    """Seconds and bytes of each page, beside what they may be."""
    for page in pages:
        name = page.path.split("/budgets/")[0] or "/"
        what = page.path if name == page.path else "/budgets/ACCOUNT"
        yield Figure(
            f"{what}: CPU time", "seconds", page.cpu, None, None, f"at most {_LONGEST}",
            page.cpu <= _LONGEST,
        )  # fmt: skip
        yield Figure(
            f"{what}: wall clock", "seconds", page.seconds, None, None, f"at most {_LONGEST}",
            page.seconds <= _LONGEST,
        )  # fmt: skip
        yield Figure(
            f"{what}: size", "bytes", float(page.size), None, None, f"at most {_LARGEST}",
            page.size <= _LARGEST,
        )  # fmt: skip
