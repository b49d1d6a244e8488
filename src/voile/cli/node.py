"""`voile node`: one party of a federation, on a machine of its own."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Annotated

import typer

from voile.cli.output import JsonOption, print_json
from voile.cli.rounds import say

EPILOG = """\
Examples:

  voile node node.toml            (until Ctrl-C, or SIGTERM)

  voile node node.toml --status   (what it was asked, has spent and has refused)

  voile node node.toml --key      (makes its keys, and shows what to hand over before the start)
"""


def node(
    config: Annotated[
        Path, typer.Argument(metavar="CONFIG", help="The party's own file: node.toml.")
    ],
    status: Annotated[
        bool, typer.Option("--status", help="Show what it was asked, has spent and has refused.")
    ] = False,
    key: Annotated[
        bool,
        typer.Option("--key", help="Make its keys, and show what it hands over."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Take part in a federation whose server is elsewhere.

    The node answers with its own rows, ledger, log, randomness and voile. No code of the server
    runs here, and nothing that the server sends can set seed, path, schema, noise or budget: what
    does not fit the party's own copy of the agreement is refused, with a line in node.log.
    """
    if status:
        _show_status(config, as_json=as_json)
        return
    if key:
        _show_keys(config, as_json=as_json)
        return
    from voile.app.federate.deployed import DeployedNode
    from voile.core.one_thread import one_thread

    deployed = DeployedNode.read(config)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    say(f"agreement {deployed.agreement.digest}")
    with one_thread():
        try:
            deployed.serve(stop, say)
        except KeyboardInterrupt:
            stop.set()


def _show_keys(config: Path, *, as_json: bool) -> None:
    from voile.app.federate.enrolling import enrol
    from voile.federation.flower.keys import node_key, public_line

    found = enrol(config)
    known_by = public_line(node_key(found.flower_key)).strip()
    if as_json:
        print_json(
            {"name": found.name, "rows": found.rows, "key": found.key, "flower_key": known_by}
        )
        return
    typer.echo(
        f"for federation.toml:\n\n{found.lines}\n"
        f"for the SuperLink, whose operator saves this line as {found.name}.pub:\n\n{known_by}"
    )


def _show_status(config: Path, *, as_json: bool) -> None:
    from voile.app.federate.files import read_node
    from voile.app.federate.node_files import node_status

    agreement, party, _ = read_node(config)
    found = node_status(party, agreement)
    print_json(found.to_dict()) if as_json else typer.echo("\n".join(found.lines))
