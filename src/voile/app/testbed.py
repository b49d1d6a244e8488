"""All of a federation across machines, on one: for trying out, and for tests only.

Everybody's keys lie in one folder, certificates are signed by an authority of its own, and the data
are invented: nothing here protects anybody.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from voile.app.calls import Context
from voile.app.certificates import CertificateFiles, make_certificates
from voile.app.commands.federate import StartTestbed, StopTestbed
from voile.app.federate.files import FEDERATION_FILE, NODE_FILE, NODES
from voile.app.federate.party import Say
from voile.app.federate.starting import LinkFiles, NewParty, Settings, write_federation
from voile.app.starting import SCHEMA_FILE
from voile.core.atomic_file import create_key_file, replace_file
from voile.core.errors import InvalidInput, StorageFault, UnreadableFile
from voile.core.input_file import read_text
from voile.datasets import Dataset, clinic_federation
from voile.federation.flower import QUIET, SuperLinkPlace, node_key, public_bytes, register_node
from voile.federation.flower.superlink import wait_until_there
from voile.federation.stored_text import file_stem

# --- The processes of a testbed: one SuperLink, and a node for each party ------------------------


_PATIENCE: Final = 120.0
_GRACE: Final = 10.0


@dataclass(frozen=True)
class StartedProcess:
    """A process, known again by its number and the moment at which it began: numbers are reused."""

    pid: int
    began: str

    @classmethod
    def start(cls, command: list[str], log: Path, env: Mapping[str, str]) -> StartedProcess:
        """In a session of its own, so that it outlives the terminal; what it says goes to `log`."""
        with log.open("ab") as stream, Path(os.devnull).open("rb") as nothing:
            files = ((nothing, 0), (stream, 1), (stream, 2))
            actions = [(os.POSIX_SPAWN_DUP2, file.fileno(), number) for file, number in files]
            pid = os.posix_spawn(
                command[0], command, {**os.environ, **env}, file_actions=actions, setsid=True
            )
        return cls(pid, _began(pid) or "")

    @classmethod
    def read(cls, stated: Mapping[str, Any]) -> StartedProcess:
        return cls(int(stated["pid"]), str(stated["began"]))

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def is_running(self) -> bool:
        _reap(self.pid)
        return _began(self.pid) == self.began != ""

    def end(self) -> None:
        """Ask it to, and make it if it does not within some seconds."""
        self._send(signal.SIGTERM)
        until = time.monotonic() + _GRACE
        while self.is_running and time.monotonic() < until:
            time.sleep(0.05)
        self.kill()

    def kill(self) -> None:
        """At once; returns when it is gone."""
        self._send(signal.SIGKILL)
        while self.is_running:
            time.sleep(0.02)

    def _send(self, sign: signal.Signals) -> None:
        if self.is_running:
            os.kill(self.pid, sign)


def _reap(pid: int) -> None:
    """A child that has ended stays in the table until somebody asks for it."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def _began(pid: int) -> str | None:
    """Ticks since the machine started, or None if there is no such process, or it has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in ("Z", "X") else fields[19]


def free_port() -> int:
    """One that nobody uses at this moment, from the kernel."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def installed(command: str) -> str:
    """A command of the environment that this process runs in."""
    path = Path(sys.executable).parent / command
    if not path.exists():
        raise InvalidInput(f"{path}: is not installed; pip install 'voile[federated]'")
    return str(path)


@dataclass(frozen=True)
class SuperLinkFiles:
    """What a SuperLink is started with. All of it lies in one folder."""

    folder: Path
    port: int
    certificates: CertificateFiles

    @classmethod
    def make(cls, folder: Path) -> SuperLinkFiles:
        folder.mkdir(parents=True)
        create_key_file(folder / "secret", secrets.token_bytes(32))
        return cls(folder, free_port(), make_certificates(folder))

    @property
    def secret(self) -> Path:
        return self.folder / "secret"

    @property
    def place(self) -> SuperLinkPlace:
        return SuperLinkPlace(f"127.0.0.1:{self.port}", self.certificates.authority)

    @property
    def env(self) -> dict[str, str]:
        return {**QUIET, "FLWR_HOME": str((self.folder / "flwr-home").absolute())}

    def start(self) -> StartedProcess:
        """Returns when it answers."""
        command = [
            installed("flower-superlink"),
            *superlink_options(
                "127.0.0.1",
                self.port,
                certificate=str(self.certificates.certificate),
                key=str(self.certificates.key),
                authority=str(self.certificates.authority),
                secret=str(self.secret),
                database=str(self.folder / "superlink.db"),
            ),
        ]
        started = StartedProcess.start(command, self.folder / "superlink.log", self.env)
        try:
            wait_until_there(self.place, _PATIENCE)
            if not started.is_running:
                raise StorageFault(f"the SuperLink has ended; see {self.folder / 'superlink.log'}")
        except BaseException:
            started.kill()
            raise
        return started


