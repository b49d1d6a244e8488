"""`voile testbed`: a federation across machines, all on this one; for trying out only."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from voile.cli.output import JsonOption, print_json
from voile.cli.rounds import say

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
FolderOption = Annotated[
    Path, typer.Option("--folder", metavar="FOLDER", help="Of the testbed, and of nothing else.")
]


@app.command("up", epilog=_UP)
def up(
    parties: Annotated[int, typer.Argument(metavar="N", min=1, help="How many hospitals.")],
    folder: FolderOption = Path("testbed"),
    rounds: Annotated[int, typer.Option(min=1, help="Of each stage.")] = 2,
    as_json: JsonOption = False,
) -> None:
    """Invent N hospitals, make keys and certificates, and start a SuperLink and a node for each.

    For tests only: everybody's keys lie in one folder, and the data are invented. For a
    testbed that is there already, only what does not run is started, such as a node that died.
    """
    from voile.app.testbed import start_testbed

    made = start_testbed(folder, parties, rounds=rounds, say=say)
    if as_json:
        print_json(
            {
                "folder": str(made.folder),
                "superlink": made.address,
                "federation": str(made.federation),
                "nodes": {party: str(made.node_file(party)) for party in made.parties},
            }
        )
        return
    typer.echo(
        "for tests only: everybody's keys lie in one folder. Next, try:\n"
        f"  voile federate {made.federation} --superlink {made.address}\n"
        f"  voile node {made.node_file(made.parties[0])} --status\n"
        f"  voile testbed down --folder {made.folder}"
    )


@app.command("down", epilog="Example: voile testbed down --folder testbed")
def down(folder: FolderOption = Path("testbed"), as_json: JsonOption = False) -> None:
    """End the processes of a testbed. Its files stay: `up` starts it again."""
    from voile.app.testbed import stop_testbed

    ended = stop_testbed(folder, say)
    print_json({"ended": ended}) if as_json else typer.echo(f"{ended} processes ended")
