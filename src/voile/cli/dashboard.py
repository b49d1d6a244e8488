"""`voile dashboard`: the pages of the service as files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from voile.app.commands.dashboard import ExportDashboard
from voile.cli.commands import add_command
from voile.cli.output import print_facts

if TYPE_CHECKING:
    from voile.app.dashboard.export import ExportResult

app = typer.Typer(
    name="dashboard",
    help="Write the pages of the dashboard as files. `voile serve` shows them live.",
    no_args_is_help=True,
)


def _show_export(done: ExportResult, *, as_json: bool) -> None:
    print_facts({"folder": str(done.folder), "pages": done.pages}, as_json=as_json)


add_command(app, "export", ExportDashboard, _show_export, "pages --duty audit --duty observe")