def superlink_options(
    host: str, port: int, *, certificate: str, key: str, authority: str, secret: str, database: str
) -> list[str]:
    """TLS, node authentication, no apps of its own, nothing installed at run time."""
    return [
        "--host", host, "--port", str(port),
        "--ssl-certfile", certificate, "--ssl-keyfile", key, "--ssl-ca-certfile", authority,
        "--enable-supernode-auth",
        "--isolation", "process", "--superexec-auth-secret-file", secret,
        "--disable-runtime-dependency-installation",
        "--database", database,
    ]  # fmt: skip


# --------------------------------------------------------------------------------------------------


STATE: Final = "testbed.json"
SUPERLINK: Final = "superlink"
NAME: Final = "testbed v1"
_PATIENTS: Final = 60
_SEED: Final = 2026
"""It makes data, never noise."""


@dataclass(frozen=True)
class LocalDeployment:
    """A testbed and its processes.

    Args:
        folder: of everything.
        port: of its SuperLink on this machine.
        parties: by name, in order.
        processes: the SuperLink, and a node for each party.
    """

    folder: Path
    port: int
    parties: tuple[str, ...]
    processes: dict[str, StartedProcess]

    @property
    def federation(self) -> Path:
        return self.folder / FEDERATION_FILE

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def superlink(self) -> SuperLinkFiles:
        home = self.folder / SUPERLINK
        files = CertificateFiles(home / "ca.crt", home / "server.crt", home / "server.key")
        return SuperLinkFiles(home, self.port, files)

    def node_file(self, party: str) -> Path:
        return self.folder / NODES / file_stem(party) / NODE_FILE

    def save(self) -> None:
        content = {
            "note": "for tests only: everybody's keys lie here",
            "port": self.port,
            "parties": self.parties,
            "processes": {name: each.to_dict() for name, each in self.processes.items()},
        }
        replace_file(self.folder / STATE, json.dumps(content, indent=2).encode())

    @classmethod
    def load(cls, folder: Path) -> LocalDeployment:
        path = folder / STATE
        if not path.exists():
            raise InvalidInput(f"{folder}: holds no testbed; make one with: voile testbed up 3")
        try:
            content: dict[str, Any] = json.loads(read_text(path))
            processes = {n: StartedProcess.read(p) for n, p in content["processes"].items()}
            return cls(folder, int(content["port"]), tuple(content["parties"]), processes)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UnreadableFile(f"{path}: is damaged; end its processes by hand") from error


def start_testbed(
    folder: Path, parties: int, *, rounds: int = 2, say: Say = lambda _: None
) -> LocalDeployment:
    """Make one, or start what does not run of the one that is there.

    Args:
        folder: of its own.
        parties: how many hospitals.
        rounds: of each stage.
    """
    if (folder / STATE).exists():
        made = LocalDeployment.load(folder)
        if parties != len(made.parties):
            raise InvalidInput(
                f"{folder}: is a testbed of {len(made.parties)} parties, and {parties} are asked "
                f"for; start it with: voile testbed up {len(made.parties)}, or choose another "
                "folder (--folder)"
            )
    else:
        say("inventing hospitals, making keys and certificates, for tests only")
        made = invented(folder, parties, rounds)
    return _started(made, say)


def stop_testbed(folder: Path, say: Say = lambda _: None) -> int:
    """End the processes of a testbed, nodes first; how many still ran. Files stay."""
    made = LocalDeployment.load(folder)
    running = {name: each for name, each in made.processes.items() if each.is_running}
    for name in sorted(running, key=lambda each: each == SUPERLINK):
        running[name].end()
        say(f"ended {name}")
    return len(running)


