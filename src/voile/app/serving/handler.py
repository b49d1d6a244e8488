"""`voile serve`: open the workspace, and run the service until it is told to stop."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Final

from voile.app.calls import Context
from voile.app.commands.serve import Serve
from voile.app.serving.opening import open_served
from voile.core.optional import optional

_SERVER: Final = "voile.server.running:run"
"""A door, as the command line is: loaded by name, because doors stand above the handlers."""


@dataclass(frozen=True)
class Serving:
    """Where a service answers.

    Args:
        url: its address.
        releases: names of what can be asked.
    """

    url: str
    releases: tuple[str, ...]


@dataclass(frozen=True)
class ServerAddress:
    """Where to listen.

    Args:
        certificate, private_key: files, for TLS.
    """

    host: str
    port: int
    certificate: Path | None = None
    private_key: Path | None = None


def serve(command: Serve, context: Context) -> Serving:
    """Answer until somebody says stop; `context.watch` is told where."""
    for package in ("fastapi", "uvicorn", "prometheus_client", "jwt"):
        optional(package, extra="serve")
    with open_served(command.workspace) as workspace:
        settings, folder = workspace.settings, workspace.file.folder
        address = ServerAddress(
            command.host or settings.host,
            settings.port if command.port is None else command.port,
            None if settings.certificate is None else folder / settings.certificate,
            None if settings.private_key is None else folder / settings.private_key,
        )
        releases = tuple(workspace.releases)

        def started(url: str) -> None:
            context.watch(Serving(url, releases))

        module, _, name = _SERVER.partition(":")
        url = getattr(import_module(module), name)(workspace, address, started)
    return Serving(url, releases)
