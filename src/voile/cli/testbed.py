"""`voile testbed`: a federation across machines, all on this one; for trying out only."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from voile.app.commands.federate import StartTestbed, StopTestbed
from voile.cli.commands import command_line
from voile.cli.output import print_json

if TYPE_CHECKING:
    from voile.app.testbed import TestbedStartResult, TestbedStopResult

_UP = """\
Example:

  voile testbed up 3

  voile federate testbed/federation.toml --superlink 127.0.0.1:PORT   (as printed)

  voile testbed down
"""
app = typer.Typer(
    help="A SuperLink and nodes on this machine, for trying out and for tests only.",
    no_args_is_help=True,
)


def _show_started(made: TestbedStartResult, *, as_json: bool) -> None:
    if as_json:
        nodes = {party: str(file) for party, file in made.nodes.items()}
        files = {"folder": str(made.folder), "federation": str(made.federation), "nodes": nodes}
        print_json(files | {"superlink": made.superlink})
        return
    typer.echo(
        "for tests only: everybody's keys lie in one folder. Next, try:\n"
        f"  voile federate {made.federation} --superlink {made.superlink}\n"
        f"  voile node {next(iter(made.nodes.values()))} --status\n"
        f"  voile testbed down --folder {made.folder}"
    )


def _show_stopped(result: TestbedStopResult, *, as_json: bool) -> None:
    print_json(asdict(result)) if as_json else typer.echo(f"{result.ended} processes ended")


app.command("up", epilog=_UP)(command_line(StartTestbed, _show_started))
app.command("down", epilog="Example: voile testbed down --folder testbed")(
    command_line(StopTestbed, _show_stopped)
)