def invented(folder: Path, parties: int, rounds: int) -> LocalDeployment:
    """All files, and no process."""
    clinic = clinic_federation(_PATIENTS, seed=_SEED)
    names = sorted(clinic.hospitals)
    if not 1 <= parties < len(names):
        raise InvalidInput(f"a testbed has 1 to {len(names) - 1} parties, found {parties}")
    if folder.exists() and any(folder.iterdir()):
        raise InvalidInput(f"{folder}: is not empty; choose another folder for a testbed")
    folder.mkdir(parents=True, exist_ok=True)
    chosen, other = names[:parties], names[parties]
    link = SuperLinkFiles.make(folder / SUPERLINK)
    for name in (*chosen, other):
        _write_rows(clinic.hospitals[name], folder / f"{name}.csv")
    schema = folder / SCHEMA_FILE
    replace_file(schema, clinic.schema.dumps().encode())
    founders = [NewParty(n, folder / f"{n}.csv", len(clinic.hospitals[n])) for n in chosen]
    settings = Settings(
        epsilon=3.0,
        delta=1e-4,
        training={"rounds": rounds, "hidden": (16,), "distillation_steps": 50},
        held_out=((other, folder / f"{other}.csv"),),
        link=LinkFiles(link.place.address, link.certificates.authority, link.secret),
    )
    write_federation(folder, NAME, schema, founders, settings)
    made = LocalDeployment(folder, link.port, tuple(chosen), {})
    made.save()
    return made


def _started(made: LocalDeployment, say: Say) -> LocalDeployment:
    """All that is missing, or nothing: what was started here is ended if the rest cannot be.

    Each process is written down at once: nobody could end it if the start is broken off.
    """
    running = {name for name, each in made.processes.items() if each.is_running}
    started: dict[str, StartedProcess] = {}
    try:
        if SUPERLINK not in running:
            say(f"starting a SuperLink at {made.address}")
            started[SUPERLINK] = made.superlink.start()
            made = _with(made, started)
        for party in made.parties:
            if party in running:
                continue
            started[party] = _start_node(made, party)
            made = _with(made, started)
            say(f"started the node of {party}")
    except BaseException:
        for process in started.values():
            process.kill()
        raise
    if not started:
        say("all of its processes are running already")
    return made


def _start_node(made: LocalDeployment, party: str) -> StartedProcess:
    home = made.node_file(party).parent
    register_node(made.superlink.place, public_bytes(node_key(home / "flower.key")), party)
    command = [sys.executable, installed("voile"), "node", str(made.node_file(party))]
    return StartedProcess.start(command, home / "node-output.log", {})


def _with(made: LocalDeployment, processes: Mapping[str, StartedProcess]) -> LocalDeployment:
    done = replace(made, processes={**made.processes, **processes})
    done.save()
    return done


def _write_rows(data: Dataset, path: Path) -> None:
    label = data.schema.label
    assert label is not None
    names = [data.label_names[int(value)] for value in data.labels]
    columns = {**data.schema.table(data.rows), label.name: names}
    lines = [tuple(columns), *zip(*columns.values(), strict=True)]
    replace_file(path, "".join(",".join(map(str, line)) + "\n" for line in lines).encode())


# --- A testbed, from the command to the result ---------------------------------------------------


@dataclass(frozen=True)
class TestbedStartResult:
    """A testbed that runs.

    Args:
        superlink: its address.
        federation: file of the agreement.
        nodes: file of each party.
    """

    folder: Path
    superlink: str
    federation: Path
    nodes: Mapping[str, Path]


@dataclass(frozen=True)
class TestbedStopResult:
    """How many processes still ran, and were ended."""

    ended: int


def start(command: StartTestbed, context: Context) -> TestbedStartResult:
    """Make a testbed, or start what does not run of it."""
    made = start_testbed(command.folder, command.parties, rounds=command.rounds, say=context.say)
    nodes = {party: made.node_file(party) for party in made.parties}
    return TestbedStartResult(made.folder, made.address, made.federation, nodes)


def stop(command: StopTestbed, context: Context) -> TestbedStopResult:
    """End its processes; files stay."""
    return TestbedStopResult(stop_testbed(command.folder, context.say))
