"""`voile serve`: open the workspace, and run the service until it is told to stop."""

from __future__ import annotations

from dataclasses import dataclass

from voile.app.calls import Context
from voile.app.commands.serve import Serve
from voile.app.server_door import SERVICE, ServerAddress, load_server
from voile.app.serving.opening import open_served


@dataclass(frozen=True)
class Serving:
    """Where a service answers.

    Args:
        url: its address.
        releases: names of what can be asked.
    """

    url: str
    releases: tuple[str, ...]


def serve(command: Serve, context: Context) -> Serving:
    """Answer until somebody says stop; `context.watch` is told where."""
    run = load_server(SERVICE)
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

        url = run(workspace, address, started, context.stop)
    return Serving(url, releases)
