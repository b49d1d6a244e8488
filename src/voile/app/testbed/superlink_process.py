"""The processes of a testbed: one SuperLink, and a node for each party."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from voile.app.testbed.certificates import CertificateFiles, make_certificates
from voile.core.atomic_file import create_key_file
from voile.core.errors import InvalidInput, StorageFault
from voile.federation.flower import QUIET, SuperLinkPlace
from voile.federation.flower.superlink import wait_until_there

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
